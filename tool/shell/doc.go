// Package shell is the tool shell_cmd: it runs a command on the machine of the
// worker and shows its output while it runs.
//
//	cmd, err := shell.New(shell.Config{Root: "/srv/project"})
//
// The result is the JSON form of [Output]; a command that does not exit with 0 is
// an error result. Progress is a series of [Chunk].
//
// # What it guarantees
//
//   - A person is asked before each run.
//   - The command starts in Root or below it, also where symbolic links are followed.
//   - It sees only the environment variables on the list ([DefaultEnv] and
//     Config.Env), so no key of the worker's.
//   - No process of the command outlives the call, even one that starts its own session: on timeout,
//     cancellation, at the end, and when the worker dies, what is left gets SIGTERM and, 2 seconds
//     later, SIGKILL. On other systems than Linux this holds for the process group of the command
//     only, and not when the worker is killed.
//   - Output is bounded in memory, in the result and on the live stream.
//
// # What it is not
//
// It is not a sandbox. The command has the rights of the worker's user: it can read and write
// outside Root, and stop other processes of that user. Two means limit that: [ProtectProcess] hides
// the environment and the memory of the worker, and Config.Runner takes commands to another user or
// into a container.
//
// # Supervisors
//
// On Linux a command runs below a supervisor, which is the program of the worker, started again from
// /proc/self/exe with another name. The initialization of this package takes over there, before
// main. A supervisor has the environment of its command, and nothing else of the worker.
//
// The tool needs a Unix system.
package shell
