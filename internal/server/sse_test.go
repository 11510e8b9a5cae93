package server

import (
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// flushes counts the flushes of a response.
type flushes struct {
	*httptest.ResponseRecorder
	n atomic.Int64
}

func (f *flushes) FlushError() error {
	f.n.Add(1)
	return nil
}

// TestFlushesMerged: what follows a flush at once waits for the next one, which comes without more to write, and never after the end.
func TestFlushesMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &flushes{ResponseRecorder: httptest.NewRecorder()}
		out := newEventWriter(w)
		for range 50 {
			require.True(t, out.Data([]byte("{}"), true))
		}
		require.EqualValues(t, 1, w.n.Load(), "the first is not held")
		time.Sleep(flushEvery)
		synctest.Wait()
		require.EqualValues(t, 2, w.n.Load(), "the others are flushed together")
		time.Sleep(time.Second)
		require.True(t, out.Data([]byte("{}"), true))
		require.EqualValues(t, 3, w.n.Load(), "one that comes alone is not held")
		require.True(t, out.Data([]byte("{}"), true))
		out.end()
		time.Sleep(time.Second)
		require.EqualValues(t, 3, w.n.Load())
		require.False(t, out.Data([]byte("{}"), true))
	})
}
