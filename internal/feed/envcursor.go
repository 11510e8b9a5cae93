package feed

import (
	"fmt"
	"strconv"
	"strings"
)

// EnvCursor is a place among the events that are made of a thread's sequence: environment
// events, and those of a world. Its text is that of the [Cursor], or
//
//	<cursor>~<n>  the first n events that are made of what follows the cursor
type EnvCursor struct {
	Cursor

	// Sent is how many events were sent of what follows Cursor; otherwise 0.
	Sent int
}

// IsZero reports whether c is the beginning.
func (c EnvCursor) IsZero() bool { return c == EnvCursor{} }

func (c EnvCursor) String() string {
	if c.Sent == 0 {
		return c.Cursor.String()
	}
	return c.Cursor.String() + "~" + strconv.Itoa(c.Sent)
}

// ParseEnvCursor reads the text of a cursor. Its error is a [*CursorError].
func ParseEnvCursor(text string) (EnvCursor, error) {
	rest, sent, partial := strings.Cut(text, "~")
	at, err := ParseCursor(rest)
	if err != nil || !partial {
		return EnvCursor{Cursor: at}, err
	}
	n, err := number(text, "n", sent)
	if err != nil {
		return EnvCursor{}, err
	}
	if n == 0 || n >= maxMade {
		return EnvCursor{}, &CursorError{text, fmt.Sprintf("n behind ~ must be from 1 to %d", maxMade-1)}
	}
	return EnvCursor{Cursor: at, Sent: int(n)}, nil
}
