package document

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium"
	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// startPDFium starts PDFium in WebAssembly, without files, network or environment. Its machine code takes seconds to make and
// is kept in the folder of the job.
func startPDFium(j job) (pdfium.Pdfium, error) {
	cache, err := wazero.NewCompilationCacheWithDir(j.Cache)
	if err != nil {
		return nil, err
	}
	pool, err := webassembly.Init(webassembly.Config{
		MinIdle: 1, MaxIdle: 1, MaxTotal: 1,
		RuntimeConfig: wazero.NewRuntimeConfig().WithCompilationCache(cache).WithMemoryLimitPages(uint32(j.Memory / 2 >> 16)).
			WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling),
		FSConfig: wazero.NewFSConfig(), // the default is the whole file system
		Stdout:   io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		return nil, err
	}
	return pool.GetInstance(0)
}

func (w *writer) pdf(f File) error {
	reader, err := startPDFium(w.job)
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	opened, err := reader.OpenDocument(&requests.OpenDocument{File: &f.Content})
	switch {
	case errors.Is(err, pdfiumerrors.ErrPassword):
		return unreadable("the document is encrypted: remove its password")
	case err != nil:
		_, why, _ := strings.Cut(err.Error(), ": ") // behind a number
		return errors.New(why)
	}
	doc := opened.Document
	count, err := reader.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc})
	if err != nil {
		return err
	}
	if count.PageCount > w.limits.Pages {
		return unreadable("the document has %d pages; the limit is %d: split it", count.PageCount, w.limits.Pages)
	}
	if title, err := reader.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: doc, Tag: "Title"}); err == nil {
		w.title = title.Value
	}
	for i := range count.PageCount {
		page, err := reader.GetPageText(&requests.GetPageText{Page: requests.Page{ByIndex: &requests.PageByIndex{Document: doc, Index: i}}})
		if errors.Is(err, pdfiumerrors.ErrPage) {
			continue // readers show the pages that are whole
		}
		if err != nil {
			return err
		}
		if err := w.paragraphs(joined(page.Text), i+1); err != nil {
			return err
		}
	}
	return nil
}

var (
	// hyphen is one at the end of a line: PDFium writes U+0002 for it and the line's end, unless it is U+2010.
	hyphen = regexp.MustCompile(`\x02|\x{2010}\n`)

	// shared is what follows the hyphen of a word without its end, as in Ein- und Ausgang.
	shared = regexp.MustCompile(`^(?:and|or|und|oder)\b`)
)

// joined returns the text of a page in which words are as they were before lines broke them. On a page with U+2010 for broken words,
// as browsers print it, other hyphens stay. Elsewhere, nothing tells the hyphen of well-known at the end of a line from others.
func joined(text string) string {
	text = strings.NewReplacer("\x02\r\n", "\x02", "\r\n", "\n", "\r", "\n", "\uF0B7", "•").Replace(text) // the bullets of word processors
	marked := strings.Contains(text, "\u2010\n")
	var out strings.Builder
	from := 0
	for _, at := range hyphen.FindAllStringIndex(text, -1) {
		before, after := text[from:at[0]], text[at[1]:]
		out.WriteString(before)
		from = at[1]
		last, size := utf8.DecodeLastRuneInString(before)
		first, _ := utf8.DecodeRuneInString(after)
		oneLetter := strings.LastIndexAny(before, " \n") == len(before)-size-1
		switch {
		case shared.MatchString(after):
			out.WriteString("- ")
		case !unicode.IsLetter(first), // COVID-19
			unicode.IsUpper(first) && (oneLetter || !unicode.IsUpper(last)), // E-Mail, Nord-Ost
			marked && text[at[0]] == '\x02':
			out.WriteByte('-')
		}
	}
	return out.String() + text[from:]
}
