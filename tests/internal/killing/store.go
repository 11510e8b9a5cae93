package killing

import (
	"context"

	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
)

// Telling is a store of a worker that reports its writes: the thread, and what is written, before and after.
type Telling struct {
	teststore.Store
	Worker Worker
}

// Append reports the write.
func (s Telling) Append(ctx context.Context, key store.Key, b store.Batch) (store.Appended, error) {
	what := contents(b)
	if what == "" {
		return s.Store.Append(ctx, key, b)
	}
	// An abandoned step keeps waiting, or it would retry beside itself.
	deaf := context.WithoutCancel(ctx)
	if err := s.Worker.Tell(deaf, key.ThreadID, "before "+what); err != nil {
		return store.Appended{}, err
	}
	done, err := s.Store.Append(deaf, key, b)
	if err != nil {
		return done, err
	}
	return done, s.Worker.Tell(deaf, key.ThreadID, "after "+what)
}

// contents names the contents of a batch.
func contents(b store.Batch) (what string) {
	for _, r := range b.Records {
		what += r.ID + " "
	}
	if b.ToolStart != nil {
		what += "start of " + b.ToolStart.ToolCallID
	}
	if b.ToolFinish != nil {
		what += "end of " + b.ToolFinish.ToolCallID
	}
	return what
}
