package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
)

// Knowledge stores documents that agents search, as chunks of text with vectors. Nothing of one namespace is ever found
// in another one.
//
// A document has revisions. A new revision is invisible until FinishKnowledge; until then, the one before is found, and
// the chunks of at most one revision are found at any time. Chunks and vectors are written in batches by steps that may
// be repeated: what exists already is left as it is, and a revision that is finished changes no more. Steps of a revision
// that is not the newest, or of a document that was deleted, change nothing and return [ErrSuperseded].
type Knowledge interface {
	// BeginKnowledge creates the document with d.Collection and d.Source, or begins its next revision, with status
	// [KnowledgeProcessing]. If the newest revision is indexed and has the digest of begin, it returns the document
	// unchanged, unless Force. If the newest revision is still processed and has the same digest, perhaps none, it returns
	// that one, Force or not. A revision that began before and is not indexed is deleted. Of d, it uses Collection, Source,
	// Title, Metadata, ThreadID and By; an empty Title and Metadata keep those of the revision before.
	BeginKnowledge(ctx context.Context, namespace string, d KnowledgeDocument, begin KnowledgeBegin) (KnowledgeDocument, error)

	// PutKnowledgeContent stores the content of a revision that began without, and sets its digest, which is required.
	PutKnowledgeContent(ctx context.Context, namespace string, r KnowledgeRevision, digest string, c KnowledgeContent) error

	// KnowledgeContent returns the content of a revision, or ErrNotFound. That of a failed revision stays until the next
	// one begins.
	KnowledgeContent(ctx context.Context, namespace string, r KnowledgeRevision) (KnowledgeContent, error)

	// AddChunks adds chunks of a revision, by Index. At most [MaxKnowledgeBatch].
	AddChunks(ctx context.Context, namespace string, r KnowledgeRevision, chunks []KnowledgeChunk) error

	// AddContexts gives chunks of a revision a context that have none. Those of chunks that do not exist are ignored. At
	// most [MaxKnowledgeBatch].
	AddContexts(ctx context.Context, namespace string, r KnowledgeRevision, contexts []KnowledgeContext) error

	// AddVectors adds vectors of an embedder to chunks of any visible or processed revision; those of chunks that do not
	// exist, or are no longer visible, are ignored. All vectors of an embedder in a namespace have the same dimension;
	// another one is an ErrInvalid error, as is any vector if the store has no vectors. At most [MaxKnowledgeBatch].
	AddVectors(ctx context.Context, namespace string, embedder string, vectors []KnowledgeVector) error

	// FinishKnowledge ends the processing of a revision. If it is indexed, its chunks become visible, and those of
	// earlier revisions are deleted with their vectors and content. If it failed, its chunks are deleted, and an
	// earlier revision that was indexed remains visible. Finishing twice changes nothing, and returns the document.
	FinishKnowledge(ctx context.Context, namespace string, r KnowledgeRevision, finish KnowledgeFinish) (KnowledgeDocument, error)

	// DeleteKnowledge deletes a document with everything that belongs to it, or returns ErrNotFound. Only the number of
	// its revision remains: if the document is created again, its revisions go on from there.
	DeleteKnowledge(ctx context.Context, namespace, id string) error

	// KnowledgeDocument returns a document, or ErrNotFound.
	KnowledgeDocument(ctx context.Context, namespace, id string) (KnowledgeDocument, error)

	// KnowledgeDocuments returns documents in order of Collection and Source.
	KnowledgeDocuments(ctx context.Context, namespace string, page KnowledgePage) ([]KnowledgeDocument, error)

	// Chunks returns the chunks of a revision with Index >= from, in order, at most limit; default and maximum
	// [MaxKnowledgeBatch]. The next chunk in the document is the one with the next index.
	Chunks(ctx context.Context, namespace string, r KnowledgeRevision, from, limit int) ([]KnowledgeChunk, error)

	// ChunksWithout returns chunks that have no vector of an embedder, in a constant order, at most limit; default and
	// maximum [MaxKnowledgeBatch]. With a revision, they are of that revision; with the zero revision, they are all
	// visible chunks of the namespace.
	ChunksWithout(ctx context.Context, namespace string, r KnowledgeRevision, embedder string, limit int) ([]KnowledgeChunk, error)

	// KnowledgeIndex returns how many visible chunks a namespace has, and how many of them have a vector of each embedder.
	KnowledgeIndex(ctx context.Context, namespace string) (KnowledgeIndex, error)

	// DropVectors deletes all vectors of an embedder in a namespace.
	DropVectors(ctx context.Context, namespace, embedder string) error

	// KnowledgeNamespaces returns the namespaces that have visible chunks, in order.
	KnowledgeNamespaces(ctx context.Context) ([]string, error)

	// KnowledgeCollections returns the collections of a namespace that have documents, in order; at most
	// [MaxKnowledgeCollections].
	KnowledgeCollections(ctx context.Context, namespace string) ([]string, error)

	// SearchText returns the visible chunks that contain words of the query, the best first by BM25. A query is plain
	// text without operators; words are found in all of their English forms, and case and accents do not matter.
	SearchText(ctx context.Context, namespace, query string, in KnowledgeScope) ([]KnowledgeHit, error)

	// SearchVectors returns the visible chunks whose vectors of an embedder are the most similar by their cosine, the best
	// first. A vector of another dimension, or without a direction, finds nothing.
	SearchVectors(ctx context.Context, namespace, embedder string, vector []float32, in KnowledgeScope) ([]KnowledgeHit, error)

	// HasVectors reports whether the store can keep vectors.
	HasVectors() bool
}

