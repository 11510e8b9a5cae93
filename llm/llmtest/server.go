package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/threadmill/threadmill/llm"
)

// Config of a stand-in. The zero value is a provider that follows the protocol.
type Config struct {
	// Addr to listen on. Default: a free port of 127.0.0.1.
	Addr string

	// APIKey that requests must carry; others are answered 401. Default: any.
	APIKey string

	// Delay before each chunk. Default: none.
	Delay time.Duration

	// ReasoningField is the name of the field with the model's reasoning.
	// Default: reasoning_content.
	ReasoningField string

	// Sloppy streams tool calls as some servers do: without index and id, and with
	// the name in each piece.
	Sloppy bool

	// NoStream answers with a whole reply also where a stream was asked for.
	NoStream bool

	// Script says what the model does in place of what the last user message says, in
	// the same language: a model that looks at all that it is shown. "" leaves it at the
	// message. Default: always the message.
	Script func(llm.Request) string

	// T fails when a transcript comes in that a provider would refuse, see
	// [ValidateTranscript], and closes the server when it ends. Default: what would be
	// refused is only kept, see [Server.Violations].
	T testing.TB
}

// Server is a running stand-in.
type Server struct {
	// URL is the base URL for clients, with the version: http://127.0.0.1:1234/v1.
	URL string

	config Config
	http   *http.Server
	closed chan struct{}
	close  sync.Once

	mu         sync.Mutex
	done       bool
	requests   []Request
	violations []string
	chunks     []Chunk
	faults     []Fault
	gates      []*Gate
}

// Request is a call that a stand-in has received.
type Request struct {
	Header http.Header
	Body   json.RawMessage
	At     time.Time
}

// Chunk is a piece of text or reasoning that a stand-in has streamed.
type Chunk struct {
	// Call counts the server's calls from 1.
	Call int

	// Text or Thought, as streamed, with markup if the model wrote any.
	Text    string
	Thought string

	// At is when it was about to be written, by the monotonic clock of the process.
	At time.Time
}

// NewServer starts a stand-in. It panics if it cannot listen.
func NewServer(config Config) *Server {
	if config.Addr == "" {
		config.Addr = "127.0.0.1:0"
	}
	if config.ReasoningField == "" {
		config.ReasoningField = "reasoning_content"
	}
	l, err := net.Listen("tcp", config.Addr)
	if err != nil {
		panic(fmt.Sprintf("llmtest: cannot listen on %s: %v", config.Addr, err))
	}
	s := &Server{config: config, closed: make(chan struct{}), URL: "http://" + l.Addr().String() + "/v1"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.complete)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			panic("llmtest: " + err.Error())
		}
	}()
	if config.T != nil {
		config.T.Cleanup(s.Close)
	}
	return s
}

// Close stops the server and breaks all its connections. It may be called twice.
func (s *Server) Close() {
	s.close.Do(func() {
		s.mu.Lock()
		s.done = true // whatever is still under way must not fail a test that has ended
		s.mu.Unlock()
		close(s.closed)
		_ = s.http.Close() // of the listener; there is nothing left to save
	})
}

// Calls is the number of calls so far, failed ones included.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// Requests returns the calls so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Chunks returns what was streamed so far, in order of writing.
func (s *Server) Chunks() []Chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.chunks)
}

// Violations says what providers would have refused of the transcripts so far, in order of
// arrival: see [ValidateTranscript]. Nothing, if all of them would do.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// check applies the rules of all providers to what one of them was asked.
func (s *Server) check(number int, messages []llm.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, problem := range ValidateTranscript(messages) {
		text := fmt.Sprintf("call %d: %v", number, problem)
		s.violations = append(s.violations, text)
		if s.config.T != nil && !s.done {
			s.config.T.Errorf("llmtest: %s\n%+v", text, messages)
		}
	}
}

// Reset forgets requests, violations and chunks, and faults and gates that have met no call.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.violations, s.chunks, s.faults, s.gates = nil, nil, nil, nil, nil
}

// Fail queues faults for the next calls, one each.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Block makes the next call without a gate stop after n chunks of text or reasoning
// (in a reply that is not streamed: before it) until the gate is released.
func (s *Server) Block(n int) *Gate {
	g := &Gate{after: n, reached: make(chan struct{}), open: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates = append(s.gates, g)
	return g
}

// Gate stops a reply. See [Server.Block].
type Gate struct {
	after         int
	reached, open chan struct{}
	once          sync.Once
}

// Reached is closed when the reply has come to the gate. The chunks before it have
// been written, but need not have arrived.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Release lets the reply go on. It may be called early, and twice.
func (g *Gate) Release() { g.once.Do(func() { close(g.open) }) }

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c := s.begin(r, body)
	if s.config.APIKey != "" && r.Header.Get("Authorization") != "Bearer "+s.config.APIKey {
		c.fault = Fault{kind: answer, status: http.StatusUnauthorized, code: "invalid_api_key", message: "Incorrect API key provided"}
	}
	c.serve(w, r, body)
}

// begin records a call and gives it its fault and its gate.
func (s *Server) begin(r *http.Request, body []byte) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{Header: r.Header.Clone(), Body: body, At: time.Now()})
	c := &call{Server: s, number: len(s.requests)}
	if len(s.faults) > 0 {
		c.fault, s.faults = s.faults[0], s.faults[1:]
	}
	if len(s.gates) > 0 {
		c.gate, s.gates = s.gates[0], s.gates[1:]
	}
	return c
}

func (s *Server) record(c Chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunks = append(s.chunks, c)
}
