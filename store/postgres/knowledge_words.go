package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

const (
	// The number of a lexeme in the namespace $1.
	wordNumber = `hashtextextended(lexeme COLLATE "C", hashtextextended($1::text COLLATE "C", 0))`

	// The number of a collection in the namespace $1.
	collectionNumber = `hashtextextended(collection COLLATE "C", hashtextextended($1::text COLLATE "C", 1))`

	addWords = `INSERT INTO knowledge_words (chunk, namespace, collection, length, counts, words)
		SELECT c.id, $1, $4, coalesce(sum(w.count), 0), coalesce(string_agg(w.prefix || set_byte('\x00', 0, w.count), '' ORDER BY w.prefix), ''),
			array_append(array_agg(w.word) FILTER (WHERE w.word IS NOT NULL), (SELECT ` + collectionNumber + ` FROM (SELECT $4::text AS collection) AS own))
		FROM knowledge_chunks c LEFT JOIN LATERAL (
			SELECT word, substr(int8send(word), 1, 5) AS prefix, count
			FROM (SELECT ` + wordNumber + ` AS word, least(cardinality(positions), 255) AS count FROM unnest(c.lexemes)) AS numbered
		) AS w ON true
		WHERE c.namespace = $1 AND c.document = $2 AND c.revision = $3 GROUP BY c.id`

	// What changes when the revision $3 becomes the only visible one.
	changedWords = `WITH changed AS (
			SELECT CASE WHEN c.revision = $3 THEN 1 ELSE -1 END AS sign, w.length, w.words
			FROM knowledge_chunks c JOIN knowledge_words w ON w.chunk = c.id WHERE c.namespace = $1 AND c.document = $2
		), counted AS (
			SELECT word, sum(sign)::bigint AS chunks FROM changed, unnest(words) AS word GROUP BY word HAVING sum(sign) <> 0
		)
		SELECT (SELECT coalesce(sum(sign), 0)::bigint FROM changed), (SELECT coalesce(sum(sign * length), 0)::bigint FROM changed),
			(SELECT array_agg(word ORDER BY word) FROM counted), (SELECT array_agg(chunks ORDER BY word) FROM counted)`

	countChunks = `INSERT INTO knowledge_indexes AS i (namespace, chunks, words) VALUES ($1, $2, $3)
		ON CONFLICT (namespace) DO UPDATE SET chunks = i.chunks + excluded.chunks, words = i.words + excluded.words`
	countWords = `INSERT INTO knowledge_word_chunks AS w (namespace, word, chunks)
		SELECT $1, word, chunks FROM unnest($2::bigint[], $3::bigint[]) AS changed(word, chunks)
		ON CONFLICT (namespace, word) DO UPDATE SET chunks = w.chunks + excluded.chunks`
	forgetWords = `DELETE FROM knowledge_word_chunks WHERE namespace = $1 AND word = ANY($2::bigint[]) AND chunks <= 0`
)

// wordsChange is what changes in the counts of a namespace.
type wordsChange struct {
	chunks, length int64

	// words are numbers of words and collections, byWord is the change in how many chunks have them.
	words, byWord []int64
}

// wordsChanged returns what changes in the counts of a namespace when a revision becomes the only visible one of its document.
func wordsChanged(ctx context.Context, tx pgx.Tx, namespace, document string, revision int) (c wordsChange, err error) {
	err = tx.QueryRow(ctx, changedWords, namespace, document, revision).Scan(&c.chunks, &c.length, &c.words, &c.byWord)
	return c, err
}

// apply changes the counts. It locks those of the namespace first, so that two documents never wait for each other, and
// until the transaction ends.
func (c wordsChange) apply(ctx context.Context, tx pgx.Tx, namespace string) error {
	if c.chunks == 0 && c.length == 0 && len(c.words) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, countChunks, namespace, c.chunks, c.length); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, countWords, namespace, c.words, c.byWord); err != nil {
		return err
	}
	if len(c.byWord) == 0 || slices.Min(c.byWord) > 0 {
		return nil
	}
	_, err := tx.Exec(ctx, forgetWords, namespace, c.words)
	return err
}
