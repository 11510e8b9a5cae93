// Package foreign is a hook workflow that waits for a person. Its author knows nothing of
// Threadmill but the JSON of its input and its result. It imports only the Temporal SDK and the
// standard library, and could be written in another language.
package foreign
