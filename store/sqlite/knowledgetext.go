package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
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

// once returns a statement on the index, which is made for one call.
func (t textTable) once(format string) *sqlstore.Query {
	return &sqlstore.Query{SQLite: fmt.Sprintf(format, t.name()), Unprepared: true}
}

func (t textTable) create() *sqlstore.Query {
	return t.once(`CREATE VIRTUAL TABLE %s USING fts5(collection, text, path, context, content = '', contentless_delete = 1,
		tokenize = 'porter unicode61 remove_diacritics 2')`)
}

// optimize merges the parts of the index, and leaves out what was removed.
func (t textTable) optimize() *sqlstore.Query {
	return t.once(`INSERT INTO %[1]s (%[1]s) VALUES ('optimize')`)
}

func (t textTable) drop() *sqlstore.Query { return t.once(`DROP TABLE %s`) }

func (t textTable) insert() *sqlstore.Query {
	return t.once(`INSERT INTO %s (rowid, collection, text, path, context) VALUES ($1, $2, $3, $4, $5)`)
}

// replace replaces a row, which FTS5 goes on counting, as it does rows that are removed: words seem a little rarer than they are.
func (t textTable) replace() *sqlstore.Query {
	return t.once(`REPLACE INTO %s (rowid, collection, text, path, context) VALUES ($1, $2, $3, $4, $5)`)
}

func (t textTable) remove() *sqlstore.Query {
	return t.once(`DELETE FROM %s WHERE rowid IN (SELECT id FROM knowledge_chunks WHERE ` + ofDocument + ` AND revision <> $3)`)
}

// search returns the query for what matches $1, in the collections $2, unless it is NULL. FTS5 sorts by rank itself, so
// what is not visible is left out before hits are counted.
func (t textTable) search() *sqlstore.Query {
	return t.once(`SELECT ` + sqlstore.ChunkColumnsOfSQLite + `, d.collection, d.source, d.title, -f.rank FROM %[1]s f
		CROSS JOIN knowledge_chunks c ON c.id = f.rowid
		CROSS JOIN knowledge_documents d ON d.key = c.document AND d.indexed = c.revision
		WHERE f.%[1]s MATCH $1 AND f.rank MATCH 'bm25(0.0, 1.0, 1.0, 1.0)'
		AND ($2 IS NULL OR d.collection IN (SELECT value FROM json_each($2)))
		ORDER BY f.rank LIMIT $3 + 0`)
}

// searchText searches the index of a namespace, so that nothing of another one has an influence on its scores. Within a namespace, words
// count as rare or frequent in all of its collections, and in revisions that are not finished yet.
func searchText(ctx context.Context, tx sqlstore.Querier, namespace, query string, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	match := matchQuery(query, in.Collections)
	if match == "" {
		return nil, ctx.Err()
	}
	text, found, err := first[textTable](ctx, tx, textOf, namespace)
	if err != nil || !found {
		return nil, err
	}
	return hits(ctx, tx, text.search(), match, someOf(in.Collections), sqlstore.HitLimit(in.Limit))
}

// someOf returns the collections to search, nil for all.
func someOf(collections []string) []string {
	if len(collections) == 0 {
		return nil
	}
	return collections
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
	for word := range strings.FieldsSeq(sqlstore.QueryWords(strings.ToValidUTF8(query, " "))) {
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

func hits(ctx context.Context, tx sqlstore.Querier, q *sqlstore.Query, args ...any) (found []store.KnowledgeHit, err error) {
	err = sqlstore.Each(ctx, tx, q, func(row sqlstore.Row) error {
		var (
			h    store.KnowledgeHit
			path []byte
		)
		err := row.Scan(append(sqlstore.ChunkFields(&h.KnowledgeChunk, &path), &h.Collection, &h.Source, &h.Title, &h.Score)...)
		if err == nil {
			err = json.Unmarshal(path, &h.Path)
		}
		found = append(found, h)
		return err
	}, args...)
	return found, err
}
