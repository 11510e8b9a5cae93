// Package erasures keeps the receipts of erasures: documents of the store, which are never deleted.
package erasures

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Kind is the kind of the documents. The name of one is the id of its thread.
const Kind = "erasure"

// Remains are the places that an erasure does not reach.
func Remains() []signals.ErasureRemain {
	return append([]signals.ErasureRemain{
		{What: "the key of the thread", Why: "its id and the time of the erasure stay, so that nothing is stored for it again"},
		{What: "parent threads", Why: "the result of a sub-agent belongs to the thread that asked for it"},
	}, places()...)
}

// places are those that no erasure reaches.
func places() []signals.ErasureRemain {
	return []signals.ErasureRemain{
		{What: "backups of the databases", Why: "they are files of the operator: what was restored from one is erased again by repeating the erasure"},
		{What: "archives of Temporal", Why: "if archival is on, closed workflows were copied there"},
		{What: "the write-ahead log and the free space of PostgreSQL", Why: "VACUUM frees the room of deleted rows; the server overwrites it, and recycles its log, later"},
		{What: "the memory of running workers", Why: "they keep the newest messages of threads in use until other threads displace them, but no longer show or send what was erased"},
		{What: "logs, metrics and traces", Why: "they contain ids, and content only at level debug or if telemetry was told to record it"},
		{What: "model providers, tools, webhooks and frontends", Why: "they have received parts of the thread, and delete them by their own rules"},
	}
}

// Save stores a receipt. If the thread was erased before, the first receipt stays and counts what came late.
func Save(ctx context.Context, documents store.Documents, e signals.Erasure, late bool) (signals.Erasure, error) {
	for {
		before, after, err := load(ctx, documents, e.Namespace, e.ThreadID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return e, err
		}
		saved := e
		if err == nil {
			saved = merged(before, e, late)
		}
		raw, err := json.Marshal(saved)
		if err != nil {
			return e, err
		}
		_, err = documents.PutDocument(ctx, e.Namespace, store.Document{Kind: Kind, Name: e.ThreadID, Content: raw, By: e.By}, after)
		if conflict, ok := errors.AsType[*store.ConflictError](err); ok && conflict != nil {
			continue
		}
		return saved, err
	}
}

func merged(before, e signals.Erasure, late bool) signals.Erasure {
	if before.Run == e.Run {
		return before // it was stored by an earlier attempt
	}
	before.Run, before.Erased, before.Left, before.Remains = e.Run, before.Erased.Add(e.Erased), e.Left, e.Remains
	for _, id := range e.Threads {
		if !slices.Contains(before.Threads, id) {
			before.Threads = append(before.Threads, id)
		}
	}
	if late {
		before.Late, before.LateAt = before.Late+1, e.FinishedAt
	} else {
		before.FinishedAt = e.FinishedAt
	}
	return before
}

// Load returns the receipt of the erasure of a thread, or store.ErrNotFound.
func Load(ctx context.Context, documents store.Documents, namespace, threadID string) (signals.Erasure, error) {
	e, _, err := load(ctx, documents, namespace, threadID)
	return e, err
}

func load(ctx context.Context, documents store.Documents, namespace, threadID string) (e signals.Erasure, version int, err error) {
	d, err := documents.Document(ctx, namespace, Kind, threadID)
	if err == nil {
		e, err = decode(d)
	}
	return e, d.Version, err
}

// List returns the receipts of a namespace, by their threads; at most store.MaxLimit.
func List(ctx context.Context, documents store.Documents, namespace string) ([]signals.Erasure, error) {
	found, err := documents.Documents(ctx, namespace, Kind, "", store.MaxLimit)
	if err != nil {
		return nil, err
	}
	all := make([]signals.Erasure, 0, len(found))
	for _, d := range found {
		e, err := decode(d)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

func decode(d store.Document) (e signals.Erasure, err error) {
	if err := json.Unmarshal(d.Content, &e); err != nil {
		return e, fmt.Errorf("the receipt of the erasure of thread %q cannot be read: %w", d.Name, err)
	}
	return e, nil
}
