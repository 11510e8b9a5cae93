// Package foreign is a hook workflow as somebody may write it who knows nothing of
// Threadmill but its JSON: what it is given, and what it has to return. It waits for a
// person before it decides. It imports the Temporal SDK and the standard library, and
// could as well be written in another language.
package foreign
