// Package reconcile compares the store with Temporal, after one of them was restored from a backup of
// another moment, and mends what differs.
//
// Of a thread, the store has records and Temporal a workflow. What the workflow has written is found by
// replaying its history: the replay computes the same records and receives the same results of steps. What
// the workflow knows is its state at the end of the replay. So a comparison needs no worker, and mending has
// two directions:
//
//   - The store is older: the records after the newest one that it has are written again.
//   - Temporal is older: signal "restore" tells the workflow what the store has. Turns that have not ended
//     run again, and their steps find their results in the store. A workflow that is missing is started.
//
// Records are found by their ids, and the signal is idempotent, so a repair that was killed is run again.
package reconcile
