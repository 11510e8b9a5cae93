package llmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/script"
)

type object = map[string]any

// call is one call of the server.
type call struct {
	*Server
	number int
	fault  Fault
	gate   *Gate

	w       http.ResponseWriter
	r       *http.Request
	wire    wire
	written int // chunks of text and reasoning
}

// wire is a request in the protocol of a provider, and the protocol of its response.
type wire interface {
	// problem returns the reason why the provider rejects the request, or "".
	problem() string

	// request returns the conversation of a request.
	request() llm.Request

	// streams reports whether the request asks for a stream.
	streams() bool

	// eventName returns the name of the events with pieces of text, if events have names.
	eventName() string

	// failure returns the body of an error.
	failure(f Fault) object

	// broken returns the body of a success without a reply, for requests that are not streamed.
	broken() object

	// whole returns the body of a reply that is not streamed.
	whole(c *call, reply script.Reply) object

	// begin, piece and end write the parts of a stream. fail ends it with an error.
	begin(c *call, reply script.Reply)
	piece(c *call, p script.Piece)
	end(c *call, reply script.Reply)
	fail(c *call)
}

// gone is the panic that ends a call whose client or server is gone, or that a fault ended.
type gone struct{}

// serve answers a request that was read into c.wire. unread is the problem with its fields, or nil.
func (c *call) serve(w http.ResponseWriter, r *http.Request, unread error) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(gone); !ok {
				panic(v)
			}
		}
	}()
	c.w, c.r = w, r
	if c.fault.gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		out := compressed(w)
		defer out.Close()
		c.w = out
	}
	shown := c.named(c.wire.request())
	if shown.Model == "" {
		c.fault = invalid(fmt.Sprintf("the body is not a request with a model: %v", unread))
	} else {
		c.read(c.number, shown)
		c.check(c.number, shown.Messages)
		problem := c.wire.problem()
		if unread != nil {
			problem = unread.Error()
		}
		if problem != "" && c.fault.kind != answer {
			c.fault = invalid(problem)
		}
	}
	if c.fault.kind == answer {
		c.refuse()
		return
	}
	reply := script.Run(c.scripted(shown), true)
	for i := range reply.Calls { // unique even if two agents send the same request
		reply.Calls[i].ID += fmt.Sprintf("_%d", c.number)
	}
	if q, ok := c.wire.(*chatRequest); ok {
		q.answers(&reply)
	}
	if c.streaming() {
		c.stream(reply)
		return
	}
	c.whole(reply)
}

func (c *call) streaming() bool { return c.wire.streams() && !c.config.NoStream }

// named returns the request with the names of [Config].People apart from their words.
func (c *call) named(req llm.Request) llm.Request {
	for i, m := range req.Messages {
		name, words, found := strings.Cut(m.Content, ": ")
		if found && m.Role == event.RoleUser && m.Name == "" && slices.Contains(c.config.People, name) {
			req.Messages[i].Name, req.Messages[i].Content = name, words
		}
	}
	return req
}

// scripted returns the request with [Config].Script applied to the last user message.
func (c *call) scripted(req llm.Request) llm.Request {
	if c.config.Script == nil {
		return req
	}
	todo := c.config.Script(req)
	req.Messages = slices.Clone(req.Messages) // Requests returns them as they were sent
	for i := len(req.Messages) - 1; i >= 0 && todo != ""; i-- {
		if req.Messages[i].Role == event.RoleUser {
			req.Messages[i].Content = todo
			break
		}
	}
	return req
}

func (c *call) refuse() {
	for name, values := range c.fault.header {
		c.w.Header()[name] = values
	}
	c.writeJSON(c.fault.status, c.wire.failure(c.fault))
}

func (c *call) writeJSON(status int, body any) {
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_ = json.NewEncoder(c.w).Encode(body) // the client may be gone
}

// pass waits at the gate and applies the fault, if the call has written enough chunks.
func (c *call) pass() {
	if g := c.gate; g != nil && c.written >= g.after {
		c.gate = nil
		close(g.reached)
		c.wait(g.open)
	}
	if c.fault.kind != none && c.written >= c.fault.after {
		c.fail()
	}
}

