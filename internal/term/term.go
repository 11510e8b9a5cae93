package term

import (
	"io"
	"strings"
	"sync"
)

// Style is how text looks.
type Style int

// Styles. They show on a terminal only.
const (
	Plain Style = iota
	Bold
	Dim
	Red
	Green
	Yellow
	Cyan
)

const reset = "\x1b[0m"

var codes = [...]string{"", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"}

// Span is a piece of text in one style. The text is untrusted.
type Span struct {
	Style Style
	Text  string
}

// Text is text with styles.
type Text []Span

// String is the text without styles, as it is: [Writer] escapes it.
func (t Text) String() string {
	var out strings.Builder
	for _, s := range t {
		out.WriteString(s.Text)
	}
	return out.String()
}

// Writer writes untrusted text. It is safe for concurrent use.
type Writer struct {
	out   io.Writer
	color bool

	mu sync.Mutex
	escaper
}

// New makes a writer to out, with styles if color is set.
func New(out io.Writer, color bool) *Writer { return &Writer{out: out, color: color} }

// Write writes untrusted text.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := io.WriteString(w.out, w.escape(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Print writes text with its styles.
func (w *Writer) Print(t Text) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out strings.Builder
	for _, s := range t {
		if code := codes[s.Style]; w.color && code != "" {
			out.WriteString(code + w.escape(s.Text) + reset)
		} else {
			out.WriteString(w.escape(s.Text))
		}
	}
	_, err := io.WriteString(w.out, out.String())
	return err
}

// EraseLine erases the line on which the cursor is, which must be a terminal's.
func (w *Writer) EraseLine() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := io.WriteString(w.out, "\r\x1b[K")
	return err
}
