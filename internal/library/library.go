// Package library indexes documents, in steps that can be repeated, and finds passages in them. It knows no Temporal:
// the workflow of an ingestion calls its steps through activities.
package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/threadmill/threadmill/document"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/library/fetch"
	"github.com/threadmill/threadmill/internal/library/knowledge"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/store"
)

// Config configures a [Library]. Only Store is required.
type Config struct {
	Store store.Knowledge

	// Observe runs a search. Default: it only does.
	Observe func(ctx context.Context, search func(context.Context) error) error

	// Embedder calls Model, "provider/model", for vectors with a Dimension; 0 = the model's default. Nil: documents are
	// found by their words alone.
	Embedder  llm.Embedder
	Model     string
	Dimension int

	// ContextProvider calls ContextModel, "provider/model", which writes the contexts of chunks. Nil: they have none.
	ContextProvider llm.Provider
	ContextModel    string

	// Reranker calls RerankModel, "provider/model", which puts what a search has found into its final order. Nil: the fused
	// order is final.
	Reranker    llm.Reranker
	RerankModel string

	// ChunkTokens and OverlapTokens are the sizes of [knowledge.Splitter].
	ChunkTokens, OverlapTokens int

	// Reader reads documents. Nil: they cannot be read.
	Reader document.Reader

	// Private permits documents at addresses of private networks.
	Private bool

	// Start starts the ingestion of the newest revision of a document, unless it runs already. Required for Add.
	Start func(ctx context.Context, namespace string, d store.KnowledgeDocument, force bool) error

	// Redact redacts the texts of documents and queries. Default: nothing is redacted.
	Redact *redact.Redactor

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Library indexes documents and finds passages in them. It is safe for concurrent use.
type Library struct {
	cfg      Config
	embedder embedder
	fetch    *fetch.Client
}

// userAgent names the program to the servers of documents.
const userAgent = "Threadmill"

// New returns a library.
func New(cfg Config) *Library {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	provider, model, _ := strings.Cut(cfg.Model, "/")
	return &Library{
		cfg: cfg, embedder: embedder{provider, model, cfg.Dimension}, fetch: fetch.New(fetch.Config{Private: cfg.Private, UserAgent: userAgent}),
	}
}

// Store returns the store of the documents.
func (l *Library) Store() store.Knowledge { return l.cfg.Store }

// WithStore returns the library with its documents in another store, such as one whose calls have a time limit.
func (l *Library) WithStore(s store.Knowledge) *Library {
	other := *l
	other.cfg.Store = s
	return &other
}

// ContextModel returns the model that writes the contexts of chunks, "" if there is none.
func (l *Library) ContextModel() string { return l.cfg.ContextModel }

// RerankModel returns the model that orders what a search has found, "" if there is none.
func (l *Library) RerankModel() string { return l.cfg.RerankModel }

// WithoutVectors says why new documents get no vectors. It is empty if they get some.
func (l *Library) WithoutVectors() string {
	switch {
	case l.cfg.Embedder == nil:
		return "no embedder is configured"
	case !l.cfg.Store.HasVectors():
		return "the store keeps no vectors"
	}
	return ""
}

// Embeds returns the name of the embedder whose vectors new documents get; "" = none.
func (l *Library) Embeds() string {
	if l.WithoutVectors() != "" {
		return ""
	}
	return l.embedder.name()
}

// Embedder returns the name of the configured embedder, "" if there is none, whether or not the store keeps vectors.
func (l *Library) Embedder() string {
	if l.cfg.Embedder == nil {
		return ""
	}
	return l.embedder.name()
}

// Vectors returns the vectors of texts, which are embedded like documents.
func (l *Library) Vectors(ctx context.Context, texts []string) ([][]float32, error) {
	out, err := l.embed(ctx, l.embedder, llm.EmbedDocument, texts)
	if err != nil {
		return nil, l.embedError(ctx, err)
	}
	return out.Vectors, nil
}

// embedder identifies vectors: those of different models, or of different dimensions, cannot be compared.
type embedder struct {
	provider, model string

	// dimension is 0 for the model's default.
	dimension int
}

// name returns "provider/model", and the dimension behind an @.
func (e embedder) name() string {
	name := e.provider + "/" + e.model
	if e.dimension > 0 {
		name += "@" + strconv.Itoa(e.dimension)
	}
	return name
}

func parseEmbedder(name string) embedder {
	var e embedder
	e.provider, e.model, _ = strings.Cut(name, "/")
	if at := strings.LastIndexByte(e.model, '@'); at > 0 {
		if n, err := strconv.Atoi(e.model[at+1:]); err == nil {
			e.model, e.dimension = e.model[:at], n
		}
	}
	return e
}

// Error is why a document cannot be ingested. A retry cannot help.
type Error struct{ Reason string }

func (e *Error) Error() string { return e.Reason }

// Addition is a document that is to be ingested.
type Addition struct {
	// Collection defaults to [store.DefaultCollection].
	Collection string

	// Source is the address of the document, or any name if Content is given.
	Source   string
	Title    string
	Metadata []byte

	// Content is the document. Nil: it is fetched from Source.
	Content *store.KnowledgeContent

	// Force ingests a document even if it has not changed.
	Force bool

	// Begun, if not nil, is told the document before its ingestion starts. Revision is what it was told before, if the
	// addition is repeated: then no other revision begins.
	Begun    func(store.KnowledgeDocument)
	Revision store.KnowledgeRevision

	// ThreadID is the thread that is told the end. By is who asks.
	ThreadID string
	By       string
}

// Add begins the ingestion of a document. A document that has not changed is returned as it is. The error is a
// [*Error], a [store.ErrInvalid] error, or that of the store or of Temporal.
func (l *Library) Add(ctx context.Context, namespace string, a Addition) (store.KnowledgeDocument, error) {
	a.Title, a.Metadata, a.Content = l.cfg.Redact.Text(a.Title), l.cfg.Redact.JSON(a.Metadata), l.redacted(a.Content)
	begin := store.KnowledgeBegin{Content: a.Content, Force: a.Force}
	if a.Content == nil {
		if !strings.Contains(a.Source, "://") {
			return store.KnowledgeDocument{}, &Error{fmt.Sprintf("source: %.200q is no address, such as https://example.com/handbook.pdf; give the content of a document that has none", a.Source)}
		}
		if err := fetch.Validate(a.Source); err != nil {
			return store.KnowledgeDocument{}, &Error{"source: " + err.Error()}
		}
	} else {
		begin.Digest = store.KnowledgeDigest(a.Content.Bytes)
	}
	if a.Revision.Number > 0 {
		doc, err := l.current(ctx, namespace, a.Revision)
		if errors.Is(err, store.ErrSuperseded) {
			return doc, nil
		}
		return l.start(ctx, namespace, doc, a.Force, err)
	}
	doc, err := l.cfg.Store.BeginKnowledge(ctx, namespace, store.KnowledgeDocument{
		Collection: a.Collection, Source: a.Source, Title: a.Title, Metadata: a.Metadata, ThreadID: a.ThreadID, By: a.By,
	}, begin)
	if err == nil && a.Begun != nil {
		a.Begun(doc)
	}
	return l.start(ctx, namespace, doc, a.Force, err)
}

// start starts the ingestion of a document, unless it has ended.
func (l *Library) start(ctx context.Context, namespace string, doc store.KnowledgeDocument, force bool, err error) (store.KnowledgeDocument, error) {
	if err != nil || doc.Status != store.KnowledgeProcessing {
		return doc, err
	}
	return doc, l.cfg.Start(ctx, namespace, doc, force)
}

// Reindex ingests a document again, although it has not changed: what was uploaded from the content in the store, what came
// from an address by fetching it. The error is [store.ErrNotFound], or one of Add.
func (l *Library) Reindex(ctx context.Context, namespace, id, by string) (store.KnowledgeDocument, error) {
	doc, err := l.cfg.Store.KnowledgeDocument(ctx, namespace, id)
	if err != nil {
		return doc, err
	}
	again := Addition{Collection: doc.Collection, Source: doc.Source, Force: true, By: by}
	content, err := l.content(ctx, namespace, doc)
	switch {
	case errors.Is(err, store.ErrNotFound) && fetch.Validate(doc.Source) == nil:
	case errors.Is(err, store.ErrNotFound):
		return doc, &Error{fmt.Sprintf("the content of %.200q is not stored: add it again", doc.Source)}
	case err != nil:
		return doc, err
	case given(doc.Source, content):
		again.Content = &content
	}
	return l.Add(ctx, namespace, again)
}

// content returns the newest content of a document that is stored: that of the newest revision, or else of the visible one.
func (l *Library) content(ctx context.Context, namespace string, doc store.KnowledgeDocument) (store.KnowledgeContent, error) {
	content, err := l.cfg.Store.KnowledgeContent(ctx, namespace, doc.Newest())
	if errors.Is(err, store.ErrNotFound) && doc.Indexed != 0 {
		return l.cfg.Store.KnowledgeContent(ctx, namespace, store.KnowledgeRevision{Document: doc.ID, Number: doc.Indexed})
	}
	return content, err
}

// given reports whether a content was given, rather than fetched. A given one has the name of its source; a fetched one has
// the path of the address, which is never the whole address.
func given(source string, content store.KnowledgeContent) bool { return content.Name == source }

// Given returns a content that somebody gives for a source.
func Given(source, mediaType string, content []byte) *store.KnowledgeContent {
	return &store.KnowledgeContent{Name: source, MediaType: mediaType, Bytes: content}
}

// Fetch stores the content of a revision. Errors that a retry cannot help are a [*Error], here and in the other steps.
func (l *Library) Fetch(ctx context.Context, namespace string, r store.KnowledgeRevision, force bool) (job.FetchedDocument, error) {
	doc, err := l.current(ctx, namespace, r)
	if err != nil {
		return job.FetchedDocument{}, err
	}
	if doc.Digest == "" {
		file, err := l.fetch.Get(ctx, doc.Source)
		if err != nil {
			return job.FetchedDocument{}, permanent(err)
		}
		content := l.redacted(&store.KnowledgeContent{Name: file.Name, MediaType: file.MediaType, Bytes: file.Content})
		doc.Digest = store.KnowledgeDigest(content.Bytes)
		if err := l.cfg.Store.PutKnowledgeContent(ctx, namespace, r, doc.Digest, *content); err != nil {
			return job.FetchedDocument{}, err
		}
		return job.FetchedDocument{Bytes: len(content.Bytes), Unchanged: doc.Digest == doc.IndexedDigest && !force}, nil
	}
	content, err := l.cfg.Store.KnowledgeContent(ctx, namespace, r)
	return job.FetchedDocument{Bytes: len(content.Bytes), Unchanged: doc.Digest == doc.IndexedDigest && !force}, err
}

// redacted redacts the content of a document if it is text. That of a PDF or DOCX file is redacted when it is read.
func (l *Library) redacted(c *store.KnowledgeContent) *store.KnowledgeContent {
	if c == nil || l.cfg.Redact == nil || !utf8.Valid(c.Bytes) || bytes.HasPrefix(c.Bytes, []byte("%PDF-")) {
		return c
	}
	clean := *c
	clean.Bytes = []byte(l.cfg.Redact.Text(string(c.Bytes)))
	return &clean
}

// current returns the document of a revision, or ErrSuperseded.
func (l *Library) current(ctx context.Context, namespace string, r store.KnowledgeRevision) (store.KnowledgeDocument, error) {
	doc, err := l.cfg.Store.KnowledgeDocument(ctx, namespace, r.Document)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && doc.Revision != r.Number:
		return doc, store.ErrSuperseded
	}
	return doc, err
}

