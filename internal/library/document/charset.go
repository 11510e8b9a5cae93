package document

import (
	"bytes"
	"strings"
	"unicode/utf8"

	icu "github.com/gogs/chardet"
	"github.com/wlynxg/chardet"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// maxGuessed is how much of a text its charset is guessed from, in bytes.
const maxGuessed = 256 << 10

// errCharset is the error of a text in a charset that nothing tells.
var errCharset = &Error{Reason: "the charset of the document is not UTF-8 and cannot be told from its content: state it in the media type, such as text/csv; charset=windows-1250, or save the document as UTF-8"}

// decoded returns the content of a file of text as UTF-8: by its byte order mark, its media type, a meta element, what it is
// valid as, or what guess says.
func decoded(f File, guess func([]byte) (encoding.Encoding, error)) (string, error) {
	stated, name, certain := charset.DetermineEncoding(f.Content, f.MediaType)
	if !strings.HasPrefix(name, "utf-16") && bytes.IndexByte(f.Content[:min(len(f.Content), 1<<12)], 0) >= 0 {
		return "", unreadable("the document is no text: it has binary content")
	}
	if !certain && name == defaultCharset {
		stated = encoding.Nop
		if !almostUTF8(f.Content) {
			var err error
			if stated, err = guess(f.Content); err != nil {
				return "", err
			}
		}
	}
	raw, err := stated.NewDecoder().Bytes(f.Content)
	if err != nil {
		return "", err
	}
	text := strings.TrimPrefix(string(raw), "\uFEFF")
	if broken := strings.Count(text, "\uFFFD"); broken > 10+len(text)/100 && !bytes.Contains(f.Content, []byte("\uFFFD")) {
		return "", unreadable("the document is not in the charset %s, in which it says to be", name)
	}
	return strings.ReplaceAll(text, "\r\n", "\n"), nil
}

// defaultCharset is that of web pages which state none.
const defaultCharset = "windows-1252"

// browsers' guess: what people see in a page is what is read.
func browsers([]byte) (encoding.Encoding, error) { return htmlindex.Get(defaultCharset) }

// almostUTF8 reports whether a text is UTF-8, but for a few broken bytes.
func almostUTF8(content []byte) bool {
	broken, whole := 0, 0
	for len(content) > 0 {
		r, size := utf8.DecodeRune(content)
		switch {
		case r == utf8.RuneError && size == 1:
			broken++
		case size > 1:
			whole++
		}
		content = content[size:]
	}
	return broken*10 <= whole
}

// guessed returns the charset that a text looks like. Two libraries say it, of which one tells scripts apart, and the other
// one the languages of the Latin script. Neither is sure of a few words, which are an error.
func guessed(content []byte) (encoding.Encoding, error) {
	content = content[:min(len(content), maxGuessed)]
	best := chardet.Detect(content)
	name := best.Encoding
	if latin(name) {
		west, err := icu.NewTextDetector().DetectBest(content)
		if err != nil || west.Confidence < 20 || !latin(west.Charset) {
			return nil, errCharset
		}
		name = west.Charset
	} else if best.Confidence < 0.5 {
		return nil, errCharset
	}
	found, err := htmlindex.Get(name)
	if err != nil {
		return nil, errCharset
	}
	if read, err := found.NewDecoder().Bytes(content); err != nil || bytes.ContainsRune(bytes.TrimRight(read, "\uFFFD"), utf8.RuneError) {
		return nil, errCharset
	}
	return found, nil
}

// latin reports whether a charset is one of a byte for each letter of the Latin script, which look like one another.
func latin(name string) bool {
	switch strings.ToLower(name) {
	case "windows-1250", "windows-1252", "windows-1254", "iso-8859-1", "iso-8859-2", "iso-8859-9", "iso-8859-15", "macroman", "":
		return true
	}
	return false
}
