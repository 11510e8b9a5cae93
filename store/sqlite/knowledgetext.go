package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode"

	"github.com/threadmill/threadmill/store"
)

const (
	// maxQuery is how many bytes of a query are read, maxQueryWords how many of its words are searched.
	maxQuery      = 16 << 10
	maxQueryWords = 64

	// maxTokens is how many collections the full-text index selects by itself.
	maxTokens = 64
)

// textTable is the id of a full-text index. It has no content but the ids of chunks: their text is in knowledge_chunks.
// The column of the collection has one token and no weight: it keeps other collections out of the work.
type textTable int64

func (t textTable) name() string { return "knowledge_text_" + strconv.FormatInt(int64(t), 10) }

func (t textTable) create() string {
	return `CREATE VIRTUAL TABLE ` + t.name() + ` USING fts5(collection, text, path, context, content = '', contentless_delete = 1,
		tokenize = 'porter unicode61 remove_diacritics 2')`
}

// optimize merges the parts of the index, and leaves out what was removed.
func (t textTable) optimize() string {
	return `INSERT INTO ` + t.name() + ` (` + t.name() + `) VALUES ('optimize')`
}

func (t textTable) drop() string { return `DROP TABLE ` + t.name() }

func (t textTable) insert() string { return `INSERT ` + t.values() }

// replace replaces a row, which FTS5 goes on counting, as it does rows that are removed: words seem a little rarer than they are.
func (t textTable) replace() string { return `REPLACE ` + t.values() }

func (t textTable) values() string {
	return `INTO ` + t.name() + ` (rowid, collection, text, path, context) VALUES (?, ?, ?, ?, ?)`
}

func (t textTable) remove() string {
	return `DELETE FROM ` + t.name() + ` WHERE rowid IN (SELECT id FROM knowledge_chunks WHERE document = ? AND revision <> ?)`
}

// search returns the query for what matches ?1, in the collections ?2, unless it is NULL. FTS5 sorts by rank itself, so
// what is not visible is left out before hits are counted.
func (t textTable) search() string {
	return `SELECT ` + chunkColumns + `, d.collection, d.source, d.title, -f.rank FROM ` + t.name() + ` f
		CROSS JOIN knowledge_chunks c ON c.id = f.rowid
		CROSS JOIN knowledge_documents d ON d.key = c.document AND d.indexed = c.revision
		WHERE f.` + t.name() + ` MATCH ?1 AND f.rank MATCH 'bm25(0.0, 1.0, 1.0, 1.0)'
		AND (?2 IS NULL OR d.collection IN (SELECT value FROM json_each(?2)))
		ORDER BY f.rank LIMIT ?3 + 0`
}

