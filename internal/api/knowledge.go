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
	Embedder       string `json:"embedder"`
	WithoutVectors string `json:"withoutVectors,omitempty"`
	store.KnowledgeIndex
	Collections []string `json:"collections"`
}

// Knowledge tells how many documents are found, and by which vectors.
func (c *Client) Knowledge(ctx context.Context) (Knowledge, error) {
	return call[Knowledge](ctx, c, http.MethodGet, c.url(nil, "knowledge"), nil, "reading the state of the documents")
}

// NewDocument is a document that is to be added. Text is the document itself; without one, it is fetched from Source.
type NewDocument struct {
	Source       string          `json:"source"`
	Collection   string          `json:"collection,omitempty"`
	Title        string          `json:"title,omitempty"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
	Text         string          `json:"text,omitempty"`
	Thread       string          `json:"thread,omitempty"`
	ForceReindex bool            `json:"forceReindex,omitempty"`
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

// Chunk is a passage of a document. Next is the id of the chunk that follows.
type Chunk struct {
	ID      string   `json:"id"`
	Index   int      `json:"index"`
	Text    string   `json:"text"`
	Path    []string `json:"path,omitempty"`
	Page    int      `json:"page,omitempty"`
	Tokens  int      `json:"tokens"`
	Context string   `json:"context,omitempty"`
	Next    string   `json:"next,omitempty"`
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
