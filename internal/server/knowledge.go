package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// KnowledgePath is the input of operations on one document.
type KnowledgePath struct {
	ID string `path:"id" doc:"The id of the document"`
}

type listKnowledgeInput struct {
	Collection string                `query:"collection" doc:"Only documents of this collection"`
	Status     store.KnowledgeStatus `query:"status" enum:"processing,indexed,failed" doc:"Only documents with this status"`
	Search     string                `query:"search" maxLength:"200" doc:"Only documents whose source or title contains this text, in upper or lower case"`
	Limit      int                   `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Of a page"`
	Cursor     string                `query:"cursor" doc:"The next of the previous page"`
}

type listKnowledgeOutput struct {
	Body struct {
		Documents []store.KnowledgeDocument `json:"documents" nullable:"false" doc:"The documents, by collection and source"`
		Next      string                    `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	}
}

type knowledgeOutput struct {
	Status int
	Body   store.KnowledgeDocument
}

type chunksInput struct {
	KnowledgePath
	From  int `query:"from" minimum:"0" doc:"The index of the first chunk. Default: 0"`
	Limit int `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Of a page"`
}

type chunksOutput struct {
	Body struct {
		Chunks []api.Chunk `json:"chunks" nullable:"false" doc:"The chunks, in the order of the document"`
		Next   int         `json:"next,omitempty" doc:"The from of the next page, if there is one"`
	}
}

type searchKnowledgeInput struct {
	Q           string   `query:"q" required:"true" minLength:"1" doc:"What to look for: words, or a question"`
	Collections []string `query:"collection,explode" maxItems:"50" doc:"Only documents of this collection; several may be given"`
	Limit       int      `query:"limit" minimum:"1" maximum:"50" default:"5" doc:"How many passages at most"`
}

// knowledgeHandlers serve the documents that agents search.
type knowledgeHandlers struct {
	*core
	library   *library.Library
	maxUpload int64
	uploads   uploads

	withoutEntities string
}

func (h *knowledgeHandlers) registerKnowledge() {
	tags := []string{"knowledge"}
	const all, one = "/v1/knowledge/documents", "/v1/knowledge/documents/{id}"
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "getKnowledge", Method: http.MethodGet, Path: "/v1/knowledge", Tags: tags,
		Summary: "Tell how many documents are found, and by which vectors",
	}, h.get)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listKnowledgeDocuments", Method: http.MethodGet, Path: all, Tags: tags, Summary: "List the documents",
	}, h.list)
	const adds = "Indexing goes on after the response: the status of the document tells its end. Until then, the version before is found. "
	h.registerAdding(huma.Operation{
		OperationID: "addKnowledgeDocument", Method: http.MethodPost, Path: all, Tags: tags, Summary: "Add a document that has an address, or a text",
		Description: adds + "A document with the same collection and source is replaced. Larger texts are uploaded as files.",
		Errors:      []int{400, 413, 422, 503},
	}, func(op huma.Operation) { register(h.core, auth.RolePost, op, h.add) })
	h.registerAdding(huma.Operation{
		OperationID: "uploadKnowledgeFile", Method: http.MethodPost, Path: "/v1/knowledge/files", Tags: tags, Summary: "Upload a file as a document",
		Description: adds + "Text, Markdown, HTML, PDF, DOCX, CSV and source code are read, up to 32 MiB.",
		Errors:      []int{400, 408, 413, 422, 503}, RequestBody: fileBodyDoc,
	}, func(op huma.Operation) { register(h.core, auth.RolePost, op, h.upload) })
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "getKnowledgeDocument", Method: http.MethodGet, Path: one, Tags: tags, Summary: "Get a document", Errors: []int{404},
	}, h.document)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "deleteKnowledgeDocument", Method: http.MethodDelete, Path: one, Tags: tags,
		Summary: "Delete a document with everything that was made from it", DefaultStatus: http.StatusNoContent,
		Description: "It also ends the processing of the document.", Errors: []int{404},
	}, h.remove)
	h.registerAdding(huma.Operation{
		OperationID: "reindexKnowledgeDocument", Method: http.MethodPost, Path: one + "/reindex", Tags: tags,
		Summary:     "Index a document again, although it has not changed",
		Description: "What came from an address is fetched again; what was uploaded is read from the store.", Errors: []int{404, 422, 503},
	}, func(op huma.Operation) { register(h.core, auth.RoleOperate, op, h.reindex) })
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listKnowledgeChunks", Method: http.MethodGet, Path: one + "/chunks", Tags: tags,
		Summary: "List the chunks of a document that are found, in its order", Errors: []int{404},
	}, h.chunks)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "searchKnowledge", Method: http.MethodGet, Path: "/v1/knowledge/search", Tags: tags,
		Summary: "Find the passages that fit a text best",
		Description: "By the words of the text and, if there is an embedder, by the similarity of vectors; the ranks of both are fused. " +
			"If the embedder fails, the words decide alone, and a warning says so.",
	}, h.search)
}

