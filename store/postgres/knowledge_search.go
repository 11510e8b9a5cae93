package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

// The parameters of BM25, and the bounds of a search.
const (
	saturation = 1.2
	byLength   = 0.75

	// maxQuery is how many bytes of a query are searched, maxQueryWords how many of its words: the rarest ones.
	maxQuery      = 64 << 10
	maxQueryWords = 64

	// maxCandidates bounds the chunks whose scores are computed. Of 100,000 chunks, 10,000 had 599 of the 600 best hits of 60
	// queries, 3,000 had 571.
	maxCandidates = 10_000
)

const (
	// The rarest words of the query first.
	queryWords = `SELECT w.word, w.chunks, i.chunks, i.words
		FROM (SELECT ` + wordNumber + ` AS word FROM unnest(tsvector_to_array(to_tsvector('pg_catalog.english', $2))) AS lexeme) AS query
		JOIN knowledge_word_chunks w ON w.namespace = $1 AND w.word = query.word
		JOIN knowledge_indexes i ON i.namespace = $1
		ORDER BY w.chunks, w.word LIMIT $3`

	candidates    = `SELECT chunk, length, counts FROM knowledge_words WHERE words && $2::bigint[] AND namespace = $1`
	inCollections = ` AND words && ARRAY(` + collectionNumbers + `$4::text[]) AS collection) AND collection = ANY($4)`
	atMost        = ` LIMIT $3`

	collectionNumbers = `SELECT ` + collectionNumber + ` FROM unnest(`
	chunksOf          = `SELECT coalesce(sum(chunks), 0)::bigint FROM knowledge_word_chunks
		WHERE namespace = $1 AND word = ANY(ARRAY(` + collectionNumbers + `$2::text[]) AS collection))`
)

// searchText finds chunks that have the rarest words: they are candidates, and their scores are exact. Words that are too common to
// add candidates only count.
func searchText(ctx context.Context, q sqlstore.Querier, namespace, query string, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	if !store.Storable(namespace) {
		return nil, nil
	}
	tx := native(q)
	search, err := newTextSearch(ctx, tx, namespace, sqlstore.QueryWords(query[:min(len(query), maxQuery)]), collectionsOf(in))
	if err != nil {
		return nil, err
	}
	best, err := search.run(ctx, tx, sqlstore.HitLimit(in.Limit))
	if err != nil {
		return nil, err
	}
	return hits(ctx, tx, best)
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
	namespace   string
	collections []string // nil = all

	words      []queryWord
	meanLength float64

	// chunks is how many chunks the collections have. Whether words are rare depends on the namespace.
	chunks int

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

func newTextSearch(ctx context.Context, tx pgx.Tx, namespace, query string, collections []string) (*textSearch, error) {
	s := &textSearch{namespace: namespace, collections: collections, scored: map[int64]bool{}}
	rows, err := tx.Query(ctx, queryWords, namespace, query, maxQueryWords)
	if err != nil {
		return nil, err
	}
	var word queryWord
	var length int
	_, err = pgx.ForEachRow(rows, []any{&word.number, &word.chunks, &s.chunks, &length}, func() error {
		var number [8]byte
		binary.BigEndian.PutUint64(number[:], uint64(word.number))
		copy(word.prefix[:], number[:])
		n, of := float64(word.chunks), float64(s.chunks)
		word.weight = math.Log(1 + (of-n+0.5)/(n+0.5))
		s.words = append(s.words, word)
		s.meanLength = max(float64(length)/of, 1)
		return nil
	})
	if err == nil && collections != nil {
		err = tx.QueryRow(ctx, chunksOf, namespace, collections).Scan(&s.chunks)
	}
	return s, err
}

// run finds the best chunks. It adds words, the rarest first, until it has enough candidates, or no others can be better.
func (s *textSearch) run(ctx context.Context, tx pgx.Tx, limit int) ([]scored, error) {
	for words := s.words; len(words) > 0 && !s.enough(words, limit); {
		room := max(maxCandidates-len(s.found), limit)
		next := s.fitting(words, room)
		if err := s.add(ctx, tx, words[:next], room); err != nil {
			return nil, err
		}
		words = words[next:]
	}
	return best(s.found, limit), nil
}

// fitting returns how many of the words add no more chunks than there is room for, at least 1.
func (s *textSearch) fitting(words []queryWord, room int) int {
	if s.chunks <= room {
		return len(words)
	}
	n := 1
	for sum := words[0].chunks; n < len(words) && sum+words[n].chunks <= room; n++ {
		sum += words[n].chunks
	}
	return n
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

// add adds chunks that have one of the words.
func (s *textSearch) add(ctx context.Context, tx pgx.Tx, words []queryWord, limit int) error {
	numbers := make([]int64, len(words))
	for i, word := range words {
		numbers[i] = word.number
	}
	query, args := candidates, []any{s.namespace, numbers, limit}
	if s.collections != nil {
		query, args = query+inCollections, append(args, s.collections)
	}
	rows, err := tx.Query(ctx, query+atMost, args...)
	if err != nil {
		return err
	}
	var chunk int64
	var length int
	var counts pgtype.DriverBytes
	_, err = pgx.ForEachRow(rows, []any{&chunk, &length, &counts}, func() error {
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
