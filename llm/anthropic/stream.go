package anthropic

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
)

// events is the body of a stream. It names the events to which the server gives no name, since the SDK skips those:
// their type is in their data. It makes one event of a body that is not a stream.
type events struct {
	body  io.Closer
	lines *bufio.Reader
	out   []byte

	// data is that of the event so far. named means that it has a name, and object that the body is a JSON object.
	data          []byte
	named, object bool
}

func (e *events) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		line, err := e.lines.ReadBytes('\n')
		e.line(bytes.TrimRight(line, "\r\n"), err != nil)
		if err != nil && len(e.out) == 0 {
			return 0, err
		}
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// line passes a line on. last means that no other follows, so what is complete ends here.
func (e *events) line(line []byte, last bool) {
	e.out = e.out[:0]
	e.object = e.object || len(e.data) == 0 && bytes.HasPrefix(bytes.TrimSpace(line), []byte("{"))
	if e.object && len(line) > 0 {
		line = append([]byte("data:"), line...)
	}
	if len(line) > 0 {
		e.out = append(append(e.out, line...), '\n')
	}
	if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		e.data = append(append(e.data, data...), '\n')
	}
	e.named = e.named || bytes.HasPrefix(line, []byte("event:"))
	if ends := len(line) == 0 && !last && !e.object || last && json.Valid(e.data); !ends {
		return
	}
	if !e.named && bytes.HasPrefix(bytes.TrimSpace(e.data), []byte("{")) { // others, such as [DONE], are no events
		e.out = append(e.out, "event:message\n"...)
	}
	e.out = append(e.out, '\n')
	e.data, e.named = e.data[:0], false
}

func (e *events) Close() error { return e.body.Close() }
