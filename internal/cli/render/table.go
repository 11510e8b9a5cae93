package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/threadmill/threadmill/internal/text/term"
)

// TableOptions configure the output of lists and of their items.
type TableOptions struct {
	// Width is the number of characters of the longest column in a table: a content, description or
	// instruction (default 60), a title (default 80), or the arguments of a call (default: all,
	// because a deciding person must see all of them).
	Width int

	// Location is the time zone of times. Default: local.
	Location *time.Location

	// Ended adds the ended events to the table of a queue.
	Ended bool
}

func (o TableOptions) shorten(text string, width int) string {
	return shorten(text, cmp.Or(o.Width, width))
}

// time is empty for a zero time.
func (o TableOptions) time(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.In(cmp.Or(o.Location, time.Local)).Format(time.DateTime)
}

func (o TableOptions) optionalTime(at *time.Time) string {
	if at == nil {
		return ""
	}
	return o.time(*at)
}

// fields has values by name, one a line, without those that are empty.
type fields struct{ strings.Builder }

func (f *fields) add(name, value string) {
	if value != "" {
		fmt.Fprintf(f, "%-9s %s\n", name, visible(value))
	}
}

// addJSON adds a value that is indented on the lines below its name.
func (f *fields) addJSON(name string, value json.RawMessage) {
	if isNull(value) {
		return
	}
	var whole bytes.Buffer
	if json.Indent(&whole, value, "", "  ") != nil {
		whole.Write(value)
	}
	f.WriteString(name + "\n")
	for line := range strings.SplitSeq(whole.String(), "\n") {
		text := strings.TrimLeft(line, " ")
		fmt.Fprintf(f, "  %s%s\n", line[:len(line)-len(text)], visible(text))
	}
}

func isNull(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// whyEnded is the name of the reason of a state.
func whyEnded(failed bool) string {
	if failed {
		return "error"
	}
	return "reason"
}

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
