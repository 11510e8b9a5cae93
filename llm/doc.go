// Package llm is the port to language models.
//
// A [Provider] turns a [Request] into a [Response] and reports text as it
// arrives. It never executes tools, publishes events, reads or writes storage, or
// checks approvals; and it never retries: Temporal does, guided by [Error].
// Drivers lie beside this package: llm/openai for OpenAI and everything
// compatible with it, llm/demo for an offline stand-in.
package llm
