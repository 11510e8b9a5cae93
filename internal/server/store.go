package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/outage"
	"github.com/threadmill/threadmill/store"
)

// timedStore is a store with a time limit for each call, after which the call fails with
// [store.ErrUnavailable]. It logs each outage once.
type timedStore struct {
	store.Store
	within time.Duration
	log    *outage.Log

	// streams has a place for each stream that reads records: fewer than a store has connections, so
	// that many streams that catch up leave one to other requests.
	streams chan struct{}
}

const readingStreams = 3

func newTimedStore(s store.Store, within time.Duration, log *outage.Log) *timedStore {
	return &timedStore{Store: s, within: within, log: log, streams: make(chan struct{}, readingStreams)}
}

type streamKey struct{}

// asStream marks the context of a stream.
func asStream(ctx context.Context) context.Context { return context.WithValue(ctx, streamKey{}, true) }

// call calls the store.
func call[T any](ctx context.Context, s *timedStore, do func(context.Context) (T, error)) (T, error) {
	within, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	out, err := do(within)
	switch {
	case ctx.Err() != nil: // whoever has gone learns nothing of the store
	case err != nil && within.Err() != nil && !errors.Is(err, store.ErrUnavailable):
		err = store.Unavailable(fmt.Errorf("no answer within %v: %w", s.within, err))
		s.log.Down(err)
	case errors.Is(err, store.ErrUnavailable):
		s.log.Down(err)
	default:
		s.log.Up()
	}
	return out, err
}

func (s *timedStore) Append(ctx context.Context, key store.Key, b store.Batch) (store.Appended, error) {
	return call(ctx, s, func(ctx context.Context) (store.Appended, error) { return s.Store.Append(ctx, key, b) })
}

func (s *timedStore) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	if ctx.Value(streamKey{}) != nil {
		select {
		case s.streams <- struct{}{}:
			defer func() { <-s.streams }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return call(ctx, s, func(ctx context.Context) ([]event.Record, error) { return s.Store.Records(ctx, key, q) })
}

func (s *timedStore) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	return call(ctx, s, func(ctx context.Context) ([]event.Record, error) { return s.Store.RecordsByID(ctx, key, ids...) })
}

func (s *timedStore) Thread(ctx context.Context, key store.Key) (store.Thread, error) {
	return call(ctx, s, func(ctx context.Context) (store.Thread, error) { return s.Store.Thread(ctx, key) })
}

func (s *timedStore) Threads(ctx context.Context, namespace string, page store.ThreadPage) ([]store.Thread, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.Thread, error) { return s.Store.Threads(ctx, namespace, page) })
}

func (s *timedStore) CountThreads(ctx context.Context, namespace string, f store.ThreadFilter) (store.ThreadCounts, error) {
	return call(ctx, s, func(ctx context.Context) (store.ThreadCounts, error) { return s.Store.CountThreads(ctx, namespace, f) })
}

func (s *timedStore) Previews(ctx context.Context, namespace string, threadIDs ...string) (map[string]string, error) {
	return call(ctx, s, func(ctx context.Context) (map[string]string, error) {
		return s.Store.Previews(ctx, namespace, threadIDs...)
	})
}

func (s *timedStore) WaitingRecords(ctx context.Context, namespace string, threadIDs ...string) (map[string][]event.Record, error) {
	return call(ctx, s, func(ctx context.Context) (map[string][]event.Record, error) {
		return s.Store.WaitingRecords(ctx, namespace, threadIDs...)
	})
}

func (s *timedStore) PendingApprovals(ctx context.Context, namespace string) (store.PendingApprovals, error) {
	return call(ctx, s, func(ctx context.Context) (store.PendingApprovals, error) {
		return s.Store.PendingApprovals(ctx, namespace)
	})
}

func (s *timedStore) ToolLog(ctx context.Context, key store.Key, toolCallID string) (store.ToolLog, error) {
	return call(ctx, s, func(ctx context.Context) (store.ToolLog, error) { return s.Store.ToolLog(ctx, key, toolCallID) })
}

func (s *timedStore) ToolLogs(ctx context.Context, key store.Key) ([]store.ToolLog, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.ToolLog, error) { return s.Store.ToolLogs(ctx, key) })
}

func (s *timedStore) SaveAgent(ctx context.Context, namespace string, v store.AgentVersion, after int) (store.AgentVersion, error) {
	return call(ctx, s, func(ctx context.Context) (store.AgentVersion, error) {
		return s.Store.SaveAgent(ctx, namespace, v, after)
	})
}

func (s *timedStore) Agent(ctx context.Context, namespace, name string) (store.AgentVersion, error) {
	return call(ctx, s, func(ctx context.Context) (store.AgentVersion, error) { return s.Store.Agent(ctx, namespace, name) })
}

