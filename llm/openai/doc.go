// Package openai is the driver for OpenAI and for everything that speaks its Chat
// Completions protocol: set Config.BaseURL to the other server's address.
//
//	model, err := openai.New(openai.Config{APIKey: os.Getenv("OPENAI_API_KEY")})
//
// It never retries; a failed call is an [llm.Error] that says whether and when to.
// A reply that breaks off is an error, never a short reply. Servers differ in how
// strictly they follow the protocol: tool calls without index or id, reasoning as
// reasoning_content or reasoning, whole replies where a stream was asked for,
// errors in the middle of a stream and tool calls written into the text are all
// understood. Ids of tool calls that not all of them accept are replaced on the way:
// those with more than 40 characters, or with others than letters, digits, _ and -.
package openai
