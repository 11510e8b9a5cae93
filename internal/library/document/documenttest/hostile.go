package documenttest

import (
	"bytes"
	"fmt"
	"strings"
)

// Hostile returns small documents that take all memory, or a processor for ever, of readers that believe what they state. Their
// names are those of files.
func Hostile() map[string][]byte {
	const text = "BT /F1 12 Tf 72 720 Td (text) Tj ET"
	plain := PDF("", text)
	trailer := func(add string) []byte {
		return []byte(strings.Replace(plain, "/Root 1 0 R", "/Root 1 0 R "+add, 1))
	}
	pages := func(kids string) []byte {
		return []byte(strings.Replace(plain, "/Kids [5 0 R]", "/Kids ["+kids+"]", 1))
	}
	word := func(body string) []byte { return []byte(DOCX(body)) }
	return map[string][]byte{
		"its own page tree.pdf":          pages("2 0 R"),
		"a tree of pages that loops.pdf": pages(strings.Repeat("2 0 R ", 50)),
		"an xref that loops.pdf":         trailer(fmt.Sprintf("/Prev %d", strings.Index(plain, "xref\n0 "))),
		"an open string.pdf":             []byte(PDF("", "BT /F1 12 Tf (before) Tj <414")),
		"arrays in arrays.pdf":           []byte(PDF("", strings.Repeat("[", 4<<20))),
		"dictionaries.pdf":               []byte(PDF("", strings.Repeat("<<", 4<<20))),
		"two thousand million.pdf":       xrefStream(2_000_000_000, ""),
		"a negative size.pdf":            xrefStream(-5, ""),
		"a predictor.pdf":                xrefStream(3, "/DecodeParms << /Predictor 12 /Columns 90000000000 >>"),
		"four thousand million.pdf":      []byte(strings.Replace(plain, "xref\n0 ", "xref\n4000000000 ", 1)),
		"a page of graphics.pdf":         []byte(PDF("", strings.Repeat("q 1 0 0 1 0 0 cm BT /F1 1 Tf (a) Tj ET ", 1<<18))),
		"spans.html":                     []byte("<table><tr><td colspan=4000 rowspan=4000>x</td></tr></table>"),
		"spans in rows.html":             []byte("<table>" + strings.Repeat("<tr><td colspan=1000>x", 4000) + "</table>"),
		"a wide row.html":                []byte("<table><tr>" + strings.Repeat("<td>", 4000) + strings.Repeat("<tr><td>x", 4000) + "</table>"),
		"tables in tables.html":          []byte(strings.Repeat("<table><tr><td>", 150) + "x"),
		"formats.html":                   []byte(strings.Repeat("<b><i><a>", 2000) + "x"),
		"attributes.html":                []byte("<p " + strings.Repeat("a ", 1<<19) + ">x"),
		"tables in tables.docx":          word(strings.Repeat("<w:tbl><w:tr><w:tc>", 80) + strings.Repeat("<w:p><w:r><w:t>x</w:t></w:r></w:p>", 1<<16)),
		"attributes.docx":                word("<w:p " + strings.Repeat("a='b' ", 1<<18) + "/>"),
		"a name.docx":                    word("<w:" + strings.Repeat("a", 8<<20) + "/>"),
		"gigabyte.docx":                  Zip(map[string]string{"word/document.xml": strings.Repeat("<w:p>", 1<<24)}),
		"quotes.csv":                     bytes.Repeat([]byte(`"`), 2<<20),
		"columns.csv":                    bytes.Repeat([]byte(`,`), 8<<20),
		"brackets.md":                    bytes.Repeat([]byte("["), 1<<20),
		"headings.md":                    bytes.Repeat([]byte("# a\n"), 1<<16),
		"one letter.txt":                 bytes.Repeat([]byte("a"), 2<<20),
		"no charset.txt":                 bytes.Repeat([]byte("\xFF\x80"), 1<<20),
		"lines.go":                       bytes.Repeat([]byte("a\n\n"), 1<<18),
	}
}

// xrefStream returns a PDF whose cross-references are a stream that states a size.
func xrefStream(size int, add string) []byte {
	const head = "%PDF-1.5\n"
	return fmt.Appendf(nil, "%s1 0 obj\n<< /Type /XRef /Size %d /W [1 2 1] /Index [0 2] /Root 1 0 R /Length 8 %s >>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n",
		head, size, add, "\x01\x00\x09\x00\x01\x00\x09\x00", len(head))
}
