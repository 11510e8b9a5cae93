package sqlstore

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/threadmill/threadmill/store"
)

// entityRow is an entity as drivers store it: what is its own, and its root.
type entityRow struct {
	ID, Root, Name, Type string
	Descriptions         []entityDescription
	Mentions             int

	// MentionedAt is zero if it was never mentioned.
	CreatedAt, MentionedAt time.Time
}

// entityDescription is what a text says about an entity, and since when it is known.
type entityDescription struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// describe returns descriptions of an entity with another one, and whether that one is new. The oldest give way to it.
func describe(known []entityDescription, text string, now time.Time) ([]entityDescription, bool) {
	if text == "" || slices.ContainsFunc(known, func(d entityDescription) bool { return d.Text == text }) {
		return known, false
	}
	return newestDescriptions(append(slices.Clone(known), entityDescription{Text: text, At: stamp(now)})), true
}

func newestDescriptions(all []entityDescription) []entityDescription {
	return all[max(0, len(all)-store.MaxDescriptions):]
}

// gatherEntities returns the roots of rows by their ids. The rows of a root are all that were merged into it, in the order in
// which they were created.
func gatherEntities(rows []entityRow) map[string]store.Entity {
	groups := map[string][]entityRow{}
	for _, row := range rows {
		groups[row.Root] = append(groups[row.Root], row)
	}
	roots := make(map[string]store.Entity, len(groups))
	for id, group := range groups {
		roots[id] = gathered(id, group)
	}
	return roots
}

func gathered(id string, group []entityRow) store.Entity {
	e := store.Entity{ID: id, Descriptions: []string{}, Aliases: []string{}}
	var descriptions []entityDescription
	for _, row := range group {
		if row.ID == id {
			e.Name, e.Type, e.CreatedAt = row.Name, row.Type, row.CreatedAt
		}
		if e.Mentions += row.Mentions; row.MentionedAt.After(e.MentionedAt) {
			e.MentionedAt = row.MentionedAt
		}
		descriptions = append(descriptions, row.Descriptions...)
	}
	for _, row := range group {
		if row.Name != e.Name && !slices.Contains(e.Aliases, row.Name) {
			e.Aliases = append(e.Aliases, row.Name)
		}
	}
	for _, d := range newestDescriptions(distinct(descriptions)) {
		e.Descriptions = append(e.Descriptions, d.Text)
	}
	return e
}

// distinct returns each description once, the oldest first.
func distinct(all []entityDescription) []entityDescription {
	slices.SortStableFunc(all, func(a, b entityDescription) int { return a.At.Compare(b.At) })
	known := map[string]bool{}
	return slices.DeleteFunc(all, func(d entityDescription) bool {
		twice := known[d.Text]
		known[d.Text] = true
		return twice
	})
}

// nearest keeps the entities whose vectors are the most similar to one.
type nearest struct {
	unit  []float32
	limit int
	best  []store.SimilarEntity
}

// newNearest returns a nearest that keeps at most limit entities. It reports whether the vector has a direction.
func newNearest(vector []float32, limit int) (*nearest, bool) {
	unit, ok := unitVector(vector)
	return &nearest{unit: unit, limit: entityLimit(limit)}, ok
}

// Bytes is the size of the vectors that can be compared.
func (n *nearest) Bytes() int { return 4 * len(n.unit) }

// Add compares the vector of an entity, which [VectorBytes] has written.
func (n *nearest) Add(id string, vector []byte) {
	if len(vector) != n.Bytes() {
		return
	}
	one := store.SimilarEntity{ID: id, Similarity: n.cosine(vector)}
	i, _ := slices.BinarySearchFunc(n.best, one, func(a, b store.SimilarEntity) int {
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(a.ID, b.ID))
	})
	if i == n.limit {
		return
	}
	n.best = slices.Insert(n.best, i, one)
	n.best = n.best[:min(len(n.best), n.limit)]
}

// cosine is the product of two vectors of the length 1.
func (n *nearest) cosine(vector []byte) float64 {
	sum := 0.0
	for i, x := range n.unit {
		sum += float64(x) * float64(math.Float32frombits(binary.LittleEndian.Uint32(vector[4*i:])))
	}
	return max(-1, min(sum, 1))
}

// IDs returns the ids of the most similar entities.
func (n *nearest) IDs() []string {
	ids := make([]string, len(n.best))
	for i, e := range n.best {
		ids[i] = e.ID
	}
	return ids
}

// Entities returns the most similar entities, the best first. The rows are those of their roots, and of all that was merged
// into these.
func (n *nearest) Entities(rows []entityRow) []store.SimilarEntity {
	roots, byID := gatherEntities(rows), make(map[string]entityRow, len(rows))
	for _, row := range rows {
		byID[row.ID] = row
	}
	var all []store.SimilarEntity
	for _, e := range n.best {
		root := roots[byID[e.ID].Root]
		e.Name, e.Root, e.RootName, e.Descriptions = byID[e.ID].Name, root.ID, root.Name, root.Descriptions
		all = append(all, e)
	}
	return all
}

// VectorBytes returns a vector as little-endian float32, as it is stored: nil if it is nil.
func VectorBytes(vector []float32) []byte {
	if vector == nil {
		return nil
	}
	raw := make([]byte, 0, 4*len(vector))
	for _, x := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return raw
}
