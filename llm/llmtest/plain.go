package llmtest

import (
	"io"
	"net/http"
)

// plainWire is a request, in the protocol of a provider, whose response is one JSON object.
type plainWire interface {
	// problem returns the reason why the provider rejects the request, or "".
	problem() string
	failure(f Fault) object

	// reply returns the body of the response.
	reply(f Fault) object
}

// plain returns the handler of a protocol. Each of checks may deny a request.
func (s *Server) plain(protocol func(*http.Request) plainWire, checks ...func(*http.Request) *Fault) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		c := s.begin(r, body)
		c.w, c.r = w, r
		wire := protocol(r)
		unread := strictly(body, wire)
		problem := wire.problem()
		if unread != nil {
			problem = unread.Error()
		}
		if problem != "" && c.fault.kind != answer {
			c.fault = invalid(problem)
		}
		for _, check := range append(checks, s.denied) {
			if fault := check(r); fault != nil {
				c.fault = *fault
			}
		}
		switch c.fault.kind {
		case answer:
			for name, values := range c.fault.header {
				w.Header()[name] = values
			}
			c.writeJSON(c.fault.status, wire.failure(c.fault))
			return
		case drop:
			panic(http.ErrAbortHandler)
		case hang:
			select {
			case <-r.Context().Done():
			case <-s.closed:
			}
			return
		case malformed:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"data": [`)) // the client may be gone
			return
		case none, dimensions, order: // of the reply
		case endEarly, streamError, flood, endless: // faults of streams
		}
		c.writeJSON(http.StatusOK, wire.reply(c.fault))
	}
}
