package render

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/store"
)

// Entities returns a table of entities. It is empty without entities.
func Entities(all []store.Entity, opts TableOptions) string {
	t := table{head: []string{"NAME", "TYPE", "MENTIONS", "LAST", "OTHER NAMES", "ID"}, rare: []string{"OTHER NAMES"}}
	for _, e := range all {
		t.row(opts.shorten(visible(oneLine(e.Name)), 40), visible(oneLine(e.Type)), fmt.Sprint(e.Mentions), opts.time(e.MentionedAt),
			opts.shorten(visible(oneLine(strings.Join(e.Aliases, ", "))), 40), visible(e.ID))
	}
	return t.String()
}

// Entity returns an entity with its newest mentions.
func Entity(e api.EntityView, mentions []store.Mention, opts TableOptions) string {
	var out fields
	out.add("entity", e.ID)
	out.add("name", oneLine(e.Name))
	out.add("type", oneLine(e.Type))
	out.add("also", oneLine(strings.Join(e.Aliases, ", ")))
	for _, d := range e.Descriptions {
		out.add("known", oneLine(d))
	}
	out.add("mentions", fmt.Sprint(e.Mentions)+suffix(", the last at ", opts.time(e.MentionedAt)))
	for _, r := range e.Relations {
		out.add(oneLine(r.Type), oneLine(otherEnd(r, e.ID)+suffix(": ", r.Reason)))
	}
	if len(e.Merges) > 0 {
		fmt.Fprintf(&out, "\n%s", EntityMerges(e.Merges, opts))
	}
	for _, m := range mentions {
		fmt.Fprintf(&out, "\n%s  thread %s, %s %s\n", opts.time(m.At), visible(oneLine(m.ThreadID)), visible(oneLine(m.SourceType)), visible(oneLine(m.SourceID)))
		out.passage(m.Text, opts)
	}
	return out.String()
}

// otherEnd names the entity to which a relation leads from one of its ends.
func otherEnd(r store.Relation, id string) string {
	if r.From == id {
		return r.ToName
	}
	return r.FromName
}

// EntityMerges returns a table of merges. It is empty without merges.
func EntityMerges(all []store.EntityMerge, opts TableOptions) string {
	t := table{head: []string{"MERGED", "INTO", "AT", "BY", "SIMILARITY", "UNDONE", "MERGE"}, rare: []string{"SIMILARITY", "UNDONE"}}
	for _, m := range all {
		similarity := ""
		if m.Similarity != 0 {
			similarity = fmt.Sprintf("%.3f", m.Similarity)
		}
		undone := ""
		if !m.UndoneAt.IsZero() {
			undone = opts.time(m.UndoneAt) + " by " + visible(oneLine(m.UndoneBy))
		}
		t.row(opts.shorten(visible(oneLine(m.FromName)), 40), opts.shorten(visible(oneLine(m.IntoName)), 40), opts.time(m.At), visible(oneLine(m.By)), similarity, undone, visible(m.ID))
	}
	return t.String()
}
