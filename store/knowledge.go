package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
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
	// ID is derived from Collection and Source: see [KnowledgeID].
	ID string `json:"id" doc:"The id of the document, which follows from its collection and source"`

	// Collection groups documents of a namespace, so that agents can search some of them.
	Collection string `json:"collection" doc:"The collection that it belongs to"`

	// Source is a URL or the path of a file. A collection has one document for each source.
	Source string `json:"source" doc:"Its URL, or the path of its file"`
	Title  string `json:"title,omitempty" doc:"Its title"`

	Metadata json.RawMessage `json:"metadata,omitempty" doc:"What else is known about it, an object"`

	Status   KnowledgeStatus `json:"status" enum:"processing,indexed,failed" doc:"Of the newest revision"`
	Error    string          `json:"error,omitempty" doc:"Why the newest revision failed"`
	Revision int             `json:"revision" doc:"The number of the newest revision, from 1"`

	// Indexed is the revision whose chunks are visible. 0 = none.
	Indexed int `json:"indexed,omitempty" doc:"The number of the revision that is found. Left out: none"`

	// Digest is that of the content of Revision, IndexedDigest that of Indexed.
	Digest        string `json:"digest,omitempty" doc:"The SHA-256 of the content of the newest revision"`
	IndexedDigest string `json:"-"`

	// Format, Bytes and Chunks are those of the revision Indexed.
	Format string `json:"format,omitempty" doc:"How the content was read, such as markdown or pdf"`
	Bytes  int    `json:"bytes,omitempty" doc:"The size of the content"`
	Chunks int    `json:"chunks,omitempty" doc:"How many chunks are found"`

	// ThreadID is the thread that asked for the newest revision, if one did.
	ThreadID string `json:"thread,omitempty" doc:"The thread that asked for the newest revision, if one did"`
	By       string `json:"by,omitempty" doc:"Who asked for the newest revision"`

	// IndexedThreadID is the thread that asked first for the content of the revision Indexed. TitleThreadID and MetadataThreadID are those that
	// gave Title and Metadata, which later revisions keep.
	IndexedThreadID  string `json:"-"`
	TitleThreadID    string `json:"-"`
	MetadataThreadID string `json:"-"`

	CreatedAt time.Time `json:"createdAt,omitzero" doc:"When the document was added"`
	UpdatedAt time.Time `json:"updatedAt,omitzero" doc:"When its status changed last"`
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
	Documents int `json:"documents" doc:"How many documents are found"`
	Chunks    int `json:"chunks" doc:"How many chunks they have"`

	// Embedders are those that visible chunks have vectors of, by name.
	Embedders []KnowledgeEmbedder `json:"embedders" nullable:"false" doc:"The embedders whose vectors exist"`
}

