// Package store is the port to the database of Threadmill: [Store] keeps threads, their records and the logs of their tool calls. Agents and
// API keys that are created at run time, documents, knowledge, entities and erasures are interfaces of their own, for which [Ask] asks a
// store.
//
// # Invariants
//
//   - Records are only added, until an erasure changes or deletes them. Seq is per thread, from 1, without gaps, and assigned inside the
//     appending transaction under a lock on the thread. Commit order is read order: a reader that has
//     seen n never finds a late n-1.
//   - A record's id is unique in its thread. Appends are idempotent by id: appending an existing id
//     changes nothing and returns the stored record.
//   - A late retry does not revert a thread's row: of several numbered updates, the one with the
//     greatest number wins, in any order.
//   - A [Batch] is one transaction: either all of it is visible or none.
//   - No operation crosses namespaces.
//   - An append returns the same data as later queries. What no driver can store is an [ErrInvalid] error. Of the rest, times
//     are in UTC and in whole microseconds, bytes of JSON and titles that are not UTF-8 are U+FFFD, and the input and output of a tool
//     that is no JSON is a JSON string.
//
// Drivers are subpackages of this package. They all run the conformance suite in store/storetest.
package store
