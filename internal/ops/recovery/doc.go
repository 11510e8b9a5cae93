// Package recovery frees the tasks of workers that were killed, so that other workers continue them at once. Without it,
// Temporal gives an activity to another worker after its heartbeat timeout, and a workflow task after 10 seconds.
//
// A [Journal] is a file with the tokens of the tasks that a process has received from Temporal and not yet answered. The
// process holds a lock on the file, which the system releases when the process ends, in whatever way, and not while it is
// paused. Whoever gets the lock of a journal knows that its process is dead, and fails its tasks by their tokens:
//
//	journal.Open ── poll: + token ── answer: − token ── kill -9
//	                                                      │ the lock is free
//	another process ── lock ── ShutdownWorker(sticky queues), RespondWorkflowTaskFailed(token),
//	                           RespondActivityTaskFailed(token) ── the journal is removed
//
// A token belongs to one attempt: if Temporal has given the task to another worker meanwhile, it rejects the token, and the
// other worker keeps the task. So neither the identity of workers nor the clock matters, and the cost depends on the number of
// tasks in progress, not on that of open threads.
//
// A task whose token is not in the journal, as the process was killed between receiving and writing it, continues after its
// timeout.
//
// A journal also tells after the next boot that the system stopped while its process ran: see [Journal.Crashed].
package recovery
