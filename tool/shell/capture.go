package shell

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// capture shows a stream as it arrives and keeps its head and tail. Only one goroutine may write.
type capture struct {
	subtype string
	show    func(any)

	// pending is the beginning of an incomplete rune.
	pending  []byte
	live     int
	head     []byte
	tail     []byte
	half     int
	overflow int64
}

func newCapture(subtype string, cfg Config, show func(any)) *capture {
	return &capture{subtype: subtype, show: show, half: cfg.MaxOutput / 2, live: cfg.MaxProgress}
}

func (c *capture) Write(p []byte) (int, error) {
	c.keep(p)
	c.pending = append(c.pending, p...)
	n := wholeRunes(c.pending)
	c.emit(c.pending[:n])
	c.pending = append(c.pending[:0], c.pending[n:]...)
	return len(p), nil
}

// flush shows the remaining bytes at the end of the stream.
func (c *capture) flush() {
	c.emit(c.pending)
	c.pending = nil
}

func (c *capture) emit(p []byte) {
	if len(p) == 0 || c.live <= 0 {
		return
	}
	c.live -= len(p)
	text := strings.ToValidUTF8(string(p), "\uFFFD")
	if c.live <= 0 {
		text += "\n[more output follows; it is not shown live]\n"
	}
	c.show(Chunk{Subtype: c.subtype, Content: text})
}

func (c *capture) keep(p []byte) {
	n := min(c.half-len(c.head), len(p))
	c.head = append(c.head, p[:n]...)
	c.tail = append(c.tail, p[n:]...)
	// Cut only when the tail has doubled, not on each write.
	if len(c.tail) > 2*c.half {
		c.trim()
	}
}

func (c *capture) trim() {
	if extra := len(c.tail) - c.half; extra > 0 {
		c.overflow += int64(extra)
		c.tail = append(c.tail[:0], c.tail[extra:]...)
	}
}

// text returns the stream, or its head and tail with a line between them that contains the number
// of missing bytes.
func (c *capture) text() (text string, truncated bool) {
	c.trim()
	if c.overflow == 0 {
		return strings.ToValidUTF8(string(c.head)+string(c.tail), "\uFFFD"), false
	}
	head := c.head[:wholeRunes(c.head)]
	tail := c.tail
	for i := 0; i < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	cut := c.overflow + int64(len(c.head)-len(head)+len(c.tail)-len(tail))
	text = fmt.Sprintf("%s\n[… %d bytes cut …]\n%s", head, cut, tail)
	return strings.ToValidUTF8(text, "\uFFFD"), true
}

// wholeRunes returns the length of p without an incomplete rune at its end.
func wholeRunes(p []byte) int {
	for i := 1; i <= min(utf8.UTFMax, len(p)); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return len(p) - i
			}
			break
		}
	}
	return len(p)
}

// serial serializes show, which both streams call.
func serial(show func(any)) func(any) {
	var mu sync.Mutex
	return func(data any) {
		mu.Lock()
		defer mu.Unlock()
		show(data)
	}
}
