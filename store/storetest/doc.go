// Package storetest is the conformance suite for implementations of [whole]: it tests the
// invariants of package store. A driver runs it in a test:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { … })
//	}
//
// Drivers test crash recovery themselves.
package storetest
