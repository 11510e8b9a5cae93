package nats

import "github.com/threadmill/threadmill/stream"

// Losses counts the threads whose publisher does not know yet of a loss.
func (s *Stream) Losses() int { return int(s.losses.count.Load()) }

// Acknowledged is closed when NATS has everything that was published.
func (s *Stream) Acknowledged() <-chan struct{} { return s.js.PublishAsyncComplete() }

// Sent counts the messages to NATS.
func (s *Stream) Sent() uint64 { return s.conn.Stats().OutMsgs }

// Waits reports whether the reader has found nothing missing and its request waits in NATS. The
// reader must not be in Next.
func Waits(sub stream.Subscription) bool {
	s, ok := sub.(*subscription)
	return ok && s.batch != nil && !s.unchecked
}
