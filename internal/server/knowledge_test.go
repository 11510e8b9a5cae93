package server_test

import (
	"context"
	"sync"

	"github.com/threadmill/threadmill/store"
)

// ingestsFake stands in for the workflows of ingestions.
type ingestsFake struct {
	mu      sync.Mutex
	started []store.KnowledgeDocument
	err     error
}

func (f *ingestsFake) start(_ context.Context, _ string, d store.KnowledgeDocument, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = append(f.started, d)
	return f.err
}
