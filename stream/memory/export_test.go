package memory

import "github.com/threadmill/threadmill/stream"

// Take is the end of a Next that began before the subscription was closed.
func Take(sub stream.Subscription) (stream.Entry, error) {
	e, _, err := sub.(*subscription).take()
	return e, err
}

// Kept returns the size of the records that the stream keeps for readers, as it counts it and as it is.
func (s *Stream) Kept() (counted, kept int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, l := range s.logs {
		l.mu.Lock()
		counted += l.kept
		for _, it := range l.entries {
			kept += sizeOf(it.entry.Records)
		}
		l.mu.Unlock()
	}
	return counted, kept
}

// Logs counts the logs that the stream holds.
func (s *Stream) Logs() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.logs)
}