// registerAdding registers an operation that answers 202 while a document is processed, or else 200.
func (h *knowledgeHandlers) registerAdding(op huma.Operation, register func(huma.Operation)) {
	op.DefaultStatus = http.StatusAccepted
	op.Responses = map[string]*huma.Response{"200": {Description: "The document has not changed since it was indexed"}}
	register(op)
	added := h.api.OpenAPI().Paths[op.Path].Post
	added.Responses["200"].Content = added.Responses["202"].Content
}

func (h *knowledgeHandlers) get(ctx context.Context, _ *struct{}) (*output[api.Knowledge], error) {
	index, err := h.library.Store().KnowledgeIndex(ctx, h.namespace)
	index.Embedders = nonNil(index.Embedders)
	if err != nil {
		return nil, h.knowledgeProblem(ctx, "", "", err)
	}
	collections, err := h.library.Store().KnowledgeCollections(ctx, h.namespace)
	return &output[api.Knowledge]{api.Knowledge{
		Embedder: h.library.Embeds(), WithoutVectors: h.library.WithoutVectors(), WithoutEntities: h.withoutEntities, KnowledgeIndex: index,
		ContextModel: h.library.ContextModel(), RerankModel: h.library.RerankModel(), Collections: nonNil(collections),
	}}, h.knowledgeProblem(ctx, "", "", err)
}

func (h *knowledgeHandlers) list(ctx context.Context, in *listKnowledgeInput) (*listKnowledgeOutput, error) {
	page := store.KnowledgePage{Collection: in.Collection, Status: in.Status, Search: in.Search, Limit: in.Limit}
	if in.Cursor != "" {
		last, ok := parsePageCursor(in.Cursor, 2)
		if !ok {
			return nil, refuse(http.StatusUnprocessableEntity, "query.cursor", badCursor)
		}
		page.AfterCollection, page.AfterSource = last[0], last[1]
	}
	documents, err := h.library.Store().KnowledgeDocuments(ctx, h.namespace, page)
	if err != nil {
		return nil, h.knowledgeProblem(ctx, "query.", "", err)
	}
	out := &listKnowledgeOutput{}
	out.Body.Documents = nonNil(documents)
	if len(documents) == in.Limit {
		last := documents[len(documents)-1]
		out.Body.Next = pageCursor(last.Collection, last.Source)
	}
	return out, nil
}

// addition is what a request says about a document.
type addition struct {
	source, collection, title, thread string

	metadata json.RawMessage
	force    bool
}

// checkAddition returns the document that a request asks for, without its content. at is the location of its fields.
func checkAddition(ctx context.Context, at string, in addition) (library.Addition, error) {
	asked := signals.Ingestion{Source: in.source, Collection: in.collection, Title: in.title, Metadata: in.metadata}
	if err := asked.Validate(); err != nil {
		return library.Addition{}, atField(at, err)
	}
	if in.thread != "" {
		if err := signals.ValidateID("thread", in.thread); err != nil {
			return library.Addition{}, atField(at, err)
		}
	}
	by, err := actor(ctx, "", "", byAPI)
	if err != nil {
		return library.Addition{}, err
	}
	collection, title := asked.Named()
	return library.Addition{
		Collection: collection, Source: in.source, Title: title, Metadata: in.metadata, Force: in.force, ThreadID: in.thread, By: by,
	}, nil
}

// atField returns the problem document of a field of an object at a location.
func atField(at string, err error) error {
	if field, ok := errors.AsType[*event.FieldError](err); ok {
		return refuse(http.StatusUnprocessableEntity, at+field.Field, field.Problem)
	}
	return err
}

func (h *knowledgeHandlers) add(ctx context.Context, in *struct{ Body api.NewDocument }) (*knowledgeOutput, error) {
	b := in.Body
	to, err := checkAddition(ctx, "body.", addition{
		source: b.Source, collection: b.Collection, title: b.Title, thread: b.Thread, metadata: b.Metadata, force: b.ForceReindex,
	})
	if err != nil {
		return nil, err
	}
	if b.Text != "" {
		to.Content = library.Given(b.Source, "text/markdown", []byte(b.Text))
	}
	return h.ingest(ctx, "body.", to)
}

func (h *knowledgeHandlers) ingest(ctx context.Context, at string, a library.Addition) (*knowledgeOutput, error) {
	return h.begin(ctx, at, "", func(ctx context.Context) (store.KnowledgeDocument, error) { return h.library.Add(ctx, h.namespace, a) })
}

func (h *knowledgeHandlers) reindex(ctx context.Context, in *KnowledgePath) (*knowledgeOutput, error) {
	by, err := actor(ctx, "", "", byAPI)
	if err != nil {
		return nil, err
	}
	return h.begin(ctx, "", in.ID, func(ctx context.Context) (store.KnowledgeDocument, error) {
		return h.library.Reindex(ctx, h.namespace, in.ID, by)
	})
}

