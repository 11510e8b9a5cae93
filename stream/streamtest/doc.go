// Package streamtest is the conformance suite of the live stream: every driver runs
// it, and what it asserts is what callers of package stream may rely on.
//
//	func TestConformance(t *testing.T) {
//		streamtest.Run(t, func(t *testing.T) stream.Stream { return memory.New(memory.Config{}) })
//	}
package streamtest
