// Package tool is how an application gives its agents something to do.
//
// Most tools are a function: [Func] infers the JSON Schema of the arguments from a
// Go type, and checks every call against it before the function runs. A call that
// does not fit becomes an error that the model sees and can mend; so does an error
// that the function returns.
//
// # What happens when a worker dies
//
// The start of a tool is stored before it runs. A run that was lost with its
// worker is run again only if the tool declares itself idempotent; of any other,
// the model is told that the outcome is unknown. A retried call has the same
// [Call.ID], which can serve as an idempotency key.
package tool
