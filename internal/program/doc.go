// Package program is what the programs that run threads are made of: the
// configuration turned into agents, models, tools and hooks, the store and the stream that
// the environment names, the HTTP server, and the way a process ends.
//
// A program is a cobra command whose RunE starts things and returns when its context
// ends; [Main] runs it:
//
//	func main() { os.Exit(program.Main(command())) }
//
// An error is one line for the person at the terminal; it names the flag, variable
// or field, and the way out. The exit code is 2 for what that person wrote, 1 for
// what went wrong, 0 otherwise, also after SIGINT and SIGTERM.
package program
