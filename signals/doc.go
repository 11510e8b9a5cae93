// Package signals is the contract of a thread workflow: workflow ids, and the names and payloads of
// its signals, updates and queries. Package threadclient is a typed client on top of a Temporal
// client. Any plain Temporal client, or the temporal command line, can do the same, since all
// payloads are plain JSON.
//
// A thread is the workflow of type [ThreadWorkflow] with the id thread/<namespace>/<thread id>.
// From a shell:
//
//	temporal workflow signal-with-start --type thread --task-queue threadmill \
//	  --workflow-id thread/default/t1 --id-reuse-policy RejectDuplicate --signal-name post \
//	  --signal-input '{"id":"e1","type":"message","payload":{"threadId":"t1","senderId":"ann","senderType":"user","content":"hello"}}'
//	temporal workflow query -w thread/default/t1 --name approvals
//	temporal workflow signal -w thread/default/t1 --name decide \
//	  --input '{"toolCallId":"call_1","decision":"approve","by":"ann"}'
//
// RejectDuplicate keeps a closed thread closed. An invalid signal changes nothing and leaves a
// "rejected" record; an invalid update is rejected before it reaches history.
//
// Three payloads are about tool calls: [Decide] approves or denies a call, [Revoke] revokes an
// approval, and [ToolResult] returns the result of a call that a client ran. Each is a signal, and
// an update that returns the outcome. [ThreadChange] changes the agents of a thread, its title,
// metadata and turn limit. docs/temporal-contract.md describes the whole contract with examples.
package signals