// lookAgain is how long a document is read before it is looked at whether somebody still wants it.
var lookAgain = time.Second

// cancelSuperseded cancels the reading of a revision that was deleted or replaced, so that others do not wait for it.
func (l *Library) cancelSuperseded(ctx context.Context, cancel context.CancelCauseFunc, namespace string, r store.KnowledgeRevision) {
	every := time.NewTicker(lookAgain)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if _, err := l.current(ctx, namespace, r); errors.Is(err, store.ErrSuperseded) {
				cancel(err)
				return
			}
		}
	}
}

// Split reads the content of a revision and stores its chunks.
func (l *Library) Split(ctx context.Context, namespace string, r store.KnowledgeRevision) (job.ParsedDocument, error) {
	if l.cfg.Reader == nil {
		return job.ParsedDocument{}, &Error{"the worker reads no documents: its program has to set Config.Knowledge.Reader, such as formats.Reader()"}
	}
	content, err := l.cfg.Store.KnowledgeContent(ctx, namespace, r)
	if errors.Is(err, store.ErrNotFound) {
		err = store.ErrSuperseded
	}
	if err != nil {
		return job.ParsedDocument{}, err
	}
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go l.cancelSuperseded(reading, cancel, namespace, r)
	text, err := l.cfg.Reader.Read(reading, document.File{Name: content.Name, MediaType: content.MediaType, Content: content.Bytes})
	if errors.Is(context.Cause(reading), store.ErrSuperseded) {
		err = store.ErrSuperseded
	}
	if err != nil {
		return job.ParsedDocument{}, permanent(err)
	}
	cancel(nil)
	for i, b := range text.Blocks {
		text.Blocks[i].Text = l.cfg.Redact.Text(b.Text)
	}
	chunks := knowledge.Splitter{Size: l.cfg.ChunkTokens, Overlap: l.cfg.OverlapTokens, Count: l.cfg.Reader.Tokens}.Split(text.Blocks)
	for done := 0; done < len(chunks); done += store.MaxKnowledgeBatch {
		batch := make([]store.KnowledgeChunk, 0, store.MaxKnowledgeBatch)
		for i, c := range chunks[done:min(done+store.MaxKnowledgeBatch, len(chunks))] {
			batch = append(batch, store.KnowledgeChunk{
				Index: done + i, Text: c.Text, Overlap: c.Overlap, Path: c.Path, Page: c.Page, Tokens: c.Tokens,
			})
		}
		if err := l.cfg.Store.AddChunks(ctx, namespace, r, batch); err != nil {
			return job.ParsedDocument{}, err
		}
	}
	return job.ParsedDocument{Format: string(text.Format), Title: l.cfg.Redact.Text(text.Title), Chunks: len(chunks), Contextualize: l.Contextualizes()}, nil
}

