package sqlstore

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/threadmill/threadmill/store"
)

const (
	maxKnowledgeError    = 4 << 10
	maxKnowledgeMetadata = 16 << 10
	maxKnowledgeChunk    = 64 << 10
)

// normalizeKnowledge returns a document and what it begins with in the form that every driver stores, or a [store.ErrInvalid] error.
func normalizeKnowledge(namespace string, d store.KnowledgeDocument, begin store.KnowledgeBegin) (store.KnowledgeDocument, error) {
	if d.Collection == "" {
		d.Collection = store.DefaultCollection
	}
	for _, word := range []struct{ field, text string }{{"namespace", namespace}, {"collection", d.Collection}, {"source", d.Source}} {
		if err := checkWord(word.field, word.text); err != nil {
			return d, err
		}
	}
	switch {
	case len(d.Source) > store.MaxKnowledgeSource:
		return d, invalid("source: is %d bytes, at most %d are kept", len(d.Source), store.MaxKnowledgeSource)
	case len(d.Collection) > store.MaxKnowledgeCollection:
		return d, invalid("collection: is %d bytes, at most %d are kept", len(d.Collection), store.MaxKnowledgeCollection)
	case len(d.Title) > store.MaxKnowledgeTitle:
		return d, invalid("title: is %d bytes, at most %d are kept", len(d.Title), store.MaxKnowledgeTitle)
	case !store.Storable(d.By) || !store.Storable(d.ThreadID) || !store.Storable(begin.Digest):
		return d, invalid("by, thread and digest must be UTF-8 without NUL characters")
	case len(d.Metadata) > maxKnowledgeMetadata:
		return d, invalid("metadata: is %d bytes, at most %d are kept", len(d.Metadata), maxKnowledgeMetadata)
	case len(d.Metadata) > 0 && !json.Valid(d.Metadata):
		return d, invalid("metadata: is not JSON")
	case begin.Content != nil && begin.Digest == "":
		return d, invalid("digest: is required with a content")
	}
	if err := checkKnowledgeContent(begin.Content); err != nil {
		return d, err
	}
	d.ID, d.Title, d.Metadata = store.KnowledgeID(d.Collection, d.Source), knowledgeText(d.Title), validUTF8(d.Metadata)
	return d, nil
}

