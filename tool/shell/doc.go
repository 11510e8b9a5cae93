// Package shell provides the tool shell_cmd, which runs a command on the worker's machine and shows
// its output at run time.
//
//	cmd, err := shell.New(shell.Config{Root: "/srv/project"})
//
// The result is an [Output] as JSON; a command whose exit code is not 0 is an error result.
// Progress is a series of [Chunk].
//
// # Guarantees
//
//   - Each run needs approval.
//   - The command starts in Root or below, with symbolic links resolved.
//   - It sees only the environment variables in [DefaultEnv] and Config.Env, and so none of the
//     worker's keys.
//   - No process of the command outlives the call, even one that starts its own session: on timeout,
//     on cancellation, at the end, and when the worker dies, remaining processes get SIGTERM and, 2
//     seconds later, SIGKILL. On systems other than Linux this applies only to the command's process
//     group, and not when the worker is killed. Package internal/process describes how.
//   - Output is bounded in memory, in the result and on the live stream.
//
// # Limits
//
// The tool is not a sandbox. The command has the rights of the worker's user: it can read and write
// outside Root, and stop other processes of that user. Two options restrict it: [ProtectProcess]
// protects the environment and the memory of the worker, and Config.Runner runs commands as another
// user or in a container.
//
// The tool needs a Unix system.
package shell
