package entities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// Bounds of what agents are told.
const (
	maxFacts      = 10
	maxNameWords  = 4
	maxWords      = 300 // of a message that are compared with names
	maxRelated    = 5
	maxLastTexts  = 2
	maxFactLength = 1200
)

// Facts returns what is known about the people and things that a text names: those with one of its words, or up to four of them in a
// row, as their name or alias. thread is that of the text, whose own mentions are left out.
func (e *Entities) Facts(ctx context.Context, namespace, thread, text string) ([]event.Fact, error) {
	names := phrases(text)
	if len(names) == 0 {
		return nil, nil
	}
	known, err := e.cfg.Store.EntitiesNamed(ctx, namespace, names)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(known, func(a, b store.Entity) int { return cmp.Compare(b.Mentions, a.Mentions) })
	var out []event.Fact
	for _, k := range known[:min(len(known), maxFacts)] {
		said, err := e.about(ctx, namespace, thread, k)
		if err != nil {
			return nil, err
		}
		out = append(out, event.Fact{Entity: k.ID, Name: k.Name, Type: k.Type, Text: cut(said, maxFactLength)})
	}
	return out, nil
}

// about describes an entity in a few lines.
func (e *Entities) about(ctx context.Context, namespace, thread string, k store.Entity) (string, error) {
	relations, err := e.cfg.Store.Relations(ctx, namespace, k.ID)
	if err != nil {
		return "", err
	}
	mentions, err := e.cfg.Store.Mentions(ctx, namespace, k.ID, store.MentionPage{Limit: maxMentioned})
	if err != nil {
		return "", err
	}
	var parts []string
	if len(k.Aliases) > 0 {
		parts = append(parts, "also called "+strings.Join(k.Aliases, ", "))
	}
	parts = append(parts, k.Descriptions...)
	for _, r := range relations[:min(len(relations), maxRelated)] {
		other := r.ToName
		if r.To == k.ID {
			other = r.FromName
		}
		parts = append(parts, fmt.Sprintf("not to be confused with %s", other))
	}
	last := 0
	for _, m := range mentions {
		if m.ThreadID == thread || m.Text == "" || last == maxLastTexts {
			continue
		}
		last++
		parts = append(parts, fmt.Sprintf("on %s somebody wrote: %q", m.At.UTC().Format("2006-01-02"), m.Text))
	}
	return strings.Join(parts, "; "), nil
}

// phrases returns the sequences of up to four words of a text, each once.
func phrases(text string) []string {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-'’.&", r)
	})
	for i := range words {
		words[i] = strings.Trim(words[i], "-'’.&")
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	words = words[:min(len(words), maxWords)]
	seen := map[string]bool{}
	var out []string
	for i := range words {
		for n := 1; n <= maxNameWords && i+n <= len(words); n++ {
			phrase := strings.Join(words[i:i+n], " ")
			for _, name := range []string{phrase, strings.TrimSuffix(strings.TrimSuffix(phrase, "'s"), "’s")} {
				if key := strings.ToLower(name); len(name) <= maxName && !seen[key] {
					seen[key] = true
					out = append(out, name)
				}
			}
		}
	}
	return out
}
