// Package threadmilltest tests applications of Threadmill: their agents, tools, hooks, rules and
// approval policies, with a scripted model in place of a real one.
//
//	func TestRefund(t *testing.T) {
//		t.Parallel()
//		model := scripted.New(scripted.Call("refund", order{"A-1", 20}), scripted.Say("You get 20 euros back."))
//		rt := threadmilltest.New(t, threadmilltest.Scripted(configuration(), model))
//
//		turn := rt.Say("t1", "Please pay back A-1.")
//		rt.Approve("t1", rt.WaitForApproval("t1"))
//		rt.Wait(turn)
//		rt.Golden("t1", "testdata/refund.txt")
//	}
//
// [New] returns a runtime with a worker, on a Temporal server in memory, which starts with the first test
// of a binary in half a second. The thread workflows, activities, store and stream are the real ones. Its
// methods wait for conditions, at most two minutes, and fail the test with the transcript of the thread.
// [Runtime.Advance] lets hours pass.
//
// [RunHook], [MatchRule], [Policy] and [CallTool] need no server.
//
// The package is in a module of its own, since a Temporal server has many dependencies. Package embedded
// beside it is that server, for programs and for tests without a runtime.
//
// See docs/testing.md.
package threadmilltest
