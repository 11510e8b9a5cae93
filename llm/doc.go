// Package llm is the port to language models.
//
// A [Provider] converts a [Request] to a [Response] and streams the text as it arrives. It never
// executes tools, publishes events, accesses storage or checks approvals; and it never retries:
// Temporal does, depending on the [Error].
//
// Drivers are subpackages of this package: llm/openai for OpenAI and compatible servers, llm/demo
// for an offline model.
package llm
