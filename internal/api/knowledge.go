package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// uploadTimeout limits the upload of a file: the server wants 256 KiB a second, and other uploads may come first.
const uploadTimeout = 5 * time.Minute

// Knowledge is what is known of the documents of a namespace.
type Knowledge struct {
	Embedder       string `json:"embedder" doc:"The embedder whose vectors new documents get, provider/model. Empty: documents are found by their words alone"`
	WithoutVectors string `json:"withoutVectors,omitempty" doc:"Why there is no embedder"`

	// WithoutEntities says why messages are not searched for entities.
	WithoutEntities string `json:"withoutEntities,omitempty" doc:"Why no people and things are found in messages"`
	store.KnowledgeIndex

	ContextModel string   `json:"contextModel,omitempty" doc:"The model that writes the contexts of chunks, provider/model. Left out: they have none"`
	RerankModel  string   `json:"rerankModel,omitempty" doc:"The model that orders what a search has found, provider/model. Left out: there is none"`
	Collections  []string `json:"collections" nullable:"false" doc:"The collections that have documents, in order; at most 1000"`
}

// Knowledge tells how many documents are found, and by which vectors.
func (c *Client) Knowledge(ctx context.Context) (Knowledge, error) {
	return call[Knowledge](ctx, c, http.MethodGet, c.url(nil, "knowledge"), nil, "reading the state of the documents")
}

// NewDocument is a document that is to be added. Text is the document itself; without one, it is fetched from Source.
type NewDocument struct {
	Source       string          `json:"source" minLength:"1" doc:"The address of the document or, with a text, any name for it"`
	Collection   string          `json:"collection,omitempty" doc:"The collection that it belongs to. Default: default"`
	Title        string          `json:"title,omitempty" doc:"Its title. Default: the one that the document states"`
	Metadata     json.RawMessage `json:"metadata,omitempty" doc:"What else is known about it, an object. A title in it counts if there is no other"`
	Text         string          `json:"text,omitempty" doc:"The document itself, as Markdown. Default: it is fetched from the source"`
	Thread       string          `json:"thread,omitempty" doc:"A thread that is told when the document is indexed or has failed. Default: none"`
	ForceReindex bool            `json:"forceReindex,omitempty" doc:"Index the document even if it has not changed"`
}

// AddDocument adds a document. Its status is processing until it is indexed or has failed.
func (c *Client) AddDocument(ctx context.Context, d NewDocument) (store.KnowledgeDocument, error) {
	return call[store.KnowledgeDocument](ctx, c, http.MethodPost, c.url(nil, "knowledge", "documents"), d, "adding %q", d.Source)
}

// UploadDocument adds a file. Metadata and Text of the document are not sent. Without a media type, the name says what it is.
func (c *Client) UploadDocument(ctx context.Context, d NewDocument, mediaType string, content []byte) (store.KnowledgeDocument, error) {
	query := url.Values{"source": {d.Source}}
	for name, value := range map[string]string{"collection": d.Collection, "title": d.Title, "thread": d.Thread} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if d.ForceReindex {
		query.Set("forceReindex", "true")
	}
	header := http.Header{}
	if mediaType != "" {
		header.Set("Content-Type", mediaType)
	}
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	var out store.KnowledgeDocument
	if err := c.receive(ctx, http.MethodPost, c.url(query, "knowledge", "files"), header, bytes.NewReader(content), &out); err != nil {
		return out, fmt.Errorf("uploading %q: %w", d.Source, err)
	}
	return out, nil
}

// DocumentQuery selects documents.
type DocumentQuery struct {
	Collection string
	Status     store.KnowledgeStatus
	Search     string

	// Limit is the maximum number of documents.
	Limit int
}

// Documents lists documents, by collection and source.
func (c *Client) Documents(ctx context.Context, q DocumentQuery) ([]store.KnowledgeDocument, error) {
	query := url.Values{}
	for name, value := range map[string]string{"collection": q.Collection, "status": string(q.Status), "search": q.Search} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return listed(query, q.Limit, store.MaxKnowledgePage, func(query url.Values) ([]store.KnowledgeDocument, string, error) {
		page, err := call[struct {
			Documents []store.KnowledgeDocument `json:"documents"`
			Next      string                    `json:"next"`
		}](ctx, c, http.MethodGet, c.url(query, "knowledge", "documents"), nil, "listing the documents")
		return page.Documents, page.Next, err
	})
}

// Document returns a document.
func (c *Client) Document(ctx context.Context, id string) (store.KnowledgeDocument, error) {
	return call[store.KnowledgeDocument](ctx, c, http.MethodGet, c.url(nil, "knowledge", "documents", id), nil, "reading document %q", id)
}

// DeleteDocument deletes a document.
func (c *Client) DeleteDocument(ctx context.Context, id string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, c.url(nil, "knowledge", "documents", id), nil, "deleting document %q", id)
	return err
}

// ReindexDocument indexes a document again, although it has not changed.
func (c *Client) ReindexDocument(ctx context.Context, id string) (store.KnowledgeDocument, error) {
	return call[store.KnowledgeDocument](ctx, c, http.MethodPost, c.url(nil, "knowledge", "documents", id, "reindex"), nil, "indexing document %q again", id)
}

// Chunk is a passage of a document.
type Chunk struct {
	ID      string   `json:"id" doc:"The id of the chunk"`
	Index   int      `json:"index" doc:"Its place in the document, from 0"`
	Text    string   `json:"text" doc:"Its text. Its beginning may repeat the end of the chunk before"`
	Path    []string `json:"path,omitempty" doc:"The headings above it, the highest first"`
	Page    int      `json:"page,omitempty" doc:"The page on which it begins, from 1. Left out: the document has no pages"`
	Tokens  int      `json:"tokens" doc:"Its size in tokens"`
	Context string   `json:"context,omitempty" doc:"What a model has written to place the chunk in its document. It is no part of the document"`
	Next    string   `json:"next,omitempty" doc:"The id of the chunk that follows in the document. Left out: it is the last one"`
}

// Chunks returns chunks of a document from an index on, at most 100, and the index of the next page; 0 = there is none.
func (c *Client) Chunks(ctx context.Context, id string, from, limit int) (chunks []Chunk, next int, err error) {
	query := url.Values{"from": {strconv.Itoa(from)}, "limit": {strconv.Itoa(limit)}}
	out, err := call[struct {
		Chunks []Chunk `json:"chunks"`
		Next   int     `json:"next"`
	}](ctx, c, http.MethodGet, c.url(query, "knowledge", "documents", id, "chunks"), nil, "reading the chunks of document %q", id)
	return out.Chunks, out.Next, err
}

// FoundPassages is the result of a search.
type FoundPassages struct {
	Passages []event.Passage `json:"passages"`
	Warning  string          `json:"warning,omitempty"`
}

// SearchKnowledge finds the passages that fit a text best, in some collections, or in all if there are none.
func (c *Client) SearchKnowledge(ctx context.Context, text string, collections []string, limit int) (FoundPassages, error) {
	query := url.Values{"q": {text}, "limit": {strconv.Itoa(limit)}}
	if len(collections) > 0 {
		query["collection"] = collections
	}
	return call[FoundPassages](ctx, c, http.MethodGet, c.url(query, "knowledge", "search"), nil, "searching the documents")
}
