package config

import (
	"fmt"
	"slices"
	"strings"
)

// suggest returns what word was meant to be, as the end of a sentence: the nearest
// of known, if one is near, or else all of them.
func suggest(word string, known []string) string {
	if best := nearest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	sorted := slices.Clone(known)
	slices.Sort(sorted)
	return "known are " + strings.Join(slices.Compact(sorted), ", ")
}

// nearest is empty if none is near.
func nearest(word string, known []string) string {
	best, least := "", len([]rune(plain(word)))/3+2
	for _, k := range known {
		if n := distance(plain(word), plain(k)); n < least {
			best, least = k, n
		}
	}
	return best
}

// plain makes api_key, api-key and APIKey the same word.
func plain(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance counts the letters to insert, delete, replace or swap with their
// neighbour to make b of a.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	older, old, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(s); i++ {
		older, old, row = old, row, older
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(t)]
}
