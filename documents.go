package threadmill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Documents are the documents of a namespace that agents search: see docs/knowledge.md. [Config].Store lists
// and deletes them, as a [store.Knowledge].
type Documents struct {
	library   *library.Library
	temporal  client.Client
	namespace string
}

// Documents returns the documents of the runtime's namespace. [Runtime.Run], in this process or another one, indexes them.
func (r *Runtime) Documents() *Documents {
	return &Documents{library: r.library, temporal: r.cfg.Temporal, namespace: r.client.Namespace()}
}

// In returns the documents of another namespace, such as that of [SendOptions].Namespace. Nothing of one namespace is found in
// another one.
func (d *Documents) In(namespace string) *Documents {
	other := *d
	other.namespace = namespace
	return &other
}

// NewDocument is a document to add. Source is required.
type NewDocument struct {
	// Source names the document within its collection: its address or, with Content, any name, such as the path of a file.
	Source string

	// Content is the document, at most 32 MiB of text, Markdown, HTML, PDF, DOCX, CSV or source code. Nil: it is fetched
	// from Source.
	Content []byte

	// MediaType says what Content is, such as "text/markdown". Default: what the name of Source and the content say.
	MediaType string

	// Collection groups documents, so that agents can search some of them. Default "default".
	Collection string

	// Title defaults to the one that the document states, and Metadata, an object, to that of the revision before.
	Title    string
	Metadata json.RawMessage

	// ForceReindex indexes the document even if it has not changed.
	ForceReindex bool

	// ThreadID is a thread that is told when the document is indexed or has failed. Default: none.
	ThreadID string

	// By is who adds it. Default: nobody is named.
	By string
}

// Add begins to index a document, and returns it while it is processed; [Documents.Await] waits for the end. It replaces one
// with the same collection and source, which is found until then. A document that has not changed is returned as it is.
//
// The error is an [*event.FieldError] or wraps [store.ErrInvalid] if a field is wrong. After any other error, adding the document
// again is harmless.
func (d *Documents) Add(ctx context.Context, n NewDocument) (store.KnowledgeDocument, error) {
	asked := signals.Ingestion{Source: n.Source, Collection: n.Collection, Title: n.Title, Metadata: n.Metadata}
	err := signals.ValidateID("namespace", d.namespace)
	if err == nil {
		err = asked.Validate()
	}
	if err == nil && n.ThreadID != "" {
		err = signals.ValidateID("threadId", n.ThreadID)
	}
	if err != nil {
		return store.KnowledgeDocument{}, fmt.Errorf("threadmill: adding a document: %w", err)
	}
	collection, title := asked.Named()
	in := library.Addition{
		Collection: collection, Source: n.Source, Title: title, Metadata: n.Metadata, Force: n.ForceReindex, ThreadID: n.ThreadID, By: n.By,
	}
	if n.Content != nil {
		in.Content = library.Given(n.Source, n.MediaType, n.Content)
	}
	doc, err := d.library.Add(ctx, d.namespace, in)
	if refused, ok := errors.AsType[*library.Error](err); ok {
		err = event.FieldErrorf("source", "%s", strings.TrimPrefix(refused.Reason, "source: "))
	}
	if err != nil {
		return doc, fmt.Errorf("threadmill: adding the document %q: %w", n.Source, err)
	}
	return doc, nil
}

// Reindex begins to index a document again, although it has not changed: what was added from an address is fetched again. by is
// who asks, or empty. The error wraps [store.ErrNotFound] if there is none with this id.
func (d *Documents) Reindex(ctx context.Context, id, by string) (store.KnowledgeDocument, error) {
	doc, err := d.library.Reindex(ctx, d.namespace, id, by)
	if err != nil {
		return doc, fmt.Errorf("threadmill: indexing the document %q again: %w", id, err)
	}
	return doc, nil
}

// DocumentError means that a document could not be indexed. It can be added again.
type DocumentError struct {
	ID     string
	Source string

	// Reason is the error as users see it.
	Reason string
}

func (e *DocumentError) Error() string {
	return fmt.Sprintf("threadmill: the document %q failed: %s", e.Source, e.Reason)
}

// Await waits until the newest revision of a document is processed, and returns the document. The error is a [*DocumentError] if it
// failed; [store.KnowledgeDocument].Indexed is then the revision that is still found. The error wraps [store.ErrNotFound] if there is
// no document with this id.
func (d *Documents) Await(ctx context.Context, id string) (store.KnowledgeDocument, error) {
	for ended := 0; ; {
		doc, err := d.library.Store().KnowledgeDocument(ctx, d.namespace, id)
		switch {
		case err != nil:
			return doc, fmt.Errorf("threadmill: waiting for the document %q: %w", id, err)
		case doc.Status == store.KnowledgeFailed:
			return doc, &DocumentError{ID: doc.ID, Source: doc.Source, Reason: doc.Error}
		case doc.Status != store.KnowledgeProcessing:
			return doc, nil
		case doc.Revision == ended:
			return doc, fmt.Errorf("threadmill: the ingestion of the document %q has ended in another store: add it again", doc.Source)
		}
		run := d.temporal.GetWorkflow(ctx, job.IngestWorkflowID(d.namespace, id, doc.Revision), "")
		if err := run.Get(ctx, nil); err != nil {
			return doc, fmt.Errorf("threadmill: waiting for the document %q, which can be added again: %w", doc.Source, err)
		}
		ended = doc.Revision
	}
}

// DocumentSearch limits a search. The zero value has the defaults.
type DocumentSearch struct {
	// Collections to search. Default: all of the namespace.
	Collections []string

	// Limit is the maximum number of passages. Default 5, at most 50.
	Limit int
}

// FoundPassages are the passages that a search has found, the best first.
type FoundPassages struct {
	Passages []event.Passage

	// Warning says why documents were searched by their words alone, although they have vectors, or why the reranking model did
	// not order the passages.
	Warning string
}

// Search returns the passages that fit a text best, such as the words or the question of a person.
func (d *Documents) Search(ctx context.Context, text string, s DocumentSearch) (FoundPassages, error) {
	if !store.Storable(text) {
		return FoundPassages{}, event.FieldErrorf("text", "must be UTF-8 without NUL characters")
	}
	found, err := d.library.Search(ctx, d.namespace, library.Query{Text: text, Collections: s.Collections, Limit: s.Limit})
	if err != nil {
		return FoundPassages{}, fmt.Errorf("threadmill: searching documents: %w", err)
	}
	return FoundPassages{Passages: found.Passages, Warning: found.Warning}, nil
}
