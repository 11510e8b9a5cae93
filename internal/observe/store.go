package observe

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// Store decorates a store: it measures the operations that every turn and every viewer needs, and the searches.
func (o *Observer) Store(s store.Store) store.Store {
	if o == nil {
		return s
	}
	return &observedStore{s, o}
}

type observedStore struct {
	store.Store
	o *Observer
}

func timed[T any](ctx context.Context, s *observedStore, operation string, do func() (T, error)) (T, error) {
	began := time.Now()
	out, err := do()
	set := []attribute.KeyValue{attribute.String(AttrOperate, operation)}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		set = append(set, attribute.String(AttrErrorType, storeErrorClass(err)))
	}
	s.o.meters.storeDuration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(set...))
	return out, err
}

func storeErrorClass(err error) string {
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return errOther
}

func (s *observedStore) Append(ctx context.Context, key store.Key, batch store.Batch) (store.Appended, error) {
	return timed(ctx, s, "append", func() (store.Appended, error) { return s.Store.Append(ctx, key, batch) })
}

func (s *observedStore) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	return timed(ctx, s, "records", func() ([]event.Record, error) { return s.Store.Records(ctx, key, q) })
}

func (s *observedStore) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	return timed(ctx, s, "records_by_id", func() ([]event.Record, error) { return s.Store.RecordsByID(ctx, key, ids...) })
}

func (s *observedStore) Thread(ctx context.Context, key store.Key) (store.Thread, error) {
	return timed(ctx, s, "thread", func() (store.Thread, error) { return s.Store.Thread(ctx, key) })
}

func (s *observedStore) Threads(ctx context.Context, namespace string, page store.ThreadPage) ([]store.Thread, error) {
	return timed(ctx, s, "threads", func() ([]store.Thread, error) { return s.Store.Threads(ctx, namespace, page) })
}

func (s *observedStore) CountThreads(ctx context.Context, namespace string, f store.ThreadFilter) (store.ThreadCounts, error) {
	return timed(ctx, s, "count_threads", func() (store.ThreadCounts, error) { return s.Store.CountThreads(ctx, namespace, f) })
}

func (s *observedStore) Previews(ctx context.Context, namespace string, threadIDs ...string) (map[string]string, error) {
	return timed(ctx, s, "previews", func() (map[string]string, error) { return s.Store.Previews(ctx, namespace, threadIDs...) })
}

func (s *observedStore) WaitingRecords(ctx context.Context, namespace string, threadIDs ...string) (map[string][]event.Record, error) {
	return timed(ctx, s, "waiting_records", func() (map[string][]event.Record, error) { return s.Store.WaitingRecords(ctx, namespace, threadIDs...) })
}

func (s *observedStore) PendingApprovals(ctx context.Context, namespace string) (store.PendingApprovals, error) {
	return timed(ctx, s, "pending_approvals", func() (store.PendingApprovals, error) { return s.Store.PendingApprovals(ctx, namespace) })
}

func (s *observedStore) SearchText(ctx context.Context, namespace, text string, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	return timed(ctx, s, "search_text", func() ([]store.KnowledgeHit, error) { return s.Store.SearchText(ctx, namespace, text, in) })
}

func (s *observedStore) SearchVectors(ctx context.Context, namespace, embedder string, vector []float32, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	return timed(ctx, s, "search_vectors", func() ([]store.KnowledgeHit, error) {
		return s.Store.SearchVectors(ctx, namespace, embedder, vector, in)
	})
}
