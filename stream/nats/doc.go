// Package nats is the live stream for workers and API in separate processes: a NATS
// JetStream stream in memory, shared by all threads, with a subject per thread. It
// needs a NATS server from 2.9 on, with JetStream and a max_payload of 1 MB (the
// default).
//
// # Offsets
//
// An offset is the creation time of the JetStream stream, in microseconds, plus the sequence number
// of the entry. A server that lost its memory creates the stream again with a later time, so the
// offsets of the lost log are below all new ones. In a cluster the creation time of a stream
// outlives the memory of its only replica: there, set [Config.Replicas] to 3.
//
// Entries of all threads share the sequence numbers, and the oldest of all are removed first. An
// offset below the oldest kept entry is reported as a gap, although perhaps no entry of this thread
// was removed. This is the only gap that can be false.
//
// # Publishing
//
// Entries are published without waiting, in order. With 4,096 unacknowledged entries the publisher
// slows down. When an acknowledgement fails or does not arrive, pieces (thought, stream,
// tool_progress, reset) may be lost: the next piece of this process for the thread is not published,
// and returns [stream.ErrLost]. The publisher can then reset its message and send all of it. Core
// NATS would be cheaper but hide losses; waiting for each acknowledgement costs a round trip per
// token. The announcement of stored records is published again, so it may be delivered twice.
//
// # While NATS is away
//
// A circuit opens as soon as the connection is lost, an entry is not acknowledged or a request is
// not answered: from then on all calls fail at once with [stream.ErrUnavailable], and nothing is
// buffered but the newest announcement of each thread. The process asks NATS in the background until
// it answers, creates the stream if it is gone, closes the circuit and announces what it owes. A
// NATS that hangs, but keeps its connections, costs a step that begins then two seconds, once.
//
// # Subscribing
//
// A subscription reads through an ephemeral consumer that NATS deletes when it is unused. It never
// skips entries silently: it fails when the connection is lost, when the stream or its server is
// gone (noticed within ten seconds if the connection stays), and with [stream.ErrLagged] when
// entries were removed before they were read.
//
// It assumes that the server sends an entry to a waiting reader before newer entries replace all of
// [Config.MaxBytes].
package nats
