package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/threadmill/threadmill/store"
)

// The parameters of BM25, and the bounds of a search.
const (
	saturation = 1.2
	byLength   = 0.75

	// maxQuery is how many bytes of a query are searched, maxQueryWords how many of its words: the rarest ones.
	maxQuery      = 64 << 10
	maxQueryWords = 64

	// maxCandidates bounds the chunks whose scores are computed.
	maxCandidates = 20_000
)

const (
	// The rarest words of the query first.
	queryWords = `SELECT w.word, w.chunks, i.chunks, i.words
		FROM (SELECT ` + wordNumber + ` AS word FROM unnest(tsvector_to_array(to_tsvector('pg_catalog.english', $2))) AS lexeme) AS query
		JOIN knowledge_word_chunks w ON w.namespace = $1 AND w.word = query.word
		JOIN knowledge_indexes i ON i.namespace = $1
		ORDER BY w.chunks, w.word LIMIT $3`

	candidates = `SELECT chunk, length, counts FROM knowledge_words
		WHERE words && $2::bigint[] AND namespace = $1 AND ($3::text[] IS NULL OR collection = ANY($3)) LIMIT $4`
)

// SearchText implements [store.Knowledge].
//
// Chunks that have the rarest words are candidates, and their scores are exact. Words that are too common to
// add candidates only count.
func (s *Store) SearchText(ctx context.Context, namespace, query string, in store.KnowledgeScope) (found []store.KnowledgeHit, err error) {
	words := plainWords(strings.ToValidUTF8(cut(query, maxQuery), " "))
	if !store.Storable(namespace) {
		return nil, nil
	}
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		search, err := newTextSearch(ctx, tx, namespace, words)
		if err != nil {
			return err
		}
		best, err := search.run(ctx, tx, namespace, collectionsOf(in), store.HitLimit(in.Limit))
		if err != nil {
			return err
		}
		found, err = hits(ctx, tx, best)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: searching %q: %w", namespace, classify(err))
	}
	return found, nil
}

// collectionsOf returns the collections to search, nil for all.
func collectionsOf(in store.KnowledgeScope) []string {
	if len(in.Collections) == 0 {
		return nil
	}
	return storable(in.Collections)
}

// textSearch computes the scores of BM25.
type textSearch struct {
	words      []queryWord
	meanLength float64

	scored map[int64]bool
	found  []scored
}

// queryWord is a word of a query that the namespace has.
type queryWord struct {
	number int64
	prefix [prefixBytes]byte
	chunks int
	weight float64
}

// prefixBytes is how much of a word's number knowledge_words.counts has.
const prefixBytes = 5

func newTextSearch(ctx context.Context, tx pgx.Tx, namespace, query string) (*textSearch, error) {
	s := &textSearch{scored: map[int64]bool{}}
	rows, err := tx.Query(ctx, queryWords, namespace, query, maxQueryWords)
	if err != nil {
		return nil, err
	}
	var word queryWord
	var chunks, length int
	_, err = pgx.ForEachRow(rows, []any{&word.number, &word.chunks, &chunks, &length}, func() error {
		var number [8]byte
		binary.BigEndian.PutUint64(number[:], uint64(word.number))
		copy(word.prefix[:], number[:])
		n, of := float64(word.chunks), float64(chunks)
		word.weight = math.Log(1 + (of-n+0.5)/(n+0.5))
		s.words = append(s.words, word)
		s.meanLength = max(float64(length)/of, 1)
		return nil
	})
	return s, err
}

// run finds the best chunks. It adds words, the rarest first, until it has enough candidates, or no others can be better.
func (s *textSearch) run(ctx context.Context, tx pgx.Tx, namespace string, collections []string, limit int) ([]scored, error) {
	for next := 0; next < len(s.words) && !s.enough(s.words[next:], limit); {
		numbers, sum := []int64{s.words[next].number}, s.words[next].chunks
		for next++; next < len(s.words) && len(s.found)+sum+s.words[next].chunks <= maxCandidates; next++ {
			numbers, sum = append(numbers, s.words[next].number), sum+s.words[next].chunks
		}
		rows, err := tx.Query(ctx, candidates, namespace, numbers, collections, maxCandidates)
		if err != nil {
			return nil, err
		}
		if err := s.score(rows); err != nil {
			return nil, err
		}
	}
	return best(s.found, limit), nil
}

// enough reports whether chunks that have only the other words need not be found.
func (s *textSearch) enough(others []queryWord, limit int) bool {
	if len(s.found) < limit {
		return false
	}
	if len(s.found) >= maxCandidates/2 {
		return true
	}
	most := 0.0
	for _, word := range others {
		most += word.weight * (saturation + 1)
	}
	return best(s.found, len(s.found))[limit-1].score >= most
}

// score adds candidates to what is found.
func (s *textSearch) score(rows pgx.Rows) error {
	var chunk int64
	var length int
	var counts pgtype.DriverBytes
	_, err := pgx.ForEachRow(rows, []any{&chunk, &length, &counts}, func() error {
		if !s.scored[chunk] {
			s.scored[chunk] = true
			s.found = append(s.found, scored{chunk, s.scoreOf(length, counts)})
		}
		return nil
	})
	return err
}

func (s *textSearch) scoreOf(length int, counts []byte) (score float64) {
	normal := saturation * (1 - byLength + byLength*float64(length)/s.meanLength)
	for i := range s.words {
		if n := float64(countOf(counts, s.words[i].prefix[:])); n > 0 {
			score += s.words[i].weight * n * (saturation + 1) / (n + normal)
		}
	}
	return score
}

// countOf looks a word up in knowledge_words.counts.
func countOf(counts, prefix []byte) byte {
	const size = prefixBytes + 1
	low, high := 0, len(counts)/size
	for low < high {
		middle := (low + high) / 2
		switch bytes.Compare(counts[middle*size:middle*size+prefixBytes], prefix) {
		case 0:
			return counts[middle*size+prefixBytes]
		case -1:
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0
}

// cut returns the beginning of a text without a part of a character at its end.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
