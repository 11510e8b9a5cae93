// Package documenttest makes documents for tests.
package documenttest

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"fmt"
	"strings"
)

// PDF returns a PDF with pages, which are given by their operators, such as BT /F1 12 Tf 72 720 Td (text) Tj ET.
func PDF(title string, pages ...string) string {
	var out bytes.Buffer
	var offsets []int
	object := func(format string, args ...any) {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n", len(offsets))
		fmt.Fprintf(&out, format, args...)
		out.WriteString("\nendobj\n")
	}
	out.WriteString("%PDF-1.4\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	kids := make([]string, len(pages))
	for i := range pages {
		kids[i] = fmt.Sprintf("%d 0 R", 5+2*i)
	}
	object("<< /Type /Pages /Count %d /Kids [%s] >>", len(pages), strings.Join(kids, " "))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	object("<< /Title (%s) >>", title)
	for i, page := range pages {
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", 6+2*i)
		var packed bytes.Buffer
		w := zlib.NewWriter(&packed)
		_, _ = w.Write([]byte(page))
		_ = w.Close()
		object("<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream", packed.Len(), packed.String())
	}
	at := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, o := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, at)
	return out.String()
}

// DOCX returns a DOCX with the title "Akte" and the content of w:body. Its style berschrift2 is a heading of level 2.
func DOCX(body string) string {
	const ns = ` xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"`
	return string(Zip(map[string]string{
		"docProps/core.xml": `<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Akte</dc:title></p>`,
		"word/styles.xml":   `<w:styles` + ns + `><w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style></w:styles>`,
		"word/document.xml": `<w:document` + ns + `><w:body>` + body + `</w:body></w:document>`,
	}))
}

// Zip returns an archive.
func Zip(files map[string]string) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, content := range files {
		f, _ := w.Create(name)
		_, _ = f.Write([]byte(content))
	}
	_ = w.Close()
	return out.Bytes()
}
