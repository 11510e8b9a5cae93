package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/threadmill/threadmill/internal/term"
)

// table is text in columns. Rare columns appear only if a cell is not empty.
type table struct {
	head []string
	rare []string
	rows [][]string
}

// row adds a row, whose cells stay on one line.
func (t *table) row(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = term.Escape(oneLine(cell))
	}
	t.rows = append(t.rows, row)
}

// String returns the table, empty without rows.
func (t *table) String() string {
	if len(t.rows) == 0 {
		return ""
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		var line []string
		for i, cell := range row {
			if !slices.Contains(t.rare, t.head[i]) || t.used(i) {
				line = append(line, cmp.Or(cell, "-"))
			}
		}
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	// Writing to memory does not fail.
	_ = w.Flush()
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func (t *table) used(column int) bool {
	return slices.ContainsFunc(t.rows, func(row []string) bool { return row[column] != "" })
}
