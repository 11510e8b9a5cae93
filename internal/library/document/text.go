package document

import (
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"unicode"
)

func (w *writer) plainText(f File) error {
	text, err := decoded(f, guessed)
	if err != nil {
		return err
	}
	return w.paragraphs(text, 0)
}

// code adds what begins without indentation after an empty line, such as functions, as blocks.
func (w *writer) code(f File) error {
	text, err := decoded(f, guessed)
	if err != nil {
		return err
	}
	var block strings.Builder
	empty := false
	flush := func() error {
		defer block.Reset()
		return w.add(Block{Text: block.String()})
	}
	for line := range strings.Lines(text) {
		begins := empty && !unicode.IsSpace(rune(line[0])) && !strings.ContainsAny(line[:1], ")]}")
		if begins {
			if err := flush(); err != nil {
				return err
			}
		}
		empty = strings.TrimSpace(line) == ""
		block.WriteString(line)
	}
	return flush()
}

// csv adds a block for each row, with the names of the columns in the first row.
func (w *writer) csv(f File) error {
	text, err := decoded(f, guessed)
	if err != nil {
		return err
	}
	head, rest, _ := strings.Cut(text, "\n")
	stated, states := strings.CutPrefix(head, "sep=") // a line of Excel
	if states {
		text, head = rest, stated
	}
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	for _, comma := range ";\t|" {
		if strings.Count(head, string(comma)) > strings.Count(head, string(r.Comma)) {
			r.Comma = comma
		}
	}
	var columns []string
	cells := 0
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if cells += len(row); cells > w.limits.Cells {
			return unreadable("the document has more than %d cells, which is the limit: split it", w.limits.Cells)
		}
		if columns == nil {
			columns = append([]string{}, row...)
			continue
		}
		var line strings.Builder
		for i, cell := range row {
			if strings.TrimSpace(cell) == "" {
				continue
			}
			if i < len(columns) && columns[i] != "" {
				line.WriteString(columns[i] + ": ")
			}
			line.WriteString(cell + "\n")
		}
		if err := w.add(Block{Text: line.String()}); err != nil {
			return err
		}
	}
}
