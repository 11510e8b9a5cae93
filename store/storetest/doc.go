// Package storetest is the suite that every [store.Store] passes: the invariants of
// package store, as tests. A driver runs it on itself:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { … })
//	}
//
// What survives a crash is the driver's own to test.
package storetest
