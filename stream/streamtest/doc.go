// Package streamtest is the conformance suite for implementations of [stream.Stream]. A driver runs
// it in a test:
//
//	func TestConformance(t *testing.T) {
//		streamtest.Run(t, func(t *testing.T) stream.Stream { return memory.New(memory.Config{}) })
//	}
package streamtest