// Finish ends the processing of a revision.
func (l *Library) Finish(ctx context.Context, namespace string, r store.KnowledgeRevision, out job.IngestResult) (store.KnowledgeDocument, error) {
	f := store.KnowledgeFinish{Error: out.Error, Unchanged: out.Status == job.IngestUnchanged, Title: out.Title, Format: out.Format, Bytes: out.Bytes}
	return l.cfg.Store.FinishKnowledge(ctx, namespace, r, f)
}

// Embed adds vectors to up to [store.MaxKnowledgeBatch] chunks of a revision or, if r is zero, of all documents of the
// namespace. When all of them have vectors, it drops those of other embedders.
func (l *Library) Embed(ctx context.Context, namespace string, r store.KnowledgeRevision) (job.EmbeddedChunks, error) {
	if l.Embeds() == "" {
		return job.EmbeddedChunks{}, nil
	}
	n, err := l.embedBatch(ctx, namespace, r)
	if err == nil && n < store.MaxKnowledgeBatch && r == (store.KnowledgeRevision{}) {
		err = l.dropOthers(ctx, namespace)
	}
	return job.EmbeddedChunks{Chunks: n, More: n == store.MaxKnowledgeBatch}, err
}

// Missing returns how many visible chunks of a namespace have no vector of the current embedder.
func (l *Library) Missing(ctx context.Context, namespace string) (int, error) {
	index, err := l.cfg.Store.KnowledgeIndex(ctx, namespace)
	missing := index.Chunks
	for _, e := range index.Embedders {
		if e.Name == l.embedder.name() {
			missing -= e.Chunks
		}
	}
	return missing, err
}

