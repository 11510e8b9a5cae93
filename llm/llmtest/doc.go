// Package llmtest tests drivers of language models and code that calls models.
//
// [NewServer] starts an HTTP server with the protocols of OpenAI (Chat Completions and Responses), Anthropic
// and Google, and of Azure, Amazon Bedrock and Vertex AI, that serves an offline model without a greeting. The last user message is the model's script, unless [Config].Script provides one; the
// language is documented at llm/demo. Like the providers, the server rejects requests that
// break the rules of the protocol: a tool call without a result, a result without a call, the signature of
// another model, an unknown field, a schema of a tool that is not as they want it, missing credentials. With [Config].Dialect, it speaks
// Chat Completions as another server does, such as Mistral's: see [Dialects].
// Tests can inject faults ([Server.Fail]), pause a reply ([Server.Block]), and read the requests
// and the streamed chunks with their times.
//
// [ValidateTranscript] reports what OpenAI, Anthropic and Google reject in a transcript. The server
// validates every request, and fails the test in [Config].T if it is invalid.
//
//	s := llmtest.NewServer(llmtest.Config{})
//	defer s.Close()
//	model, err := openai.New(openai.Config{BaseURL: s.URL, APIKey: "test"})
//
// [Run] is the conformance suite that every [llm.Provider] passes.
package llmtest
