package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// maxMessage is the maximum size of one message of a server.
	maxMessage = 10 << 20

	// The rate at which messages are read. What is faster waits in the pipe or on the network.
	messageRate, messageBurst = 1000, 5000
	byteRate, byteBurst       = 8 << 20, 64 << 20
)

var errTooLarge = fmt.Errorf("the server sent a message of more than %d MiB", maxMessage>>20)

// meter slows a stream down that floods.
type meter struct {
	now           func() time.Time
	sleep         func(time.Duration)
	last          time.Time
	lines, bytes  float64
	lineRate      float64
	byteRate      float64
	lineCapacity  float64
	bytesCapacity float64
}

func newMeter(lineRate, lineBurst, byteRate, byteBurst float64) *meter {
	return &meter{
		now: time.Now, sleep: time.Sleep, lines: lineBurst, bytes: byteBurst,
		lineRate: lineRate, lineCapacity: lineBurst, byteRate: byteRate, bytesCapacity: byteBurst,
	}
}

// take waits until the stream may continue after these bytes and lines.
func (m *meter) take(bytes, lines int) {
	now := m.now()
	if !m.last.IsZero() {
		passed := now.Sub(m.last).Seconds()
		m.lines = min(m.lines+passed*m.lineRate, m.lineCapacity)
		m.bytes = min(m.bytes+passed*m.byteRate, m.bytesCapacity)
	}
	m.last = now
	m.lines -= float64(lines)
	m.bytes -= float64(bytes)
	if wait := max(-m.lines/m.lineRate, -m.bytes/m.byteRate); wait > 0 {
		m.sleep(time.Duration(wait * float64(time.Second)))
	}
}

// messages reads the messages of a program from its stdout, one a line. Programs also print other
// things there; other receives those lines. Only one goroutine may read.
type messages struct {
	in    *bufio.Reader
	meter *meter
	other func(line []byte)
	rest  []byte
	err   error
	cause atomic.Pointer[error]
}

func newMessages(in io.Reader, other func([]byte)) *messages {
	return &messages{in: bufio.NewReaderSize(in, 64<<10), meter: newMeter(messageRate, messageBurst, byteRate, byteBurst), other: other}
}

func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.rest, m.err = m.line()
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// line returns the next message, or nothing for a line that is none.
func (m *messages) line() ([]byte, error) {
	line, err := readLine(m.in, func(n int) { m.meter.take(n, 0) })
	if errors.Is(err, errTooLarge) {
		m.cause.Store(&errTooLarge)
		return nil, err
	}
	m.meter.take(0, 1)
	text := bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark))
	if isMessage(text) {
		return append(exact(text), '\n'), err
	}
	if len(text) > 0 {
		m.other(text)
	}
	return nil, err
}

// byteOrderMark is what some programs write before their first line.
var byteOrderMark = []byte("\uFEFF")

// readLine reads a line of at most maxMessage bytes, with its end. took gets the size of each part of it.
func readLine(in *bufio.Reader, took func(bytes int)) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			return nil, errTooLarge
		}
		took(len(part))
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// isMessage reports whether a line is a JSON-RPC message, or a batch of them. Programs also log in JSON,
// which the SDK would take for the end of the connection.
func isMessage(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("[")) {
		return versioned(line)
	}
	var batch []json.RawMessage
	return json.Unmarshal(line, &batch) == nil && len(batch) > 0 &&
		!slices.ContainsFunc(batch, func(one json.RawMessage) bool { return !versioned(one) })
}

func versioned(message []byte) bool {
	var envelope struct {
		Version json.RawMessage `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  json.RawMessage `json:"method"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	return json.Unmarshal(message, &envelope) == nil && string(envelope.Version) == `"2.0"` &&
		!bytes.ContainsAny(envelope.ID[:min(1, len(envelope.ID))], "{[tf") &&
		len(envelope.Method)+len(envelope.Result)+len(envelope.Error) > 0
}

// broken returns the error because of which nothing more is read, unless the program ended.
func (m *messages) broken() error {
	if err := m.cause.Load(); err != nil {
		return *err
	}
	return nil
}

// body is the body of a response, slowed down and bounded.
type body struct {
	io.ReadCloser
	meter *meter

	// left is how much may follow; negative = any amount.
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		// There may be nothing more.
		if n, err := b.ReadCloser.Read(p[:min(1, len(p))]); n == 0 {
			return 0, err
		}
		return 0, errTooLarge
	}
	if b.left > 0 {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	b.meter.take(n, bytes.Count(p[:n], []byte{'\n'}))
	return n, err
}