func (l *Library) dropOthers(ctx context.Context, namespace string) error {
	index, err := l.cfg.Store.KnowledgeIndex(ctx, namespace)
	if err != nil {
		return err
	}
	for _, e := range index.Embedders {
		if e.Name == l.embedder.name() {
			continue
		}
		if err := l.cfg.Store.DropVectors(ctx, namespace, e.Name); err != nil {
			return err
		}
	}
	return nil
}

func (l *Library) embedBatch(ctx context.Context, namespace string, r store.KnowledgeRevision) (int, error) {
	chunks, err := l.cfg.Store.ChunksWithout(ctx, namespace, r, l.embedder.name(), store.MaxKnowledgeBatch)
	if err != nil || len(chunks) == 0 {
		return 0, err
	}
	texts := make([]string, len(chunks))
	for i, c := range chunks {
		texts[i] = embedded(c)
	}
	out, err := l.embed(ctx, l.embedder, llm.EmbedDocument, texts)
	if err != nil {
		return 0, l.embedError(ctx, err)
	}
	vectors := make([]store.KnowledgeVector, len(chunks))
	for i, c := range chunks {
		vectors[i] = store.KnowledgeVector{Document: c.Document, Revision: c.Revision, Index: c.Index, Vector: out.Vectors[i]}
	}
	if err := l.cfg.Store.AddVectors(ctx, namespace, l.embedder.name(), vectors); errors.Is(err, store.ErrInvalid) {
		return 0, &Error{fmt.Sprintf("the vectors of the embedder %s cannot be kept: %s", l.embedder.name(), err)}
	} else if err != nil {
		return 0, err
	}
	return len(chunks), nil
}

