// Package openai is the driver for OpenAI and for servers that are compatible with its Chat
// Completions API: set Config.BaseURL to the address of such a server.
//
//	model, err := openai.New(openai.Config{APIKey: os.Getenv("OPENAI_API_KEY")})
//
// [NewResponses] returns a driver for the Responses API, with the same configuration. Nothing is stored at
// the provider: each request has the whole conversation. The summaries of reasoning are thoughts, and
// encrypted reasoning is sent back to the model and account that wrote it, within the turn. Both drivers
// call Azure OpenAI with [Config].Azure.
//
// The driver never retries. A failed call returns an [llm.Error], which reports whether and when to
// retry. An incomplete reply is an error, never a short reply.
//
// The driver of Chat Completions accepts the deviations of compatible servers: tool calls without index or id,
// reasoning as reasoning_content or reasoning, complete replies instead of streams, errors in the
// middle of a stream, and tool calls in the text. In requests it replaces ids of tool calls that
// some servers reject: those with more than 40 characters, or with characters other than letters,
// digits, _ and -.
package openai
