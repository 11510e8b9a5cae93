package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/llm/internal/driver"
)

// replyBody is the body of a reply, as the server sent it. It is part of the request's context.
type replyBody struct {
	exchange *driver.Exchange
	stream   bool
	whole    []byte // of a reply that is not streamed
	done     bool   // the stream ended with [DONE]
}

type bodyKey struct{}

// body passes only well-formed streams to the SDK.
func body(x *driver.Exchange, media string, resp *http.Response) error {
	b, ok := resp.Request.Context().Value(bodyKey{}).(*replyBody)
	switch {
	case !ok:
		return nil
	case !b.stream:
		return b.readWhole(resp)
	case media == "application/json":
		begin := bufio.NewReader(resp.Body)
		if start, err := begin.Peek(1); err == nil && start[0] != 'd' && start[0] != 'e' && start[0] != ':' {
			resp.Body = &buffered{begin, resp.Body}
			return b.asStream(resp)
		}
		resp.Body = &buffered{begin, resp.Body} // an event stream that is labelled as JSON
	}
	watched := x.Watch(resp.Body, driver.Lines)
	resp.Body = &eventBody{reply: b, body: watched, lines: bufio.NewReader(watched)}
	return nil
}

// buffered is a body of which a part was read.
type buffered struct {
	*bufio.Reader
	io.Closer
}

// readWhole stores the body and replaces it by an empty object, since the SDK would lose fields
// that it does not know.
func (b *replyBody) readWhole(resp *http.Response) error {
	whole, err := b.exchange.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body.Close()
	b.whole = whole
	resp.Body = io.NopCloser(strings.NewReader("{}"))
	return nil
}

// asStream converts the body to a stream of one chunk, for servers that do not stream.
func (b *replyBody) asStream(resp *http.Response) error {
	whole, err := b.exchange.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	line.WriteString("data:")
	if err := json.Compact(&line, whole); err != nil {
		return &driver.Unreadable{Err: err}
	}
	line.WriteString("\ndata:[DONE]")
	resp.Body = &eventBody{reply: b, body: resp.Body, lines: bufio.NewReader(&line)}
	return nil
}

// eventBody returns the data lines of an event stream, each followed by a newline.
type eventBody struct {
	reply *replyBody
	body  io.Closer
	lines *bufio.Reader
	out   []byte

	// failed says that the data of the event is an error.
	failed bool
}

func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

func (b *eventBody) next() error {
	line, err := b.lines.ReadBytes('\n')
	if name, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("event:")); ok {
		b.failed = string(bytes.TrimSpace(name)) == "error"
	}
	if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); ok {
		b.pass(bytes.TrimSpace(data))
	}
	if err != nil && len(b.out) == 0 {
		return err
	}
	return nil
}

func (b *eventBody) pass(data []byte) {
	if len(data) == 0 {
		return
	}
	if string(data) == "[DONE]" {
		b.reply.done = true
	}
	if b.failed {
		b.failed, data = false, errorOf(data)
	}
	b.out = append(b.out[:0], "data: "...)
	if bytes.HasPrefix(data, []byte(`{"error":`)) {
		// The SDK treats such a line as an error, and discards it if it cannot parse it.
		b.out = append(b.out, "{ "...)
		data = data[1:]
	}
	b.out = append(append(b.out, data...), '\n')
}

// errorOf returns the data of an event "error" as a chunk with an error.
func errorOf(data []byte) []byte {
	var in struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &in) == nil && readError(in.Error) != nil {
		return data
	}
	if !json.Valid(data) {
		data, _ = json.Marshal(string(data)) // strings can always be marshalled
	}
	return slices.Concat([]byte(`{"error":`), data, []byte("}"))
}

func (b *eventBody) Close() error {
	if b.reply.done {
		b.reply.exchange.Drain(b.lines)
	}
	return b.body.Close()
}