// embed calls an embedder, whose vectors fit the texts: a program's own may not check that.
func (l *Library) embed(ctx context.Context, by embedder, purpose llm.EmbedPurpose, texts []string) (llm.Embeddings, error) {
	req := llm.EmbedRequest{Model: by.model, Texts: texts, Purpose: purpose, Dimension: by.dimension}
	out, err := l.cfg.Embedder.Embed(ctx, req)
	if err != nil {
		return out, err
	}
	if err := out.Check(req); err != nil {
		return out, &llm.Error{Provider: by.provider, Code: llm.CodeBadEmbeddings, Message: err.Error()}
	}
	return out, nil
}

// embedded is the text of a chunk as embedders get it.
func embedded(c store.KnowledgeChunk) string {
	parts := make([]string, 0, 3)
	for _, part := range []string{strings.Join(c.Path, " > "), c.Context, c.Text} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "\n\n")
}

// embedError is modelError for the embedder.
func (l *Library) embedError(ctx context.Context, err error) error {
	return modelError(ctx, "the embedder "+l.embedder.name(), err)
}

// modelError returns an error of a model as one of this package. One of another kind, which a program's own provider may
// return, may pass.
func modelError(ctx context.Context, model string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out := &Unavailable{Reason: fmt.Sprintf("%s failed: %s", model, reason(err))}
	if failed, ok := errors.AsType[*llm.Error](err); ok {
		if !failed.Retryable {
			return &Error{out.Reason}
		}
		out.After = failed.RetryAfter
	}
	return out
}

// reason is what people are told of a model's error.
func reason(err error) string {
	if failed, ok := errors.AsType[*llm.Error](err); ok {
		return failed.Message
	}
	return err.Error()
}

// Unavailable is why a step failed that may succeed later: after a time that a server has named, or 0.
type Unavailable struct {
	Reason string
	After  time.Duration
}

func (e *Unavailable) Error() string { return e.Reason }

// permanent returns errors of reading and fetching as errors of this package.
func permanent(err error) error {
	if unreadable, ok := errors.AsType[*document.UnreadableError](err); ok {
		return &Error{unreadable.Reason}
	}
	if failed, ok := errors.AsType[*fetch.Error](err); ok {
		if failed.Retryable {
			return &Unavailable{Reason: failed.Reason}
		}
		return &Error{failed.Reason}
	}
	return err
}
