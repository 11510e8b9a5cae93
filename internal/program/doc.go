// Package program contains the parts of the programs that run threads: it reads the configuration,
// opens the store and the stream that the environment names, runs the worker, and ends the process.
// Package httpserver serves HTTP.
//
// A program is a cobra command whose RunE returns when its context ends; [Main] runs it:
//
//	func main() { os.Exit(program.Main(command())) }
//
// An error is one line on the terminal that names the flag, variable or field, and the way out. The
// exit code is 2 for mistakes in the user's input, 1 for other errors, and 0 otherwise, including
// after SIGINT and SIGTERM.
package program
