package render

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/store"
)

// Documents returns a table of documents. It is empty without documents.
func Documents(all []store.KnowledgeDocument, opts TableOptions) string {
	t := table{head: []string{"SOURCE", "TITLE", "COLLECTION", "STATUS", "CHUNKS", "UPDATED", "ERROR"}, rare: []string{"TITLE", "COLLECTION", "ERROR"}}
	for _, d := range all {
		collection := d.Collection
		if collection == store.DefaultCollection {
			collection = ""
		}
		t.row(visible(d.Source), opts.shorten(visible(oneLine(d.Title)), 40), visible(collection), visible(string(d.Status)), fmt.Sprint(d.Chunks),
			opts.time(d.UpdatedAt), opts.shorten(visible(oneLine(d.Error)), 60))
	}
	return t.String()
}

// Document returns a document with its chunks. More says that it has further chunks.
func Document(d store.KnowledgeDocument, chunks []api.Chunk, more bool, opts TableOptions) string {
	var out fields
	out.add("document", d.ID)
	out.add("source", oneLine(d.Source))
	out.add("title", oneLine(d.Title))
	out.add("in", d.Collection)
	out.add("status", string(d.Status)+suffix(", since ", opts.time(d.UpdatedAt)))
	out.add("error", oneLine(d.Error))
	if d.Indexed > 0 {
		out.add("found", fmt.Sprintf("%d chunks of revision %d, %s, %d bytes", d.Chunks, d.Indexed, oneLine(d.Format), d.Bytes))
	} else {
		out.add("found", "not yet")
	}
	out.add("thread", d.ThreadID)
	out.add("by", d.By)
	out.addJSON("metadata", d.Metadata)
	for _, c := range chunks {
		fmt.Fprintf(&out, "\n%d%s, %d tokens\n", c.Index, where(c.Path, c.Page), c.Tokens)
		out.context(c.Context, opts)
		out.passage(c.Text, opts)
	}
	if more {
		out.WriteString("\nthere are more chunks: --from shows them\n")
	}
	return out.String()
}

// Passages returns numbered passages. It is empty without passages.
func Passages(all []event.Passage, opts TableOptions) string {
	var out fields
	for i, p := range all {
		if i > 0 {
			out.WriteString("\n")
		}
		name := visible(oneLine(p.Source))
		if p.Title != "" {
			name = visible(oneLine(p.Title)) + " (" + name + ")"
		}
		fmt.Fprintf(&out, "%d. %s%s\n", i+1, name, where(p.Path, p.Page))
		fmt.Fprintf(&out, "   %s\n", strings.Join(ranks(p), ", "))
		out.context(p.Context, opts)
		out.passage(p.Text, opts)
	}
	return out.String()
}

// where says where in a document a passage is.
func where(path []string, page int) string {
	place := ""
	if len(path) > 0 {
		place += ", " + visible(oneLine(strings.Join(path, " > ")))
	}
	if page > 0 {
		place += fmt.Sprintf(", page %d", page)
	}
	return place
}

// ranks says by what a passage was found.
func ranks(p event.Passage) (by []string) {
	if p.TextRank > 0 {
		by = append(by, fmt.Sprintf("rank %d by words", p.TextRank))
	}
	if p.VectorRank > 0 {
		by = append(by, fmt.Sprintf("rank %d by vectors", p.VectorRank))
	}
	if p.RerankRank > 0 {
		rank := fmt.Sprintf("rank %d by the reranking model", p.RerankRank)
		if p.RerankScore != nil {
			rank += fmt.Sprintf(" (%.3g)", *p.RerankScore)
		}
		by = append(by, rank)
	}
	if len(by) == 0 {
		by = []string{"no rank"}
	}
	return by
}

// context adds what a model has written about a text, if it has.
func (f *fields) context(text string, opts TableOptions) {
	if text != "" {
		f.passage("context: "+text, opts)
	}
}

// passage adds a text, on one line that is cut.
func (f *fields) passage(text string, opts TableOptions) {
	fmt.Fprintf(f, "   %s\n", opts.shorten(visible(oneLine(text)), 400))
}
