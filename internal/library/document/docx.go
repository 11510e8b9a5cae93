package document

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds of the XML in a DOCX file: a small file can unpack to a very large one.
const (
	maxXML   = 64 << 20
	maxDepth = 256
)

func (w *writer) docx(f File) error {
	archive, err := zip.NewReader(bytes.NewReader(f.Content), int64(len(f.Content)))
	if err != nil {
		return err
	}
	d := docx{writer: w, levels: map[string]int{}}
	if err := d.part(archive, "docProps/core.xml", d.core); err != nil && !errors.Is(err, errNoPart) {
		return err
	}
	if err := d.part(archive, "word/styles.xml", d.style); err != nil && !errors.Is(err, errNoPart) {
		return err
	}
	return d.part(archive, "word/document.xml", d.body)
}

// errNoPart is the error of a part that is not in the archive.
var errNoPart = errors.New("it has no text document inside")

// docx reads the parts of a DOCX file.
type docx struct {
	*writer
	levels   map[string]int // of headings, by the ids of styles
	declared string         // the id of the style that is being read

	stack      []string
	skipped    int          // how deep the element is whose content is not read, 0 = none
	paragraphs []*paragraph // a paragraph can have a text box with paragraphs
	tables     []*wordTable // a cell can have tables
}

type paragraph struct {
	text  strings.Builder
	level int
}

// wordTable is a table that is being read.
type wordTable struct {
	row  []string
	cell strings.Builder
}

// part calls a function for each token of a part of the archive, with the elements around it.
func (d *docx) part(archive *zip.Reader, name string, token func(xml.Token) error) error {
	for _, f := range archive.File {
		if f.Name != name {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		limited := &io.LimitedReader{R: r, N: maxXML}
		decoder := xml.NewDecoder(limited)
		d.stack = nil
		for {
			t, err := decoder.Token()
			switch {
			case limited.N <= 0:
				return unreadable("the document unpacks to more than %d bytes, which is the limit", maxXML)
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			if e, ok := t.(xml.StartElement); ok {
				if d.stack = append(d.stack, e.Name.Local); len(d.stack) > maxDepth {
					return unreadable("the elements of the document are nested more than %d deep, which is the limit", maxDepth)
				}
			}
			if err := token(t); err != nil {
				return err
			}
			if _, ok := t.(xml.EndElement); ok {
				d.stack = d.stack[:len(d.stack)-1]
			}
		}
	}
	return errNoPart
}

// within reports whether the current element is inside one of this name, or is one.
func (d *docx) within(name string) bool { return slices.Contains(d.stack, name) }

// core reads the properties of the document.
func (d *docx) core(t xml.Token) error {
	if text, ok := t.(xml.CharData); ok && d.within("title") {
		d.title += string(text)
	}
	return nil
}

// style reads which styles are headings: their ids are in the language of the author, their names are not.
func (d *docx) style(t xml.Token) error {
	e, ok := t.(xml.StartElement)
	if !ok {
		return nil
	}
	switch e.Name.Local {
	case "style":
		d.declared = attribute(e, "styleId")
	case "name":
		name := strings.ToLower(attribute(e, "val"))
		if level, err := strconv.Atoi(strings.TrimPrefix(name, "heading ")); err == nil && strings.HasPrefix(name, "heading ") {
			d.levels[d.declared] = level
		} else if name == "title" {
			d.levels[d.declared] = 1
		}
	}
	return nil
}

// notRead are elements whose content is elsewhere, or no longer there: the older form of a text box, which follows the newer one,
// and what was moved or deleted.
var notRead = []string{"Fallback", "moveFrom", "del"}

// body reads the text.
func (d *docx) body(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		if d.skipped == 0 && slices.Contains(notRead, t.Name.Local) {
			d.skipped = len(d.stack)
		}
		if d.skipped == 0 {
			d.start(t)
		}
	case xml.CharData:
		if d.skipped == 0 && len(d.stack) > 0 && d.stack[len(d.stack)-1] == "t" {
			d.write(string(t))
		}
	case xml.EndElement:
		if d.skipped == 0 {
			return d.end(t.Name.Local)
		}
		if d.skipped == len(d.stack) {
			d.skipped = 0
		}
	}
	return nil
}

// write adds to the text of the current paragraph.
func (d *docx) write(text string) {
	if n := len(d.paragraphs); n > 0 {
		d.paragraphs[n-1].text.WriteString(text)
	}
}

func (d *docx) start(e xml.StartElement) {
	switch e.Name.Local {
	case "p":
		d.paragraphs = append(d.paragraphs, &paragraph{})
	case "tbl":
		d.tables = append(d.tables, &wordTable{})
	case "pStyle":
		if n := len(d.paragraphs); n > 0 {
			d.paragraphs[n-1].level = d.levels[attribute(e, "val")]
		}
	case "tab":
		if !d.within("tabs") { // those are the stops of a style
			d.write("\t")
		}
	case "br", "cr":
		d.write("\n")
	case "noBreakHyphen":
		d.write("-")
	}
}

func (d *docx) end(name string) error {
	inTable := len(d.tables) > 0
	switch {
	case name == "p" && len(d.paragraphs) > 0:
		last := len(d.paragraphs) - 1
		p := d.paragraphs[last]
		text, level := p.text.String(), p.level
		d.paragraphs = d.paragraphs[:last]
		if inTable {
			d.tables[len(d.tables)-1].cell.WriteString(text + " ")
			return nil
		}
		return d.add(Block{Level: level, Text: text})
	case name == "tc" && inTable:
		t := d.tables[len(d.tables)-1]
		t.row = append(t.row, strings.TrimSpace(t.cell.String()))
		t.cell.Reset()
	case name == "tr" && inTable:
		t := d.tables[len(d.tables)-1]
		row := strings.Join(t.row, " | ")
		t.row = nil
		if strings.Trim(row, " |") == "" {
			return nil
		}
		if outer := len(d.tables) - 2; outer >= 0 {
			d.tables[outer].cell.WriteString(row + " ")
			return nil
		}
		return d.add(Block{Text: row})
	case name == "tbl" && inTable:
		d.tables = d.tables[:len(d.tables)-1]
	}
	return nil
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
