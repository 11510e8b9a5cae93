package memory

// Logs counts the logs that the stream holds.
func (s *Stream) Logs() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.logs)
}