func (c *call) wait(ready <-chan struct{}) {
	select {
	case <-ready:
	case <-c.r.Context().Done():
		panic(gone{})
	case <-c.closed:
		panic(http.ErrAbortHandler)
	}
}

func (c *call) fail() {
	whole := !c.streaming()
	switch c.fault.kind {
	case drop:
		panic(http.ErrAbortHandler)
	case hang:
		c.wait(nil)
	case endEarly:
		if whole {
			c.writeJSON(http.StatusOK, c.wire.broken())
		}
	case malformed:
		if whole {
			_, _ = c.w.Write([]byte(`{"choices": [`))
		} else {
			c.event(c.wire.eventName(), `{"choices": [`)
		}
	case streamError:
		if whole {
			c.writeJSON(http.StatusOK, c.wire.failure(c.fault))
		} else {
			c.wire.fail(c)
		}
	case flood:
		c.flood(whole)
	case endless:
		c.endless()
	case none, answer, dimensions, order:
		return
	}
	panic(gone{})
}

// flood writes the text of the fault.
func (c *call) flood(whole bool) {
	if whole {
		piece := script.Piece{Text: strings.Repeat(c.fault.piece, c.fault.times)}
		c.writeJSON(http.StatusOK, c.wire.whole(c, script.Reply{Pieces: []script.Piece{piece}}))
		return
	}
	for range c.fault.times {
		c.wire.piece(c, script.Piece{Text: c.fault.piece})
	}
}

// endless writes the beginning of a chunk.
func (c *call) endless() {
	begin := `data: {"`
	if _, ok := c.wire.(framed); ok {
		begin = string(prelude(c.fault.times<<10, 0))
	}
	c.write(begin)
	kib := strings.Repeat("x", 1<<10)
	for range c.fault.times {
		c.write(kib)
	}
}

func (c *call) write(text string) {
	if _, err := io.WriteString(c.w, text); err != nil {
		panic(gone{})
	}
}

// event writes one event of a stream. Protocols with named events read the name.
func (c *call) event(name, data string) {
	if _, ok := c.wire.(framed); ok {
		c.write(string(frame(name, data)))
	} else {
		if name != "" {
			name = "event: " + name + "\n"
		}
		c.write(name + "data: " + data + "\n\n")
	}
	if err := http.NewResponseController(c.w).Flush(); err != nil {
		panic(gone{})
	}
}

func (c *call) json(name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	c.event(name, string(data))
}

func (c *call) stream(reply script.Reply) {
	media := "text/event-stream"
	if _, ok := c.wire.(framed); ok {
		media = "application/vnd.amazon.eventstream"
	}
	c.w.Header().Set("Content-Type", media)
	c.wire.begin(c, reply)
	for _, p := range reply.Pieces {
		c.pass()
		c.pause(p.Wait + c.config.Delay)
		c.record(Chunk{Call: c.number, Text: p.Text, Thought: p.Thought, At: time.Now()})
		c.wire.piece(c, p)
		c.written++
	}
	c.pass()
	c.wire.end(c, reply)
}

func (c *call) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	ready := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(ready) })
	defer timer.Stop()
	c.wait(ready)
}

func (c *call) whole(reply script.Reply) {
	c.pass()
	for _, p := range reply.Pieces {
		c.pause(p.Wait)
	}
	c.written = len(reply.Pieces)
	c.pass()
	c.writeJSON(http.StatusOK, c.wire.whole(c, reply))
}

// joinedPieces returns the text and the reasoning of a reply.
func joinedPieces(reply script.Reply) (text, thought string) {
	for _, p := range reply.Pieces {
		text += p.Text
		thought += p.Thought
	}
	return text, thought
}

// halves splits arguments as a stream does, not within a rune.
func halves(s string) (string, string) {
	half := len(s) / 2
	for half > 0 && s[half]&0xC0 == 0x80 {
		half--
	}
	return s[:half], s[half:]
}
