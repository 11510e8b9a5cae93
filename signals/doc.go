// Package signals is the contract of a thread workflow: workflow ids, and the
// names and payloads of its signals, updates and queries. Package threadclient is a
// typed client over a Temporal client; anyone with a plain Temporal client or the
// temporal command line can do the same, since all payloads are plain JSON.
//
// A thread is the workflow of type [ThreadWorkflow] with the id
// thread/<namespace>/<thread id>. From a shell:
//
//	temporal workflow signal-with-start --type thread --task-queue threadmill \
//	  --workflow-id thread/default/t1 --id-reuse-policy RejectDuplicate --signal-name post \
//	  --signal-input '{"id":"e1","type":"message","payload":{"threadId":"t1","senderId":"ann","senderType":"user","content":"hello"}}'
//	temporal workflow query -w thread/default/t1 --name approvals
//	temporal workflow signal -w thread/default/t1 --name decide \
//	  --input '{"toolCallId":"call_1","decision":"approve","by":"ann"}'
//
// RejectDuplicate keeps a closed thread closed. A signal that does not fit changes nothing and leaves a "rejected" record; an
// update that does not fit is refused before it reaches history.
//
// About tool calls there are [Decide], a person's decision, [Revoke], which takes one back,
// and [ToolResult], the answer of a client that has run a call: each a signal, and an update
// that says what became of it. [ThreadChange] changes who takes part, and how often agents
// may answer each other. docs/temporal-contract.md has all of it with examples.
package signals
