package api

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"strconv"
	"time"
)

// maxEvent is the maximum size of an event in the stream, in bytes.
const maxEvent = 16 << 20

var errTooLarge = errors.New("an event of the stream is too large")

// frame is one event of a server-sent stream.
type frame struct {
	id    string
	hasID bool
	data  []byte
	retry time.Duration
}

// frameReader splits a stream into frames.
type frameReader struct {
	lines *bufio.Scanner
	alive func() // called for every line, comments included
}

// next returns the next frame with data, an id or a retry. An incomplete event at the end is
// dropped.
func (f *frameReader) next() (frame, error) {
	var out frame
	var data [][]byte
	size := 0
	for f.lines.Scan() {
		line := f.lines.Bytes()
		f.alive()
		if size += len(line); size > maxEvent {
			return frame{}, errTooLarge
		}
		if len(line) == 0 {
			if data == nil && !out.hasID && out.retry == 0 {
				continue
			}
			out.data = bytes.Join(data, []byte("\n"))
			return out, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			data = append(data, bytes.Clone(value))
		case "id":
			out.id, out.hasID = string(value), true
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil && ms > 0 {
				out.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if errors.Is(f.lines.Err(), bufio.ErrTooLong) {
		return frame{}, errTooLarge
	}
	return frame{}, cmp.Or(f.lines.Err(), io.ErrUnexpectedEOF)
}
