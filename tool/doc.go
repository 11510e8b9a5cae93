// Package tool declares the tools that agents can call.
//
// Most tools are functions: [Func] infers the JSON Schema of the arguments from a Go type, and
// validates every call before the function runs. Invalid arguments become an error that the model
// sees and can correct; so does an error that the function returns.
//
// # Lost workers
//
// The start of a tool is stored before it runs. A run that was lost with its worker is repeated
// only if the tool is idempotent; otherwise the result tells the model that the outcome is unknown.
// A retried call has the same [Call.ID], which can serve as an idempotency key.
package tool
