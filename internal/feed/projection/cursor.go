package projection

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/threadmill/threadmill/internal/feed"
)

// Cursor is a position among the events that are derived from a thread's feed. Its text is that of
// the [feed.Cursor], or
//
//	<cursor>~<n>  the first n events of the item after the cursor
type Cursor struct {
	feed.Cursor

	// Sent is the number of events that were sent of the item after Cursor; otherwise 0.
	Sent int
}

// IsZero reports whether c is the beginning.
func (c Cursor) IsZero() bool { return c == Cursor{} }

func (c Cursor) String() string {
	if c.Sent == 0 {
		return c.Cursor.String()
	}
	return c.Cursor.String() + "~" + strconv.Itoa(c.Sent)
}

// ParseCursor parses a cursor. Its error is a [*feed.CursorError].
func ParseCursor(text string) (Cursor, error) {
	rest, sent, partial := strings.Cut(text, "~")
	at, err := feed.ParseCursor(rest)
	if err != nil || !partial {
		return Cursor{Cursor: at}, err
	}
	n, err := feed.ParseCursorNumber(text, "n", sent)
	if err != nil {
		return Cursor{}, err
	}
	if n == 0 || n >= MaxEvents {
		return Cursor{}, &feed.CursorError{Text: text, Problem: fmt.Sprintf("n behind ~ must be from 1 to %d", MaxEvents-1)}
	}
	return Cursor{Cursor: at, Sent: int(n)}, nil
}
