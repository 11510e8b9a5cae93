// Package redact replaces text that must not be kept, such as card numbers, before it reaches
// Temporal's history, the store, the live stream, a log or a model.
//
//	r, err := redact.New(redact.Config{
//		Patterns: []redact.Pattern{redact.Cards(), redact.Keys(), {Name: "customer", Expression: `C-\d{8}`}},
//	})
//
// Set it as threadmill.Config.Redact. A match becomes the name of its pattern in brackets: [card]. There is no way back: to
// refer to the original later, let Func return a token that your tools can resolve.
//
// Text enters a thread at several doors and is redacted at each of them. No pattern matches a replacement, so text that was
// redacted does not change again, unless a pattern of yours matches what stands around a replacement together with it.
//
// A nil [*Redactor] changes nothing.
package redact
