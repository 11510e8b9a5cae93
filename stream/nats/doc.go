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
// outlives the memory of its only replica: there, set
// [Config.Replicas] to 3.
//
// Entries of all threads share the sequence numbers, and the oldest are removed first,
// whosever they are. For an offset below the oldest entry kept nobody can say whether
// an entry of this thread was among those removed; it is reported as a gap. This is
// the only gap that can be false.
//
// # Publishing
//
// Pieces (thought, stream, tool_progress, reset) are published without waiting: in
// order, with up to 4,096 of them not yet acknowledged, then the publisher is slowed
// down. When an acknowledgement fails or stays away, entries may be lost; the next
// piece that this process publishes to the thread gets [stream.ErrLost] instead of
// being published. The publisher can then reset its message and send it whole. Core
// NATS would cost less but nobody would know of a loss; waiting for each
// acknowledgement costs a round trip per token.
//
// The word that records are stored waits for its acknowledgement, and is repeated for
// up to five seconds while NATS is away, so it may be delivered twice.
//
// While the connection is down nothing is buffered: publishing a piece fails at once.
//
// # Subscribing
//
// A subscription reads through an ephemeral consumer that NATS forgets when nobody
// reads. It breaks with an error, never with a hole, when the connection is lost, when
// the stream or its server is gone (noticed within ten seconds if the connection
// stays), and with [stream.ErrLagged] when entries were removed before they were read.
//
// One thing it takes for granted: that the server does not need longer to send an entry
// to a reader who waits for it than to replace all of [Config.MaxBytes] by newer ones.
package nats
