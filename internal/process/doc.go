// Package process runs programs that end with everything they started: on timeout, on cancellation, at
// their own end, and when the calling process dies, even by SIGKILL.
//
// On Linux a program runs under a supervisor, which is the calling program, started again from
// /proc/self/exe under another name. The init function of this package takes over there, before
// main. As a subreaper, the supervisor remains the ancestor of processes that start their own session.
// It has the environment of its command and nothing else of its parent. On other Unix systems, a
// program's process group ends with it, but not when the calling process is killed.
package process
