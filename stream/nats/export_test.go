package nats

import "github.com/threadmill/threadmill/stream"

// Losses counts the threads whose publisher has yet to hear of a loss.
func (s *Stream) Losses() int { return int(s.losses.count.Load()) }

// Waits reports whether NATS has a request of the reader, which has found that nothing is
// missing. The reader must not be in Next.
func Waits(sub stream.Subscription) bool {
	s, ok := sub.(*subscription)
	return ok && s.batch != nil && !s.unchecked
}
