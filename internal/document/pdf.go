package document

import (
	"bytes"
	"io"

	"github.com/ledongthuc/pdf"
)

// maxPage is the maximum size of the unpacked content of a page of a PDF.
const maxPage = 16 << 20

func (w *writer) pdf(f File) error {
	r, err := pdf.NewReader(bytes.NewReader(f.Content), int64(len(f.Content)))
	if err != nil {
		return err
	}
	if n := r.NumPage(); n > w.limits.Pages {
		return unreadable("the document has %d pages; the limit is %d: split it", n, w.limits.Pages)
	}
	w.title = r.Trailer().Key("Info").Key("Title").Text()
	fonts := map[string]*pdf.Font{}
	for i := 1; i <= r.NumPage(); i++ {
		page := r.Page(i)
		if page.V.IsNull() {
			continue
		}
		if err := bounded(page.V.Key("Contents")); err != nil {
			return err
		}
		clear(fonts) // their names are those of the page
		text, err := page.GetPlainText(fonts)
		if err != nil {
			return err
		}
		if err := w.paragraphs(text, i); err != nil {
			return err
		}
	}
	return nil
}

// bounded rejects content that unpacks to too much.
func bounded(content pdf.Value) error {
	left := int64(maxPage)
	read := func(v pdf.Value) error {
		r := v.Reader()
		defer func() { _ = r.Close() }()
		n, err := io.Copy(io.Discard, io.LimitReader(r, left+1))
		if left -= n; left < 0 {
			return unreadable("a page of the document unpacks to more than %d bytes, which is the limit", maxPage)
		}
		return err
	}
	if content.Kind() == pdf.Stream {
		return read(content)
	}
	for i := range content.Len() { // 0 if it is no array
		if err := read(content.Index(i)); err != nil {
			return err
		}
	}
	return nil
}
