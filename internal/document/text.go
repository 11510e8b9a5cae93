package document

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/threadmill/threadmill/internal/knowledge"
)

// decoded returns the content of a file of text as UTF-8: by its byte order mark, its media type, what it is valid as,
// or what it looks like.
func decoded(f File) (string, error) {
	wide := bytes.HasPrefix(f.Content, []byte("\xFF\xFE")) || bytes.HasPrefix(f.Content, []byte("\xFE\xFF"))
	if !wide && bytes.IndexByte(f.Content[:min(len(f.Content), 1<<12)], 0) >= 0 {
		return "", unreadable("the document is no text: it has binary content")
	}
	text := string(f.Content)
	if _, params, _ := mime.ParseMediaType(f.MediaType); wide || params["charset"] != "" || !utf8.ValidString(text) {
		r, err := charset.NewReader(bytes.NewReader(f.Content), f.MediaType)
		if err != nil {
			return "", err
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			return "", err
		}
		text = string(raw)
	}
	return strings.ReplaceAll(strings.TrimPrefix(text, "\uFEFF"), "\r\n", "\n"), nil
}

func (w *writer) plainText(f File) error {
	text, err := decoded(f)
	if err != nil {
		return err
	}
	return w.paragraphs(text, 0)
}

// code adds what begins without indentation after an empty line, such as functions, as blocks.
func (w *writer) code(f File) error {
	text, err := decoded(f)
	if err != nil {
		return err
	}
	var block strings.Builder
	empty := false
	flush := func() error {
		defer block.Reset()
		return w.add(knowledge.Block{Text: block.String()})
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
	text, err := decoded(f)
	if err != nil {
		return err
	}
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	head, _, _ := strings.Cut(text, "\n")
	for _, comma := range ";\t" {
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
		if err := w.add(knowledge.Block{Text: line.String()}); err != nil {
			return err
		}
	}
}
