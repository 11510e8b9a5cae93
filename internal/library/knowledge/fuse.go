package knowledge

import (
	"cmp"
	"slices"
)

// FusionConstant is the k of reciprocal rank fusion: the larger it is, the less the first places of a list count. 60 is
// the value of the paper that introduced it (Cormack, Clarke and Büttcher, SIGIR 2009).
const FusionConstant = 60

// Hit is a chunk that was found.
type Hit struct {
	ID    string
	Score float64

	// Ranks are the ranks in the fused lists, in their order: 1 = the best, 0 = not in the list.
	Ranks []int
}

// Fuse returns the ids of ranked lists, which have the best id first, by reciprocal rank fusion: those of equal score in
// the order in which the lists have them.
func Fuse(lists ...[]string) []Hit {
	var hits []Hit
	at := map[string]int{}
	for n, list := range lists {
		for i, id := range list {
			k, known := at[id]
			if !known {
				k = len(hits)
				at[id] = k
				hits = append(hits, Hit{ID: id, Ranks: make([]int, len(lists))})
			}
			if hits[k].Ranks[n] > 0 {
				continue // twice in one list
			}
			hits[k].Ranks[n] = i + 1
			hits[k].Score += 1 / float64(FusionConstant+i+1)
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits
}
