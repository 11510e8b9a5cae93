package nats

// Losses counts the threads whose publisher has yet to hear of a loss.
func (s *Stream) Losses() int { return int(s.losses.count.Load()) }
