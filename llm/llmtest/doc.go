// Package llmtest tests code that calls language models, and drivers that do.
//
// [NewServer] starts a real HTTP server that stands in for a provider with
// OpenAI's protocol. Its model is the offline model: the last user message says
// what it answers, without a greeting, unless [Config].Script has something else; the
// language is documented at llm/demo. Like OpenAI it refuses conversations that break the
// rules of the protocol: a tool call without an answer, an answer without a call, an id that
// is too long. Tests can make it fail ([Server.Fail]), stop it in the middle of a reply
// ([Server.Block]), and see what it was asked and when it wrote what.
//
// [ValidateTranscript] knows what OpenAI, Anthropic and Google would refuse about a transcript.
// The stand-in checks all that it is asked, and fails the test that it was made with.
//
//	s := llmtest.NewServer(llmtest.Config{})
//	defer s.Close()
//	model, err := openai.New(openai.Config{BaseURL: s.URL, APIKey: "test"})
//
// [Run] is the conformance suite that every [llm.Provider] passes.
package llmtest