// begin begins an ingestion, within the time that Temporal has to answer. It can be begun again if that passes.
func (h *knowledgeHandlers) begin(ctx context.Context, at, id string, ingest func(context.Context) (store.KnowledgeDocument, error)) (*knowledgeOutput, error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	doc, err := ingest(within)
	if err != nil {
		return nil, h.knowledgeProblem(ctx, at, id, err)
	}
	out := &knowledgeOutput{Status: http.StatusOK, Body: doc}
	if doc.Status == store.KnowledgeProcessing {
		out.Status = http.StatusAccepted
	}
	return out, nil
}

func (h *knowledgeHandlers) document(ctx context.Context, in *KnowledgePath) (*output[store.KnowledgeDocument], error) {
	doc, err := h.library.Store().KnowledgeDocument(ctx, h.namespace, in.ID)
	return &output[store.KnowledgeDocument]{doc}, h.knowledgeProblem(ctx, "", in.ID, err)
}

func (h *knowledgeHandlers) remove(ctx context.Context, in *KnowledgePath) (*struct{}, error) {
	if err := h.library.Store().DeleteKnowledge(ctx, h.namespace, in.ID); err != nil {
		return nil, h.knowledgeProblem(ctx, "", in.ID, err)
	}
	h.logger.Info("document deleted", "document", in.ID, "by", auth.FromContext(ctx).Name)
	return nil, nil
}

func (h *knowledgeHandlers) chunks(ctx context.Context, in *chunksInput) (*chunksOutput, error) {
	doc, err := h.library.Store().KnowledgeDocument(ctx, h.namespace, in.ID)
	if err != nil {
		return nil, h.knowledgeProblem(ctx, "", in.ID, err)
	}
	out := &chunksOutput{}
	out.Body.Chunks = []api.Chunk{}
	if doc.Indexed == 0 {
		return out, nil
	}
	visible := store.KnowledgeRevision{Document: doc.ID, Number: doc.Indexed}
	chunks, err := h.library.Store().Chunks(ctx, h.namespace, visible, in.From, in.Limit)
	if err != nil {
		return nil, h.knowledgeProblem(ctx, "", in.ID, err)
	}
	for _, c := range chunks {
		out.Body.Chunks = append(out.Body.Chunks, chunkView(c, doc.Chunks))
	}
	if last := in.From + len(chunks); len(chunks) > 0 && last < doc.Chunks {
		out.Body.Next = last
	}
	return out, nil
}

// chunkView returns a chunk of a document that has a number of them.
func chunkView(c store.KnowledgeChunk, all int) api.Chunk {
	view := api.Chunk{ID: library.ChunkID(c), Index: c.Index, Text: c.Text, Path: c.Path, Page: c.Page, Tokens: c.Tokens, Context: c.Context}
	if c.Index+1 < all {
		next := c
		next.Index++
		view.Next = library.ChunkID(next)
	}
	return view
}

func (h *knowledgeHandlers) search(ctx context.Context, in *searchKnowledgeInput) (*output[library.Found], error) {
	if !store.Storable(in.Q) {
		return nil, refuse(http.StatusUnprocessableEntity, "query.q", "must be UTF-8 without NUL characters")
	}
	if err := awaitsOthers(ctx); err != nil { // the embedder
		return nil, err
	}
	found, err := h.library.Search(ctx, h.namespace, library.Query{Text: in.Q, Collections: in.Collections, Limit: in.Limit})
	return &output[library.Found]{found}, h.knowledgeProblem(ctx, "query.", "", err)
}

// knowledgeFields are the fields of a request that errors of the library and of the store begin with.
var knowledgeFields = []string{"source", "collection", "title", "metadata", "content"}

// knowledgeProblem converts the error of an operation on a document to a problem document. at is the location of the fields of
// the request.
func (h *knowledgeHandlers) knowledgeProblem(ctx context.Context, at, id string, err error) error {
	refused, ok := errors.AsType[*library.Error](err)
	switch {
	case err == nil:
		return nil
	case ok:
		return refuseKnowledge(at, refused.Reason)
	case errors.Is(err, store.ErrInvalid):
		_, reason, _ := strings.Cut(err.Error(), store.ErrInvalid.Error()+": ")
		return refuseKnowledge(at, reason)
	case errors.Is(err, store.ErrNotFound):
		return huma.Error404NotFound(fmt.Sprintf("there is no document %.128q", id))
	case unanswered(err) && ctx.Err() == nil:
		h.logger.Warn("an ingestion was not started", "error", err)
		return later(http.StatusServiceUnavailable, "5", "Temporal did not answer in time, so the document waits: send the request again")
	}
	return h.problem(ctx, "", err)
}

func refuseKnowledge(at, reason string) error {
	if field, problem, ok := strings.Cut(reason, ": "); ok && slices.Contains(knowledgeFields, field) {
		return refuse(http.StatusUnprocessableEntity, at+field, problem)
	}
	return huma.Error422UnprocessableEntity(reason)
}
