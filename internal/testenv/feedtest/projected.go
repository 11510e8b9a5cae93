package feedtest

import (
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/feed/projection"
)

// Projected is a thread that is read through a projection.
type Projected[E any] struct {
	*Thread
	Projection projection.Projection[E]
}

// Open opens a reader.
func (w *Projected[E]) Open(from projection.From) *projection.Reader[E] {
	w.T.Helper()
	r, err := w.Projection.Open(w.Ctx, w.Key, from)
	require.NoError(w.T, err)
	w.T.Cleanup(r.Close)
	return r
}

// Next reads the next item.
func (w *Projected[E]) Next(r *projection.Reader[E]) projection.Item[E] {
	w.T.Helper()
	return next(w.Thread, r)
}

// Rest reads a finite reader to its end.
func (w *Projected[E]) Rest(at projection.Cursor) []projection.Item[E] {
	w.T.Helper()
	r := w.Open(projection.From{Cursor: at, Finite: true})
	defer r.Close()
	return w.ToEnd(r)
}

// ToEnd reads until io.EOF.
func (w *Projected[E]) ToEnd(r *projection.Reader[E]) []projection.Item[E] {
	w.T.Helper()
	return toEnd(w.Thread, r)
}

// UntilClosed reads to the end of the thread.
func (w *Projected[E]) UntilClosed(r *projection.Reader[E]) (out []projection.Item[E]) {
	w.T.Helper()
	for len(out) == 0 || !out[len(out)-1].Closed {
		out = append(out, w.Next(r))
	}
	return out
}

// Pages reads all pages with a limit.
func (w *Projected[E]) Pages(limit int) (out []projection.Item[E]) {
	w.T.Helper()
	var at projection.Cursor
	for next := &at; next != nil; {
		items, more, err := w.Projection.Page(w.Ctx, w.Key, *next, limit)
		require.NoError(w.T, err)
		require.LessOrEqual(w.T, len(items), limit)
		out, next = append(out, items...), more
	}
	return out
}

// Perform runs a script while a reader follows, and returns its items.
func (w *Projected[E]) Perform(s Script) (out []projection.Item[E]) {
	r := w.Open(projection.From{})
	w.Run(s, func() { out = w.UntilClosed(r) })
	return out
}

// CheckCuts asserts that a reader that resumes after any of the items gets the following ones. same
// makes sequences comparable.
func (w *Projected[E]) CheckCuts(items []projection.Item[E], same func([]projection.Item[E]) []string) {
	w.T.Helper()
	for i, item := range items {
		at, err := projection.ParseCursor(item.Cursor.String())
		require.NoError(w.T, err)
		require.Equal(w.T, item.Cursor, at)
		require.Equal(w.T, same(items[i+1:]), same(w.Rest(at)), "resumed at %d, id %s", i, at)
	}
}