// SearchText implements [store.Knowledge]. A namespace has an index of its own, so nothing of another one has an influence
// on its scores. Within a namespace, words count as rare or frequent in all of its collections, and in revisions that are
// not finished yet.
func (s *Store) SearchText(ctx context.Context, namespace, query string, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	match := matchQuery(query, in.Collections)
	if match == "" {
		return nil, ctx.Err()
	}
	var hits []store.KnowledgeHit
	err := s.reading(ctx, func(tx *sql.Tx) error {
		var text textTable
		if err := tx.StmtContext(ctx, s.readKnowledge.text).QueryRowContext(ctx, namespace).Scan(&text); err != nil {
			return err
		}
		search, err := tx.PrepareContext(ctx, text.search())
		if err != nil {
			return err
		}
		defer search.Close()
		hits, err = collect(ctx, search, scanHit, match, listOrNull(in.Collections), store.HitLimit(in.Limit))
		return err
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, knowledgeError("searching", namespace, "*", err)
	}
	return hits, nil
}

// reading runs several queries that see the same state.
func (s *Store) reading(ctx context.Context, run func(*sql.Tx) error) error {
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return errors.Join(run(tx), rollback(tx))
}

// text returns the full-text index of the namespace, or [sql.ErrNoRows].
func (l *learning) text(ctx context.Context) (text textTable, err error) {
	err = l.row(ctx, l.knowledgeWrites.text, l.namespace).Scan(&text)
	return text, err
}

// openText returns the full-text index of the namespace, and creates it if necessary.
func (l *learning) openText(ctx context.Context) (textTable, error) {
	text, err := l.text(ctx)
	if !errors.Is(err, sql.ErrNoRows) {
		return text, err
	}
	if err := l.row(ctx, l.addText, l.namespace).Scan(&text); err != nil {
		return text, err
	}
	_, err = l.ExecContext(ctx, text.create())
	return text, err
}

// closeText deletes the full-text index if the namespace has no chunks.
func (l *learning) closeText(ctx context.Context, text textTable) error {
	var needed bool
	if err := l.row(ctx, l.anyChunk, l.namespace).Scan(&needed); err != nil || needed {
		return err
	}
	if _, err := l.exec(ctx, l.removeText, int64(text)); err != nil {
		return err
	}
	_, err := l.ExecContext(ctx, text.drop())
	return err
}

// matchQuery returns the expression of FTS5 that finds any word of a query, or "" if it has none. Each word is a string
// in quotes, and has nothing but letters, digits and marks: FTS5 sees no operator.
func matchQuery(query string, collections []string) string {
	words := queryWords(query)
	if len(words) == 0 {
		return ""
	}
	match := `{text path context} : (` + anyOf(words) + `)`
	if len(collections) == 0 || len(collections) > maxTokens {
		return match
	}
	tokens := make([]string, len(collections))
	for i, collection := range collections {
		tokens[i] = collectionToken(collection)
	}
	return `collection : (` + anyOf(tokens) + `) AND ` + match
}

func anyOf(words []string) string { return `"` + strings.Join(words, `" OR "`) + `"` }

// functionWords are English words that are in nearly every text. To score all of these texts takes long, and hardly changes
// which ones are the best.
var functionWords = func() map[string]bool {
	known := map[string]bool{}
	for word := range strings.FieldsSeq(`a about an and any are as at be been but by can could did do does for from had has have how i if
		in into is it its me my no not of on or our should so some such than that the their them then there these they this to
		was we were what when where which who why will with would you your`) {
		known[word] = true
	}
	return known
}()

// queryWords returns the first different words of a query, without the [functionWords] unless it has no other.
func queryWords(query string) []string {
	if len(query) > maxQuery {
		query = query[:maxQuery]
	}
	var words, function []string
	known := map[string]bool{}
	for word := range strings.FieldsSeq(store.QueryWords(strings.ToValidUTF8(query, " "))) {
		if known[word] || !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsMark(r) }) {
			continue
		}
		known[word] = true
		if functionWords[word] {
			function = append(function, word)
		} else if words = append(words, word); len(words) == maxQueryWords {
			break
		}
	}
	if len(words) == 0 {
		return function
	}
	return words
}

// collectionToken is one word of digits, which neither case nor stemming changes.
func collectionToken(collection string) string {
	sum := sha256.Sum256([]byte(collection))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:]), 10)
}

func scanHit(row scanner) (store.KnowledgeHit, error) {
	var (
		h    store.KnowledgeHit
		path []byte
	)
	err := row.Scan(append(chunkFields(&h.KnowledgeChunk, &path), &h.Collection, &h.Source, &h.Title, &h.Score)...)
	if err == nil {
		err = json.Unmarshal(path, &h.Path)
	}
	return h, err
}

func scanChunk(row scanner) (store.KnowledgeChunk, error) {
	var (
		c    store.KnowledgeChunk
		path []byte
	)
	err := row.Scan(chunkFields(&c, &path)...)
	if err == nil {
		err = json.Unmarshal(path, &c.Path)
	}
	return c, err
}

// chunkFields are the destinations of chunkColumns.
func chunkFields(c *store.KnowledgeChunk, path *[]byte) []any {
	return []any{&c.Document, &c.Revision, &c.Index, &c.Text, &c.Overlap, path, &c.Page, &c.Tokens, &c.Context}
}
