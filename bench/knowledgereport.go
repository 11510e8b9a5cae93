package main

import (
	"fmt"
	"strings"
)

const noEmbedder = "full text only: without -embedder, there are no vectors that say what texts mean"

// qualityRow says how well questions of a kind are answered; "" = all of a set.
type qualityRow struct {
	Set       string  `json:"set"`
	Passages  int     `json:"passages"`
	Store     string  `json:"store"`
	Search    string  `json:"search"`
	Kind      string  `json:"kind,omitempty"`
	Questions int     `json:"questions"`
	NDCG      float64 `json:"ndcg10"`
	Recall    float64 `json:"recall100"`
}

// searchRow has the speeds of a store. Times are in milliseconds; those of vectors are 0 if the store has none.
type searchRow struct {
	Store              string  `json:"store"`
	Documents          int     `json:"documents"`
	Chunks             int     `json:"chunks"`
	Bytes              int     `json:"bytes"`
	DocumentsPerSecond float64 `json:"documentsPerSecond"`
	ChunksPerSecond    float64 `json:"chunksPerSecond"`
	VectorsPerSecond   float64 `json:"vectorsPerSecond,omitempty"`
	Text               summary `json:"text"`
	Vectors            summary `json:"vectors"`
	Hybrid             summary `json:"hybrid"`
}

// passagesReport compares turns of an agent that is given passages with turns of one that is not.
type passagesReport struct {
	// Documents were ingested through the runtime.
	Documents          int           `json:"documents"`
	Chunks             int           `json:"chunks"`
	DocumentsPerSecond float64       `json:"documentsPerSecond"`
	ChunksPerSecond    float64       `json:"chunksPerSecond"`
	Rows               []passagesRow `json:"rows"`
}

type passagesRow struct {
	Way     way     `json:"way"`
	Threads int     `json:"threads"`
	Ratio   summary `json:"ratio"`
	With    sideRow `json:"with"`
	Without sideRow `json:"without"`
}

func (r *report) qualityTables(b *strings.Builder) {
	if len(r.Quality) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### Quality of searches\n\n")
	if r.Options.Knowledge.Embedder == "" {
		fmt.Fprintf(b, "Measured is %s.\n\n", noEmbedder)
	} else {
		fmt.Fprintf(b, "Vectors are of %s, in the stores that have vectors.\n\n", r.Options.Knowledge.Embedder)
	}
	fmt.Fprintf(b, "| set | passages | questions | store | search | nDCG@%d | recall@%d |\n|---|---|---|---|---|---|---|\n", ndcgAt, recallAt)
	for _, q := range r.Quality {
		name := q.Set
		if q.Kind != "" {
			name += ": " + q.Kind
		}
		fmt.Fprintf(b, "| %s | %d | %d | %s | %s | %.3f | %.3f |\n", name, q.Passages, q.Questions, q.Store, q.Search, q.NDCG, q.Recall)
	}
}

func (r *report) searchTable(b *strings.Builder) {
	if len(r.Search) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### Ingestion at the library, and searches (%d of each kind, vectors of dimension %d)\n\n", r.Options.Knowledge.Searches, dimension)
	fmt.Fprint(b, "| store | documents | chunks | documents/s | chunks/s | vectors stored/s | by text, ms: median, p95 | by vectors, ms: median, p95 | "+
		"hybrid, ms: median, p95 |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range r.Search {
		vectors := "none"
		if s.VectorsPerSecond > 0 {
			vectors = fmt.Sprintf("%.0f", s.VectorsPerSecond)
		}
		fmt.Fprintf(b, "| %s | %d | %d | %.1f | %.0f | %s | %s | %s | %s |\n", s.Store, s.Documents, s.Chunks, s.DocumentsPerSecond, s.ChunksPerSecond,
			vectors, middle(s.Text), middle(s.Vectors), middle(s.Hybrid))
	}
}

// middle prints times; none, if nothing was timed.
func middle(s summary) string {
	if s.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("%.1f, %.1f", s.Median, s.P95)
}

func (r *report) passagesTable(b *strings.Builder) {
	p := r.Passages
	if p == nil {
		return
	}
	fmt.Fprintf(b, "\n### Turns per second with %d passages : without, %d pairs of rounds\n\n", readerPassages, r.Options.Rounds)
	fmt.Fprintf(b, "The runtime ingested %d documents with %d chunks: %.1f documents/s, %.0f chunks/s.\n\n",
		p.Documents, p.Chunks, p.DocumentsPerSecond, p.ChunksPerSecond)
	fmt.Fprint(b, "| by | threads | ratio: median (min–max) | with, ms a turn: median, p95 | without, ms a turn: median, p95 |\n|---|---|---|---|---|\n")
	for _, t := range p.Rows {
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s |\n", t.Way, t.Threads, spread(t.Ratio, 2), middle(t.With.Turn), middle(t.Without.Turn))
	}
}