// ErrSuperseded means that a revision of a document is no longer the newest, or that the document was deleted.
var ErrSuperseded = errors.New("there is a newer revision of the document, or it was deleted")

// KnowledgeStatus is the status of a document.
type KnowledgeStatus string

// The statuses of a document.
const (
	KnowledgeProcessing KnowledgeStatus = "processing"
	KnowledgeIndexed    KnowledgeStatus = "indexed"
	KnowledgeFailed     KnowledgeStatus = "failed"
)

// KnowledgeDocument is a document that agents search.
type KnowledgeDocument struct {
	// The id of the document, which follows from its collection and source.
	//
	// See [KnowledgeID].
	ID string `json:"id"`

	// The collection that it belongs to.
	//
	// Collections group the documents of a namespace, so that agents can search some of them.
	Collection string `json:"collection"`

	// Its URL, or the path of its file.
	//
	// A collection has one document for each source.
	Source string `json:"source"`

	// Its title.
	Title string `json:"title,omitempty"`

	// What else is known about it, an object.
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// Of the newest revision.
	Status KnowledgeStatus `json:"status" enum:"processing,indexed,failed"`

	// Why the newest revision failed.
	Error string `json:"error,omitempty"`

	// The number of the newest revision, from 1.
	Revision int `json:"revision"`

	// The number of the revision that is found. Left out: none.
	//
	// Its chunks are visible. 0 = none.
	Indexed int `json:"indexed,omitempty"`

	// The SHA-256 of the content of the newest revision.
	//
	// IndexedDigest is that of the content of the revision Indexed.
	Digest        string `json:"digest,omitempty"`
	IndexedDigest string `json:"-"`

	// How the content was read, such as markdown or pdf.
	//
	// It is that of the revision Indexed, as are Bytes and Chunks.
	Format string `json:"format,omitempty"`

	// The size of the content.
	Bytes int `json:"bytes,omitempty"`

	// How many chunks are found.
	Chunks int `json:"chunks,omitempty"`

	// The thread that asked for the newest revision, if one did.
	ThreadID string `json:"thread,omitempty"`

	// Who asked for the newest revision.
	By string `json:"by,omitempty"`

	// IndexedThreadID is the thread that asked first for the content of the revision Indexed. TitleThreadID and MetadataThreadID are those that
	// gave Title and Metadata, which later revisions keep.
	IndexedThreadID  string `json:"-"`
	TitleThreadID    string `json:"-"`
	MetadataThreadID string `json:"-"`

	// When the document was added.
	CreatedAt time.Time `json:"createdAt,omitzero"`

	// When its status changed last.
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
}

// Newest returns the newest revision.
func (d KnowledgeDocument) Newest() KnowledgeRevision {
	return KnowledgeRevision{Document: d.ID, Number: d.Revision}
}

// KnowledgeRevision names a revision of a document.
type KnowledgeRevision struct {
	Document string
	Number   int
}

// KnowledgeBegin is what a revision begins with.
type KnowledgeBegin struct {
	// Digest of Content. Empty, with a nil Content: the content comes later.
	Digest  string
	Content *KnowledgeContent

	// Force begins a revision even if the content has not changed.
	Force bool
}

// KnowledgeContent is the original content of a document.
type KnowledgeContent struct {
	Name, MediaType string
	Bytes           []byte
}

