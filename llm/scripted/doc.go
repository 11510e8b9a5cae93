// Package scripted is a model that says what a script says, for tests of applications and for
// programs that run offline. It needs no network, and nothing of it takes time.
//
//	model := scripted.New(
//		scripted.Call("refund", map[string]any{"order": "A-1"}),
//		scripted.Say("It is on its way."),
//		scripted.Say("The shop opens at nine.").OnEvent("shop.opened"),
//	)
//	cfg.Models = map[string]llm.Provider{"scripted": model}
//
// A request gets the first reply of the script that is left and fits: see [Reply]. If none fits, the
// model call fails and is not retried: the error says what was asked and which replies are left.
// [Model.Left] describes the replies that nobody has asked for.
//
// The model named "scripted/<agent>" is the convention for scripts with several agents: a request
// carries the name of the model, not that of the agent.
//
// Like the failures of real providers, scripted ones are retried: see [RateLimited], [Overloaded],
// [ContextOverflow] and [Reply.BreakOff]. A [Gate] holds a reply back until the test opens it.
//
// Compare package demo, whose script is the message of the user.
package scripted