// nextKnowledge returns the document as BeginKnowledge returns it, and whether it begins a revision. Before is the document
// that exists; of one that was deleted, it has but the number of the revision, and of none, it is the zero value.
func nextKnowledge(d store.KnowledgeDocument, begin store.KnowledgeBegin, before store.KnowledgeDocument, now time.Time) (store.KnowledgeDocument, bool) {
	unchanged := before.Status == store.KnowledgeIndexed && before.Digest != "" && !begin.Force
	if before.Digest == begin.Digest && (unchanged || before.Status == store.KnowledgeProcessing) {
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
	next.Status, next.Error, next.Digest, next.Revision = store.KnowledgeProcessing, "", begin.Digest, before.Revision+1
	knowledgeChanged(&next, now)
	return next, true
}

// knowledgeFinished returns the document after its newest revision, which has a number of chunks, was processed.
func knowledgeFinished(d store.KnowledgeDocument, f store.KnowledgeFinish, chunks int, now time.Time) store.KnowledgeDocument {
	knowledgeChanged(&d, now)
	if f.Unchanged && d.Indexed == 0 {
		f.Error = "the revision with the same content was deleted meanwhile; add the document again"
	}
	if f.Error != "" {
		d.Status, d.Error = store.KnowledgeFailed, f.Error
		return d
	}
	d.Status = store.KnowledgeIndexed
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

// knowledgeWithout returns the document without what a thread gave it, and the revision to keep, 0 if all stay. ok is false if
// nothing is left, so that the document must be deleted.
func knowledgeWithout(d store.KnowledgeDocument, threadID string, now time.Time) (left store.KnowledgeDocument, keep int, ok bool) {
	newest, indexed := d.ThreadID == threadID, d.Indexed > 0 && d.IndexedThreadID == threadID
	switch {
	case newest && (indexed || d.Indexed == 0):
		return d, 0, false
	case newest:
		// The revision before becomes the newest one again. The number goes on, so that steps of this one are superseded.
		d.ThreadID, d.By, d.Digest, d.Revision = d.IndexedThreadID, "", d.IndexedDigest, d.Revision+1
		d.Status, d.Error, keep = store.KnowledgeIndexed, "", d.Indexed
	case indexed && d.Status == store.KnowledgeIndexed:
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
	knowledgeChanged(&d, now)
	return d, keep, true
}

// knowledgeChanged sets the times of a document that changes now. Times do not go back when clocks do.
func knowledgeChanged(d *store.KnowledgeDocument, now time.Time) {
	if now = stamp(now); now.After(d.UpdatedAt) {
		d.UpdatedAt = now
	}
	if d.CreatedAt.IsZero() {
		d.CreatedAt = d.UpdatedAt
	}
}

// checkPut returns a [store.ErrInvalid] error for a content that comes later, if no driver can store it.
func checkPut(digest string, c store.KnowledgeContent) error {
	if err := checkWord("digest", digest); err != nil {
		return err
	}
	return checkKnowledgeContent(&c)
}

// checkKnowledgeContent returns a [store.ErrInvalid] error for a content that no driver can store.
func checkKnowledgeContent(c *store.KnowledgeContent) error {
	switch {
	case c == nil:
		return nil
	case len(c.Bytes) > store.MaxKnowledgeContent:
		return invalid("content: is %d bytes, at most %d are kept", len(c.Bytes), store.MaxKnowledgeContent)
	case !store.Storable(c.Name) || !store.Storable(c.MediaType):
		return invalid("name and mediaType must be UTF-8 without NUL characters")
	}
	return nil
}

// normalizeChunks returns chunks of a revision in the form that every driver stores, or a [store.ErrInvalid] error.
func normalizeChunks(r store.KnowledgeRevision, chunks []store.KnowledgeChunk) ([]store.KnowledgeChunk, error) {
	if len(chunks) > store.MaxKnowledgeBatch {
		return nil, invalid("chunks: are %d, at most %d are added at once", len(chunks), store.MaxKnowledgeBatch)
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

// normalizeContexts returns contexts in the form that every driver stores, or a [store.ErrInvalid] error.
func normalizeContexts(contexts []store.KnowledgeContext) ([]store.KnowledgeContext, error) {
	if len(contexts) > store.MaxKnowledgeBatch {
		return nil, invalid("contexts: are %d, at most %d are added at once", len(contexts), store.MaxKnowledgeBatch)
	}
	contexts = slices.Clone(contexts)
	for i := range contexts {
		c := &contexts[i]
		if size := len(c.Context); size > store.MaxKnowledgeContext {
			return nil, invalid("context of chunk %d: is %d bytes, at most %d are kept", c.Index, size, store.MaxKnowledgeContext)
		}
		c.Context = knowledgeText(c.Context)
	}
	return contexts, nil
}

// normalizeFinish returns how a revision ended in the form that every driver stores. What is too long is cut: what a
// document says about itself must not keep it from being finished.
func normalizeFinish(f store.KnowledgeFinish) store.KnowledgeFinish {
	f.Error, f.Title = cutText(f.Error, maxKnowledgeError), cutText(f.Title, store.MaxKnowledgeTitle)
	f.Format, f.Bytes = cutText(f.Format, store.MaxKnowledgeCollection), min(max(f.Bytes, 0), maxVersion)
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

// normalizeVectors returns vectors of an embedder in the form that every driver stores, with the length 1, or an
// [store.ErrInvalid] error. Their cosines stay as they are, and no driver computes with numbers that are too large or too small.
func normalizeVectors(embedder string, vectors []store.KnowledgeVector) ([]store.KnowledgeVector, error) {
	if err := checkVectors(embedder, vectors); err != nil {
		return nil, err
	}
	vectors = slices.Clone(vectors)
	for i := range vectors {
		v := &vectors[i]
		unit, ok := unitVector(v.Vector)
		if !ok {
			return nil, invalid("vectors: that of chunk %d has no direction: its numbers are not finite, or all 0", v.Index)
		}
		v.Vector = unit
	}
	return vectors, nil
}

// unitVector returns the vector of length 1 with the direction of v. It reports whether v has a direction.
func unitVector(v []float32) ([]float32, bool) {
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

func checkVectors(embedder string, vectors []store.KnowledgeVector) error {
	if err := checkWord("embedder", embedder); err != nil {
		return err
	}
	if len(vectors) > store.MaxKnowledgeBatch {
		return invalid("vectors: are %d, at most %d are added at once", len(vectors), store.MaxKnowledgeBatch)
	}
	for _, v := range vectors {
		if len(v.Vector) != len(vectors[0].Vector) {
			return invalid("vectors: have different dimensions, %d and %d", len(vectors[0].Vector), len(v.Vector))
		}
		if len(v.Vector) == 0 || len(v.Vector) > store.MaxKnowledgeDimension {
			return invalid("vectors: have the dimension %d, must be 1 to %d", len(v.Vector), store.MaxKnowledgeDimension)
		}
	}
	return nil
}

// HitLimit applies the default and the maximum of a [store.KnowledgeScope].
func HitLimit(limit int) int {
	if limit <= 0 {
		return store.DefaultKnowledgeHits
	}
	return min(limit, store.MaxKnowledgeHits)
}

// chunkLimit applies the default and the maximum of a number of chunks.
func chunkLimit(limit int) int {
	if limit <= 0 {
		return store.MaxKnowledgeBatch
	}
	return min(limit, store.MaxKnowledgeBatch)
}

// knowledgePageLimit applies the default and the maximum of a [store.KnowledgePage].
func knowledgePageLimit(limit int) int {
	if limit <= 0 {
		return store.DefaultKnowledgePage
	}
	return min(limit, store.MaxKnowledgePage)
}

// knowledgeText returns text that every driver stores.
func knowledgeText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