func (s *timedStore) Agents(ctx context.Context, namespace, after string, limit int) ([]store.AgentVersion, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.AgentVersion, error) {
		return s.Store.Agents(ctx, namespace, after, limit)
	})
}

func (s *timedStore) AgentVersions(ctx context.Context, namespace, name string, before, limit int) ([]store.AgentVersion, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.AgentVersion, error) {
		return s.Store.AgentVersions(ctx, namespace, name, before, limit)
	})
}

func (s *timedStore) AgentChanges(ctx context.Context, namespace string, after int64, limit int) ([]store.AgentChange, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.AgentChange, error) {
		return s.Store.AgentChanges(ctx, namespace, after, limit)
	})
}

func (s *timedStore) Ping(ctx context.Context) error {
	_, err := call(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Store.Ping(ctx) })
	return err
}

func (s *timedStore) CreateAPIKey(ctx context.Context, k store.APIKey) (store.APIKey, error) {
	return call(ctx, s, func(ctx context.Context) (store.APIKey, error) { return s.Store.CreateAPIKey(ctx, k) })
}

func (s *timedStore) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	return call(ctx, s, func(ctx context.Context) (store.APIKey, error) { return s.Store.APIKey(ctx, id) })
}

func (s *timedStore) APIKeys(ctx context.Context, namespace string) ([]store.APIKey, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.APIKey, error) { return s.Store.APIKeys(ctx, namespace) })
}

func (s *timedStore) RotateAPIKey(ctx context.Context, namespace, id, hash string, until time.Time) (store.APIKey, error) {
	return call(ctx, s, func(ctx context.Context) (store.APIKey, error) {
		return s.Store.RotateAPIKey(ctx, namespace, id, hash, until)
	})
}

func (s *timedStore) RevokeAPIKey(ctx context.Context, namespace, id, by string) (store.APIKey, error) {
	return call(ctx, s, func(ctx context.Context) (store.APIKey, error) { return s.Store.RevokeAPIKey(ctx, namespace, id, by) })
}

func (s *timedStore) HasAPIKeys(ctx context.Context) (bool, error) {
	return call(ctx, s, s.Store.HasAPIKeys)
}

func (s *timedStore) PutDocument(ctx context.Context, namespace string, d store.Document, after int) (store.Document, error) {
	return call(ctx, s, func(ctx context.Context) (store.Document, error) {
		return s.Store.PutDocument(ctx, namespace, d, after)
	})
}

func (s *timedStore) Document(ctx context.Context, namespace, kind, name string) (store.Document, error) {
	return call(ctx, s, func(ctx context.Context) (store.Document, error) {
		return s.Store.Document(ctx, namespace, kind, name)
	})
}

func (s *timedStore) Documents(ctx context.Context, namespace, kind, after string, limit int) ([]store.Document, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.Document, error) {
		return s.Store.Documents(ctx, namespace, kind, after, limit)
	})
}

func (s *timedStore) DocumentNamespaces(ctx context.Context, kind string) ([]string, error) {
	return call(ctx, s, func(ctx context.Context) ([]string, error) { return s.Store.DocumentNamespaces(ctx, kind) })
}

func (s *timedStore) DeleteDocument(ctx context.Context, namespace, kind, name string, after int) error {
	_, err := call(ctx, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.Store.DeleteDocument(ctx, namespace, kind, name, after)
	})
	return err
}

func (s *timedStore) SubThreads(ctx context.Context, key store.Key) ([]string, error) {
	return call(ctx, s, func(ctx context.Context) ([]string, error) { return s.Store.SubThreads(ctx, key) })
}

func (s *timedStore) ThreadIDs(ctx context.Context, namespace, after string, limit int) ([]string, error) {
	return call(ctx, s, func(ctx context.Context) ([]string, error) { return s.Store.ThreadIDs(ctx, namespace, after, limit) })
}

func (s *timedStore) ThreadDocuments(ctx context.Context, key store.Key) ([]string, error) {
	return call(ctx, s, func(ctx context.Context) ([]string, error) { return s.Store.ThreadDocuments(ctx, key) })
}

func (s *timedStore) ThreadMentions(ctx context.Context, key store.Key, after store.Mention, limit int) ([]store.Mention, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.Mention, error) {
		return s.Store.ThreadMentions(ctx, key, after, limit)
	})
}

func (s *timedStore) ToolLogPage(ctx context.Context, key store.Key, after string, limit int) ([]store.ToolLog, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.ToolLog, error) { return s.Store.ToolLogPage(ctx, key, after, limit) })
}
