// Package turn folds the events of a thread into the states of its tool calls. It decides for all readers of events
// whether a request for a decision, for input or for a client is open, as the thread itself does.
//
//	tool_call ──▶ running ◀──────────── approval, input_received
//	                 │                          │
//	                 ├─▶ approval_request, input_request, client_call: waits
//	                 └─▶ tool_result or the end of the turn: settled
//
// A call waits for its newest request. A request for a decision is open until a decision of its round, or of a later one,
// that lacks no vote; one for input until it is answered or withdrawn; each of them, and one for a client, until the call
// has a result or its turn ends. Revoking an approval opens and ends no request: a call that needs another approval asks
// in another round. Events may come again, as they do to readers that go on at an earlier place.
package turn
