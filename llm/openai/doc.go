// Package openai is the driver for OpenAI and for servers that are compatible with its Chat
// Completions API: set Config.BaseURL to the address of such a server.
//
//	model, err := openai.New(openai.Config{APIKey: os.Getenv("OPENAI_API_KEY")})
//
// The driver never retries. A failed call returns an [llm.Error], which reports whether and when to
// retry. An incomplete reply is an error, never a short reply.
//
// The driver accepts the deviations of compatible servers: tool calls without index or id,
// reasoning as reasoning_content or reasoning, complete replies instead of streams, errors in the
// middle of a stream, and tool calls in the text. In requests it replaces ids of tool calls that
// some servers reject: those with more than 40 characters, or with characters other than letters,
// digits, _ and -.
package openai
