// Package google is the driver for Google's Gemini API, and for Gemini models on Vertex AI.
//
//	model, err := google.New(google.Config{APIKey: os.Getenv("GEMINI_API_KEY")})
//
// The driver never retries. A failed call returns an [llm.Error], which reports whether and when to
// retry. An incomplete reply is an error, never a short reply, and so are refusals: a finish reason
// such as SAFETY, or a blocked prompt.
//
// Thoughts: models from Gemini 2.5 on show them. A reasoning effort (minimal, low, medium, high) sets
// the thinking level, of Gemini 2.5 a budget, and a number is a budget in tokens. The signatures of
// thoughts are sent back to the model and account that wrote them, within the turn. Calls in a turn
// that another model has begun get the value that Google documents for them.
package google
