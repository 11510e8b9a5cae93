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
//   - Nothing of its process group outlives the call: on timeout, cancellation, and
//     at the end, what is left gets SIGTERM and, 2 seconds later, SIGKILL.
//   - Output is bounded in memory, in the result and on the live stream.
//
// # What it is not
//
// It is not a sandbox. The command has the rights of the worker's user: it can
// read and write outside Root, leave its process group, and look into the
// processes of that user. Run workers that have this tool as a user of their own,
// in a container.
//
// The tool needs a Unix system.
package shell