// KnowledgeEmbedder says how many visible chunks have a vector of an embedder.
type KnowledgeEmbedder struct {
	Name      string `json:"name" doc:"The embedder, provider/model"`
	Dimension int    `json:"dimension" doc:"The dimension of its vectors"`
	Chunks    int    `json:"chunks" doc:"How many chunks have a vector"`
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

	maxKnowledgeError    = 4 << 10
	maxKnowledgeMetadata = 16 << 10
	maxKnowledgeChunk    = 64 << 10
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

// NormalizeKnowledge returns a document and what it begins with in the form that every driver stores, or an [ErrInvalid] error.
func NormalizeKnowledge(namespace string, d KnowledgeDocument, begin KnowledgeBegin) (KnowledgeDocument, error) {
	if d.Collection == "" {
		d.Collection = DefaultCollection
	}
	for _, word := range []struct{ field, text string }{{"namespace", namespace}, {"collection", d.Collection}, {"source", d.Source}} {
		if err := checkWord(word.field, word.text); err != nil {
			return d, err
		}
	}
	switch {
	case len(d.Source) > MaxKnowledgeSource:
		return d, invalid("source: is %d bytes, at most %d are kept", len(d.Source), MaxKnowledgeSource)
	case len(d.Collection) > MaxKnowledgeCollection:
		return d, invalid("collection: is %d bytes, at most %d are kept", len(d.Collection), MaxKnowledgeCollection)
	case len(d.Title) > MaxKnowledgeTitle:
		return d, invalid("title: is %d bytes, at most %d are kept", len(d.Title), MaxKnowledgeTitle)
	case !Storable(d.By) || !Storable(d.ThreadID) || !Storable(begin.Digest):
		return d, invalid("by, thread and digest must be UTF-8 without NUL characters")
	case len(d.Metadata) > maxKnowledgeMetadata:
		return d, invalid("metadata: is %d bytes, at most %d are kept", len(d.Metadata), maxKnowledgeMetadata)
	case len(d.Metadata) > 0 && !json.Valid(d.Metadata):
		return d, invalid("metadata: is not JSON")
	case begin.Content != nil && begin.Digest == "":
		return d, invalid("digest: is required with a content")
	}
	if err := CheckKnowledgeContent(begin.Content); err != nil {
		return d, err
	}
	d.ID, d.Title, d.Metadata = KnowledgeID(d.Collection, d.Source), knowledgeText(d.Title), validUTF8(d.Metadata)
	return d, nil
}

// NextKnowledge returns the document as BeginKnowledge returns it, and whether it begins a revision. Before is the document
// that exists; of one that was deleted, it has but the number of the revision, and of none, it is the zero value.
func NextKnowledge(d KnowledgeDocument, begin KnowledgeBegin, before KnowledgeDocument, now time.Time) (KnowledgeDocument, bool) {
	unchanged := before.Status == KnowledgeIndexed && before.Digest != "" && !begin.Force
	if before.Digest == begin.Digest && (unchanged || before.Status == KnowledgeProcessing) {
		return before, false
	}
	next := before
	next.ID, next.Collection, next.Source, next.ThreadID, next.By = d.ID, d.Collection, d.Source, d.ThreadID, d.By
	if d.Title != "" {
		next.Title, next.TitleThreadID = d.Title, d.ThreadID
	}
	if len(d.Metadata) > 0 {
		next.Metadata, next.MetadataThreadID = d.Metadata, d.ThreadID
	}
	next.Status, next.Error, next.Digest, next.Revision = KnowledgeProcessing, "", begin.Digest, before.Revision+1
	next.changed(now)
	return next, true
}

// Finished returns the document after its newest revision, which has a number of chunks, was processed.
func (d KnowledgeDocument) Finished(f KnowledgeFinish, chunks int, now time.Time) KnowledgeDocument {
	d.changed(now)
	if f.Unchanged && d.Indexed == 0 {
		f.Error = "the revision with the same content was deleted meanwhile; add the document again"
	}
	if f.Error != "" {
		d.Status, d.Error = KnowledgeFailed, f.Error
		return d
	}
	d.Status = KnowledgeIndexed
	if f.Unchanged {
		return d
	}
	if d.Indexed == 0 || d.Digest == "" || d.Digest != d.IndexedDigest {
		d.IndexedThreadID = d.ThreadID
	}
	d.Indexed, d.IndexedDigest = d.Revision, d.Digest
	d.Format, d.Bytes, d.Chunks = f.Format, f.Bytes, chunks
	if d.Title == "" {
		d.Title, d.TitleThreadID = f.Title, d.ThreadID
	}
	return d
}

// Without returns the document without what a thread gave it, and the revision to keep, 0 if all stay. ok is false if
// nothing is left, so that the document must be deleted.
func (d KnowledgeDocument) Without(threadID string, now time.Time) (left KnowledgeDocument, keep int, ok bool) {
	newest, indexed := d.ThreadID == threadID, d.Indexed > 0 && d.IndexedThreadID == threadID
	switch {
	case newest && (indexed || d.Indexed == 0):
		return d, 0, false
	case newest:
		// The revision before becomes the newest one again. The number goes on, so that steps of this one are superseded.
		d.ThreadID, d.By, d.Digest, d.Revision = d.IndexedThreadID, "", d.IndexedDigest, d.Revision+1
		d.Status, d.Error, keep = KnowledgeIndexed, "", d.Indexed
	case indexed && d.Status == KnowledgeIndexed:
		d.IndexedThreadID = d.ThreadID // which asked for the same content
	case indexed:
		d.Indexed, d.IndexedDigest, d.IndexedThreadID, keep = 0, "", "", d.Revision
		d.Format, d.Bytes, d.Chunks = "", 0, 0
	}
	if d.TitleThreadID == threadID {
		d.Title, d.TitleThreadID = "", ""
	}
	if d.MetadataThreadID == threadID {
		d.Metadata, d.MetadataThreadID = nil, ""
	}
	d.changed(now)
	return d, keep, true
}

// changed sets the times of a document that changes now. Times do not go back when clocks do.
func (d *KnowledgeDocument) changed(now time.Time) {
	if now = stamp(now); now.After(d.UpdatedAt) {
		d.UpdatedAt = now
	}
	if d.CreatedAt.IsZero() {
		d.CreatedAt = d.UpdatedAt
	}
}

// CheckPut returns an [ErrInvalid] error for a content that comes later, if no driver can store it.
func CheckPut(digest string, c KnowledgeContent) error {
	if err := checkWord("digest", digest); err != nil {
		return err
	}
	return CheckKnowledgeContent(&c)
}

// CheckKnowledgeContent returns an [ErrInvalid] error for a content that no driver can store.
func CheckKnowledgeContent(c *KnowledgeContent) error {
	switch {
	case c == nil:
		return nil
	case len(c.Bytes) > MaxKnowledgeContent:
		return invalid("content: is %d bytes, at most %d are kept", len(c.Bytes), MaxKnowledgeContent)
	case !Storable(c.Name) || !Storable(c.MediaType):
		return invalid("name and mediaType must be UTF-8 without NUL characters")
	}
	return nil
}

// NormalizeChunks returns chunks of a revision in the form that every driver stores, or an [ErrInvalid] error.
func NormalizeChunks(r KnowledgeRevision, chunks []KnowledgeChunk) ([]KnowledgeChunk, error) {
	if len(chunks) > MaxKnowledgeBatch {
		return nil, invalid("chunks: are %d, at most %d are added at once", len(chunks), MaxKnowledgeBatch)
	}
	chunks = slices.Clone(chunks)
	for i := range chunks {
		c := &chunks[i]
		c.Document, c.Revision = r.Document, r.Number
		if c.Index < 0 || c.Index > maxVersion {
			return nil, invalid("chunk %d: the index is %d", i, c.Index)
		}
		if size := len(c.Text) + len(c.Context) + len(strings.Join(c.Path, " ")); size > maxKnowledgeChunk {
			return nil, invalid("chunk %d: is %d bytes, at most %d are kept", c.Index, size, maxKnowledgeChunk)
		}
		if c.Overlap < 0 || c.Overlap > len(c.Text) {
			return nil, invalid("chunk %d: overlaps by %d of its %d bytes", c.Index, c.Overlap, len(c.Text))
		}
		if min(c.Page, c.Tokens) < 0 || max(c.Page, c.Tokens) > maxVersion {
			return nil, invalid("chunk %d: its page is %d, and its tokens are %d", c.Index, c.Page, c.Tokens)
		}
		c.Text, c.Context = knowledgeText(c.Text), knowledgeText(c.Context)
		c.Overlap = min(c.Overlap, len(c.Text))
		c.Path = append([]string(nil), c.Path...)
		for j := range c.Path {
			c.Path[j] = knowledgeText(c.Path[j])
		}
	}
	return chunks, nil
}

// NormalizeContexts returns contexts in the form that every driver stores, or an [ErrInvalid] error.
func NormalizeContexts(contexts []KnowledgeContext) ([]KnowledgeContext, error) {
	if len(contexts) > MaxKnowledgeBatch {
		return nil, invalid("contexts: are %d, at most %d are added at once", len(contexts), MaxKnowledgeBatch)
	}
	contexts = slices.Clone(contexts)
	for i := range contexts {
		c := &contexts[i]
		if size := len(c.Context); size > MaxKnowledgeContext {
			return nil, invalid("context of chunk %d: is %d bytes, at most %d are kept", c.Index, size, MaxKnowledgeContext)
		}
		c.Context = knowledgeText(c.Context)
	}
	return contexts, nil
}

// NormalizeFinish returns how a revision ended in the form that every driver stores. What is too long is cut: what a
// document says about itself must not keep it from being finished.
func NormalizeFinish(f KnowledgeFinish) KnowledgeFinish {
	f.Error, f.Title = cutText(f.Error, maxKnowledgeError), cutText(f.Title, MaxKnowledgeTitle)
	f.Format, f.Bytes = cutText(f.Format, MaxKnowledgeCollection), min(max(f.Bytes, 0), maxVersion)
	return f
}

// cutText returns the beginning of a text, of at most limit bytes, as whole characters that every driver stores.
func cutText(s string, limit int) string {
	s = knowledgeText(s)
	if len(s) <= limit {
		return s
	}
	for !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// NormalizeVectors returns vectors of an embedder in the form that every driver stores, with the length 1, or an
// [ErrInvalid] error. Their cosines stay as they are, and no driver computes with numbers that are too large or too small.
func NormalizeVectors(embedder string, vectors []KnowledgeVector) ([]KnowledgeVector, error) {
	if err := checkVectors(embedder, vectors); err != nil {
		return nil, err
	}
	vectors = slices.Clone(vectors)
	for i := range vectors {
		v := &vectors[i]
		unit, ok := UnitVector(v.Vector)
		if !ok {
			return nil, invalid("vectors: that of chunk %d has no direction: its numbers are not finite, or all 0", v.Index)
		}
		v.Vector = unit
	}
	return vectors, nil
}

// UnitVector returns the vector of length 1 with the direction of v. It reports whether v has a direction.
func UnitVector(v []float32) ([]float32, bool) {
	square := 0.0
	for _, x := range v {
		square += float64(x) * float64(x)
	}
	length := math.Sqrt(square)
	if length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		return nil, false
	}
	unit := make([]float32, len(v))
	for i, x := range v {
		unit[i] = float32(float64(x) / length)
	}
	return unit, true
}

func checkVectors(embedder string, vectors []KnowledgeVector) error {
	if err := checkWord("embedder", embedder); err != nil {
		return err
	}
	if len(vectors) > MaxKnowledgeBatch {
		return invalid("vectors: are %d, at most %d are added at once", len(vectors), MaxKnowledgeBatch)
	}
	for _, v := range vectors {
		if len(v.Vector) != len(vectors[0].Vector) {
			return invalid("vectors: have different dimensions, %d and %d", len(vectors[0].Vector), len(v.Vector))
		}
		if len(v.Vector) == 0 || len(v.Vector) > MaxKnowledgeDimension {
			return invalid("vectors: have the dimension %d, must be 1 to %d", len(v.Vector), MaxKnowledgeDimension)
		}
	}
	return nil
}

// HitLimit applies the default and the maximum of a [KnowledgeScope].
func HitLimit(limit int) int {
	if limit <= 0 {
		return DefaultKnowledgeHits
	}
	return min(limit, MaxKnowledgeHits)
}

// ChunkLimit applies the default and the maximum of a number of chunks.
func ChunkLimit(limit int) int {
	if limit <= 0 {
		return MaxKnowledgeBatch
	}
	return min(limit, MaxKnowledgeBatch)
}

// KnowledgePageLimit applies the default and the maximum of a [KnowledgePage].
func KnowledgePageLimit(limit int) int {
	if limit <= 0 {
		return DefaultKnowledgePage
	}
	return min(limit, MaxKnowledgePage)
}

// knowledgeText returns text that every driver stores.
func knowledgeText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
