// Package anthropic is the driver for Anthropic's Messages API.
//
//	model, err := anthropic.New(anthropic.Config{APIKey: os.Getenv("ANTHROPIC_API_KEY")})
//
// The driver never retries. A failed call returns an [llm.Error], which reports whether and when to
// retry. An incomplete reply is an error, never a short reply, and so is a refusal.
//
// Thoughts: a reasoning effort (low, medium, high, xhigh, max) turns adaptive thinking on; models
// before Claude 4.6 get a budget instead, and a number is a budget in tokens. The signatures of
// thoughts are sent back to the model and account that wrote them, within the turn; in a turn that
// another model has begun, models with a budget do not think.
//
// Requests ask Anthropic to cache the conversation: see [Config].Cache.
package anthropic
