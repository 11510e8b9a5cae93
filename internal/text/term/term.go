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

	// Prose is Markdown. A [Writer] writes it as it is. An empty span of it ends the text: what
	// follows is another one.
	Prose
)

const reset = "\x1b[0m"

var codes = [...]string{"", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", ""}

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

	mu     sync.Mutex
	before []func()
	escaper
}

// New makes a writer to out, with styles if color is set.
func New(out io.Writer, color bool) *Writer { return &Writer{out: out, color: color} }

// Before adds what is called once, before the next text is written.
func (w *Writer) Before(call func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = append(w.before, call)
}

func (w *Writer) first() {
	for _, call := range w.before {
		call()
	}
	w.before = nil
}

// Write writes untrusted text.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first()
	if _, err := io.WriteString(w.out, w.escape(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Print writes text with its styles.
func (w *Writer) Print(t Text) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first()
	_, err := io.WriteString(w.out, w.render(t, w.color))
	return err
}

// Render returns text as a [Writer] would write it.
func Render(t Text, color bool) string {
	var e escaper
	return e.render(t, color)
}

func (e *escaper) render(t Text, color bool) string {
	var out strings.Builder
	for _, s := range t {
		if code := codes[s.Style]; color && code != "" {
			out.WriteString(code + e.escape(s.Text) + reset)
		} else {
			out.WriteString(e.escape(s.Text))
		}
	}
	return out.String()
}