// KnowledgeFinish is how the processing of a revision ended.
type KnowledgeFinish struct {
	// Error is why it failed. Empty = it is indexed.
	Error string

	// Unchanged means that its content is that of the revision that is indexed, which remains visible.
	Unchanged bool

	// Title is used if the document has none.
	Title  string
	Format string
	Bytes  int
}

// KnowledgeScope limits a search.
type KnowledgeScope struct {
	// Collections to search. Empty = all of the namespace.
	Collections []string

	// Limit is the maximum number of hits. Default [DefaultKnowledgeHits], maximum [MaxKnowledgeHits].
	Limit int
}

// KnowledgePage selects documents.
type KnowledgePage struct {
	// Collection selects documents of this collection. Empty = all.
	Collection string

	// Status selects documents with this status. Empty = all.
	Status KnowledgeStatus

	// Search selects documents whose source or title contains the text. Case does not matter in ASCII. Empty = all.
	Search string

	// AfterCollection and AfterSource are those of the last document of the previous page; both are compared byte by byte.
	AfterCollection, AfterSource string

	// Limit is the maximum number. Default 50, at most 200.
	Limit int
}

// KnowledgeChunk is a passage of a document.
type KnowledgeChunk struct {
	// Document, Revision and Index, which counts from 0, identify a chunk.
	Document string
	Revision int
	Index    int

	Text string

	// Overlap is how many bytes at the beginning of Text repeat the end of the chunk before.
	Overlap int

	// Path is the headings above the chunk. They are found by SearchText too.
	Path []string

	// Page on which the chunk begins. 0 = none.
	Page   int
	Tokens int

	// Context places the chunk within the document; SearchText finds it too. Empty = none.
	Context string
}

// KnowledgeContext is the Context of a chunk of a revision, by its Index.
type KnowledgeContext struct {
	Index   int
	Context string
}

// KnowledgeVector is the vector of a chunk.
type KnowledgeVector struct {
	Document string
	Revision int
	Index    int
	Vector   []float32
}

// KnowledgeHit is a chunk that was found.
type KnowledgeHit struct {
	KnowledgeChunk

	// Collection, Source and Title of the document.
	Collection, Source, Title string

	// Score of SearchText is greater for better hits; it compares hits of one search only. Score of SearchVectors is the
	// cosine, between -1 and 1.
	Score float64
}

// KnowledgeIndex describes what is visible in a namespace.
type KnowledgeIndex struct {
	// How many documents are found.
	Documents int `json:"documents"`

	// How many chunks they have.
	Chunks int `json:"chunks"`

	// The embedders whose vectors exist.
	//
	// They are sorted by name.
	Embedders []KnowledgeEmbedder `json:"embedders" nullable:"false"`
}

// KnowledgeEmbedder says how many visible chunks have a vector of an embedder.
type KnowledgeEmbedder struct {
	// The embedder, provider/model.
	Name string `json:"name"`

	// The dimension of its vectors.
	Dimension int `json:"dimension"`

	// How many chunks have a vector.
	Chunks int `json:"chunks"`
}

// Limits and defaults of [Knowledge].
const (
	// MaxKnowledgeContent is the maximum size of the content of a document, in bytes.
	MaxKnowledgeContent = 32 << 20

	// MaxKnowledgeBatch is the maximum number of chunks or vectors of a call.
	MaxKnowledgeBatch = 100

	// MaxKnowledgeContext is the maximum size of a [KnowledgeContext], in bytes.
	MaxKnowledgeContext = 4 << 10

	// MaxKnowledgeCollections is how many collections of a namespace are listed.
	MaxKnowledgeCollections = 1000

	// MaxKnowledgeDimension is the maximum dimension of vectors.
	MaxKnowledgeDimension = 4096

	// Maximum lengths of what documents are known by, in bytes.
	MaxKnowledgeSource     = 2048
	MaxKnowledgeCollection = 100
	MaxKnowledgeTitle      = 500

	DefaultCollection    = "default"
	DefaultKnowledgeHits = 50
	MaxKnowledgeHits     = 200
	DefaultKnowledgePage = 50
	MaxKnowledgePage     = 200
)

// KnowledgeID returns the id of the document with a source in a collection.
func KnowledgeID(collection, source string) string {
	sum := sha256.Sum256([]byte(collection + "\x00" + source))
	return hex.EncodeToString(sum[:12])
}

// KnowledgeDigest returns the digest of a content.
func KnowledgeDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
