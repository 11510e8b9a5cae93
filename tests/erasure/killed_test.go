package erasure

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// TestMain turns the test binary into a worker, for tests that kill it.
func TestMain(m *testing.M) {
	killing.Main(m, map[string]killing.Kind{"erasing": func(w killing.Worker, c *threadmill.Config) error {
		c.Store = &tellingStore{teststore.Of(c.Store), w}
		return nil
	}})
}

// tellingStore reports the steps of erasures.
type tellingStore struct {
	teststore.Store
	worker killing.Worker
}

func (s *tellingStore) step(ctx context.Context, name string, do func() error) error {
	if err := s.worker.Tell(ctx, name, ""); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return s.worker.Tell(ctx, name+" done", "")
}

func (s *tellingStore) MarkErased(ctx context.Context, key store.Key) error {
	return s.step(ctx, "mark", func() error { return s.Store.MarkErased(ctx, key) })
}

func (s *tellingStore) EraseThread(ctx context.Context, key store.Key) error {
	return s.step(ctx, "erase", func() error { return s.Store.EraseThread(ctx, key) })
}

func (s *tellingStore) ReplaceRecords(ctx context.Context, key store.Key, records ...event.Record) error {
	return s.step(ctx, "replace", func() error { return s.Store.ReplaceRecords(ctx, key, records...) })
}

func (s *tellingStore) ReplaceToolLogs(ctx context.Context, key store.Key, logs ...store.ToolLog) error {
	return s.step(ctx, "replace logs", func() error { return s.Store.ReplaceToolLogs(ctx, key, logs...) })
}

func (s *tellingStore) DeleteDocument(ctx context.Context, namespace, kind, name string, after int) error {
	return s.step(ctx, "forget the request", func() error { return s.Store.DeleteDocument(ctx, namespace, kind, name, after) })
}

func (s *tellingStore) Scrub(ctx context.Context) error {
	return s.step(ctx, "scrub", func() error { return s.Store.Scrub(ctx) })
}

func (s *tellingStore) PutDocument(ctx context.Context, namespace string, d store.Document, after int) (out store.Document, err error) {
	if d.Kind != erasures.Kind && d.Kind != erasures.KindPerson {
		return s.Store.PutDocument(ctx, namespace, d, after)
	}
	err = s.step(ctx, "receipt", func() error {
		out, err = s.Store.PutDocument(ctx, namespace, d, after)
		return err
	})
	return out, err
}

// TestErasureKilled kills the worker with SIGKILL before and after every step of an erasure: it ends, with one receipt that counts
// everything.
func TestErasureKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"mark", "mark done", "erase", "erase done", "scrub", "scrub done", "receipt", "receipt done"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := killing.New(t, harness.Options{}, "erasing")
			w.Worker.Hasty = true
			w.Start()
			id := w.Open()
			w.Ends(id, w.Post(id, `use act {"how":"once"}`))
			records := len(w.Records(id))
			reached := w.Hold(point, "")
			require.NoError(t, w.Threads.StartErase(w.Ctx(), id, "ann"))
			check.Arrives(t, reached, point)
			w.Kill()
			w.Start()
			receipt, err := w.Threads.Erase(w.Ctx(), id, "bob")
			require.NoError(t, err)
			require.Zero(t, receipt.Left)
			require.Equal(t, records, receipt.Erased.Records, "what was found is counted once")
			require.Equal(t, 1, receipt.Erased.ToolLogs)
			require.Equal(t, []string{id}, receipt.Threads)
			require.Equal(t, "ann", receipt.By)
			require.Zero(t, receipt.Late)
			requireGone(t, w.Harness, id)
			_, err = w.Threads.Post(w.Ctx(), id, signals.UserMessage(id, "ann", "late"))
			require.ErrorIs(t, err, signals.ErrThreadErased)
		})
	}
}

// TestErasedPersonKilled kills the worker with SIGKILL before and after every step of the erasure of a person: it ends, with one receipt.
func TestErasedPersonKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{
		"replace", "replace done", "replace logs", "replace logs done", "scrub", "scrub done", "receipt", "receipt done", "forget the request", "forget the request done",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := killing.New(t, harness.Options{}, "erasing")
			w.Worker.Hasty, w.Rewritten = true, true
			w.Start()
			id := w.Open()
			w.Ends(id, w.Post(id, `use act {"how":"once"}`))
			bob, err := w.Threads.PostSignal(w.Ctx(), id, signals.UserMessage(id, "bob", "bob was here"))
			require.NoError(t, err)
			w.Ends(id, bob)
			begun, err := erasures.BeginPerson(w.Ctx(), w.Store, w.TaskQueue, erasures.PersonRequest{Person: "ann"}, "carol")
			require.NoError(t, err)
			again, err := erasures.BeginPerson(w.Ctx(), w.Store, w.TaskQueue, erasures.PersonRequest{Person: "ann"}, "Ann")
			require.NoError(t, err)
			require.Equal(t, begun.ID, again.ID, "the same request is the same erasure")
			require.Equal(t, begun.RequestedAt, again.RequestedAt)
			require.Equal(t, erasures.Pseudonym(begun.ID), again.By, "the person is not named")
			erasure := begun.ID
			reached := w.Hold(point, "")
			require.NoError(t, w.Threads.StartErasePerson(w.Ctx(), erasure, "carol"))
			check.Arrives(t, reached, point)
			w.Kill()
			w.Start()
			receipt, err := w.Threads.ErasePerson(w.Ctx(), erasure, "dan")
			require.NoError(t, err)
			require.Equal(t, "carol", receipt.By)
			require.Equal(t, []string{id}, receipt.Forgot)
			require.NotZero(t, receipt.Counts.Runs)
			_, err = erasures.Person(w.Ctx(), w.Store, w.TaskQueue, erasure)
			require.ErrorIs(t, err, store.ErrNotFound)
			said := w.Transcript(id)
			require.NotContains(t, said, "ann")
			require.Contains(t, said, "bob was here")
			for _, r := range w.Records(id) {
				require.NotContains(t, string(r.Payload), "once", r.Type)
			}
		})
	}
}
