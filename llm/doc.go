// Package llm is the port to language models.
//
// A [Provider] converts a [Request] to a [Response] and streams the text as it arrives. It never
// executes tools, publishes events, accesses storage or checks approvals; and it never retries:
// Temporal does, depending on the [Error].
//
// Drivers are subpackages of this package: llm/openai for OpenAI and compatible servers, llm/anthropic and
// llm/google for Anthropic and Google, and llm/demo for an offline model. They also call the models on
// Azure, Amazon Bedrock and Vertex AI.
package llm
