// Package near finds the names that a wrong name was meant to be.
package near

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"
)

// maxKnown is the number of names that an error lists.
const maxKnown = 20

// To returns at most three names that differ from a name in a few letters, or that only begin with
// it, the nearest first. Case, _ and - do not count.
func To(name string, known []string) []string {
	const most = 3
	word := Plain(name)
	size := len([]rune(word))
	limit := min(size/3+1, most)
	apart := func(other string) int {
		return levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(other))
	}
	out := slices.DeleteFunc(slices.Clone(known), func(other string) bool {
		begins := size > 2 && strings.HasPrefix(Plain(other), word)
		return word == "" || !begins && Distance(name, other) > limit
	})
	slices.SortStableFunc(out, func(a, b string) int { return apart(a) - apart(b) })
	return out[:min(len(out), most)]
}

// Distance counts the letters to insert, delete or replace to turn one name into another. Case, _ and
// - do not count.
func Distance(a, b string) int { return levenshtein.ComputeDistance(Plain(a), Plain(b)) }

// Suggest returns the name that a wrong one was meant to be, as the end of a sentence: the nearest
// known name, if one is near, or else all of them. It says when the two look alike.
func Suggest(name string, known []string) string {
	if near := To(name, known); len(near) > 0 {
		return fmt.Sprintf("did you mean %q?", near[0]) + alike(name, near[0])
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(known)))
	switch {
	case len(sorted) == 0:
		return "none exists"
	case len(sorted) > maxKnown:
		return fmt.Sprintf("known are %s and %d others", strings.Join(sorted[:maxKnown], ", "), len(sorted)-maxKnown)
	}
	return "known are " + strings.Join(sorted, ", ")
}

// alike returns the difference between two names that a reader may overlook.
func alike(name, other string) string {
	switch {
	case strings.EqualFold(name, other):
		return " (upper and lower case differ)"
	case visible(name) == visible(other):
		return " (yours has a character that is not visible)"
	}
	return ""
}

func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, s)
}

// Plain makes api_key, api-key and APIKey the same word.
func Plain(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}
