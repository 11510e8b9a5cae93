package library

import (
	"testing"
	"time"
)

// LookAgainEvery sets how often a document is looked at that is read. No document may be read meanwhile.
func LookAgainEvery(t *testing.T, every time.Duration) {
	t.Helper()
	before := lookAgain
	lookAgain = every
	t.Cleanup(func() { lookAgain = before })
}
