package feed

import (
	"fmt"
	"strconv"
	"strings"
)

// Cursor is a position in a thread's sequence, after the last event sent. Its text is the "id" of a
// server-sent event. The zero value is the beginning.
//
//	<seq>           record seq and all before it
//	<seq>.<n>       the first n events of record seq, which has more of them
//	<seq>:<offset>  records up to seq, and the live log up to offset
//
// The cursor of a record that the log did not announce has the offset too, since the log does not
// determine its place.
type Cursor struct {
	// Seq of the last record that was sent, at least in part.
	Seq int64

	// Part is the number of events of record Seq that were sent, or 0 for all.
	Part int

	// Offset is the position in the live log, or 0 if Seq determines it.
	Offset int64
}

// IsZero reports whether c is the beginning.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// MarshalText returns the form that [ParseCursor] reads.
func (c Cursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is [ParseCursor].
func (c *Cursor) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCursor(string(text))
	return err
}

func (c Cursor) String() string {
	b := strconv.AppendInt(make([]byte, 0, 32), c.Seq, 10)
	if c.Part > 0 {
		b = strconv.AppendInt(append(b, '.'), int64(c.Part), 10)
	}
	if c.Offset > 0 {
		b = strconv.AppendInt(append(b, ':'), c.Offset, 10)
	}
	return string(b)
}

// done is the last record that was sent completely.
func (c Cursor) done() int64 {
	if c.Part > 0 {
		return c.Seq - 1
	}
	return c.Seq
}

// CursorError means that a text is not a cursor.
type CursorError struct {
	Text    string
	Problem string
}

func (e *CursorError) Error() string {
	return fmt.Sprintf("event id %.40q is not <seq>, <seq>.<n> or <seq>:<offset>: %s", e.Text, e.Problem)
}

// ParseCursor parses a cursor. Its error is a [*CursorError].
func ParseCursor(text string) (Cursor, error) {
	rest, offset, live := strings.Cut(text, ":")
	seq, part, partial := strings.Cut(rest, ".")
	var c Cursor
	var err error
	if c.Seq, err = ParseCursorNumber(text, "seq", seq); err != nil {
		return Cursor{}, err
	}
	if partial {
		n, err := ParseCursorNumber(text, "n", part)
		if err != nil {
			return Cursor{}, err
		}
		if n == 0 || n > maxParts || c.Seq == 0 {
			return Cursor{}, &CursorError{text, fmt.Sprintf("n must be from 1 to %d, and seq at least 1", maxParts)}
		}
		c.Part = int(n)
	}
	if live {
		if c.Offset, err = ParseCursorNumber(text, "offset", offset); err != nil {
			return Cursor{}, err
		}
	}
	return c, nil
}

// maxParts bounds the n of <seq>.<n>, far above the events of any record.
const maxParts = 1 << 20

// ParseCursorNumber parses the digits of one part of a cursor. Its error is a [*CursorError].
func ParseCursorNumber(text, name, digits string) (int64, error) {
	if digits == "" {
		return 0, &CursorError{text, name + " is missing"}
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, &CursorError{text, name + " is not a number"}
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, &CursorError{text, name + " is too large"}
	}
	return n, nil
}
