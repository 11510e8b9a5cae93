package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/threadmill/threadmill/llm"
)

// Config configures a [Server]. The zero value is a provider that follows the protocol.
type Config struct {
	// Addr is the address to listen on. Default: a free port of 127.0.0.1.
	Addr string

	// APIKey is the required API key; requests with another one get 401. Default: any key.
	APIKey string

	// Delay is the delay before each chunk. Default: none.
	Delay time.Duration

	// ReasoningField is the name of the field with the model's reasoning. Default
	// reasoning_content.
	ReasoningField string

	// Dialect is how the server speaks Chat Completions. Default: as OpenAI.
	Dialect Dialect

	// Sloppy streams tool calls without index and id, and with the name in each piece, as some
	// servers do.
	Sloppy bool

	// NoStream returns a complete reply even if the request asks for a stream.
	NoStream bool

	// Script returns the script for a request, which replaces the last user message; it may depend
	// on the whole request. "" keeps the message. Default: always the message.
	Script func(llm.Request) string

	// Relevance returns how well a document fits a query, for reranking. Default: the similarity of their words.
	Relevance func(query, document string) float64

	// People are the names that may stand before the words of a message where a protocol has no field
	// for names: "ann: hello". [Request].Conversation and the script have the name apart. Default:
	// such words are left as they are.
	People []string

	// T is a test that fails when a request contains a transcript that a provider would reject, see
	// [ValidateTranscript]. The end of the test closes the server. Default: violations are only
	// recorded, see [Server.Violations].
	T testing.TB
}

// Server is an HTTP server with the protocols of all providers. See [NewServer].
type Server struct {
	// URL is the base URL for clients of OpenAI, with the version: http://127.0.0.1:1234/v1.
	URL string

	// Root is the base URL for clients of Anthropic, Google and the clouds, which add the version.
	Root string

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
	thoughts   map[string]string // by the first call that came with them
}

// Request is a request that the server has received.
type Request struct {
	// URL is the path with the query, as it was sent.
	URL    string
	Header http.Header
	Body   json.RawMessage
	At     time.Time

	// Conversation is what the request shows the model, whatever its protocol: the messages and the
	// tools, with what is wanted of the reply. It is empty if the server cannot read the request.
	Conversation llm.Request
}

// Chunk is a piece of text or reasoning that the server has streamed.
type Chunk struct {
	// Call is the number of the call, from 1.
	Call int

	// Text or Thought is set. Text contains the markup that the model wrote, if any.
	Text    string
	Thought string

	// At is the time directly before the chunk was written, with a monotonic clock reading.
	At time.Time
}

// NewServer starts a server. It panics if it cannot listen.
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
	s := &Server{config: config, closed: make(chan struct{}), Root: "http://" + l.Addr().String()}
	s.URL = s.Root + "/v1"
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.serve(s.newChatRequest))
	mux.HandleFunc("POST /v1/responses", s.serve(newResponsesRequest))
	mux.HandleFunc("POST /v1/messages", s.serve(newMessagesRequest))
	mux.HandleFunc("POST /v1/embeddings", s.plain(newEmbedRequest))
	mux.HandleFunc("POST /v1/rerank", s.plain(s.newRerankRequest))
	mux.HandleFunc("POST /v1beta/models/{method}", s.models())
	s.clouds(mux)
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

// Close stops the server and closes all connections. It may be called twice.
func (s *Server) Close() {
	s.close.Do(func() {
		s.mu.Lock()
		s.done = true // a remaining call must not fail a test that has ended
		s.mu.Unlock()
		close(s.closed)
		_ = s.http.Close() // there is nothing left to save
	})
}

// Calls returns the number of calls so far, including failed ones.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// Requests returns the requests so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Chunks returns the chunks that were streamed so far, in order.
func (s *Server) Chunks() []Chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.chunks)
}

// Violations returns the violations in the transcripts so far, in order of arrival: see
// [ValidateTranscript].
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// read records what a call shows the model, unless [Server.Reset] has removed the call.
func (s *Server) read(number int, shown llm.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := number - 1; i < len(s.requests) {
		s.requests[i].Conversation = shown
	}
}

// check validates the transcript of a call by the rules of all providers.
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

// Reset removes all requests, violations and chunks, and the faults and gates that no call has
// used.
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

// Block stops the next call without a gate after n chunks of text or reasoning, or before a reply
// that is not streamed, until the gate is released.
func (s *Server) Block(n int) *Gate {
	g := &Gate{after: n, reached: make(chan struct{}), open: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates = append(s.gates, g)
	return g
}

// Gate pauses a reply. See [Server.Block].
type Gate struct {
	after         int
	reached, open chan struct{}
	once          sync.Once
}

// Reached returns a channel that is closed when the reply reaches the gate. The chunks before it
// were written, but may not have arrived.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Release continues the reply. It may be called early, and more than once.
func (g *Gate) Release() { g.once.Do(func() { close(g.open) }) }

// serve returns the handler of a protocol. Each of checks may deny a request.
func (s *Server) serve(protocol func(*http.Request) wire, checks ...func(*http.Request) *Fault) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		c := s.begin(r, body)
		c.wire = protocol(r)
		unread := strictly(body, c.wire)
		if unread != nil {
			c.wire = protocol(r)
			_ = json.Unmarshal(body, c.wire) // unread says why not
		}
		for _, check := range append(checks, s.denied) {
			if fault := check(r); fault != nil {
				c.fault = *fault
			}
		}
		c.serve(w, r, unread)
	}
}

// denied returns the fault of a request with a wrong key, or nil.
func (s *Server) denied(r *http.Request) *Fault {
	if s.config.APIKey == "" || account(r) == s.config.APIKey {
		return nil
	}
	return &Fault{kind: answer, status: http.StatusUnauthorized, code: "invalid_api_key", message: "Incorrect API key provided"}
}

// account returns the API key of a request, or who has signed it.
func account(r *http.Request) string {
	for _, header := range []string{"X-Api-Key", "X-Goog-Api-Key", "Api-Key"} {
		if key := r.Header.Get(header); key != "" {
			return key
		}
	}
	if signed := signature.FindStringSubmatch(r.Header.Get("Authorization")); signed != nil {
		return signed[1]
	}
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// begin records a call, and assigns its fault and its gate.
func (s *Server) begin(r *http.Request, body []byte) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{URL: r.RequestURI, Header: r.Header.Clone(), Body: body, At: time.Now()})
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
