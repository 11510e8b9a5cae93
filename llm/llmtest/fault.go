package llmtest

import "net/http"

// Fault is a way in which a call goes wrong. The zero value is none: it lets a call
// pass in a queue of faults.
type Fault struct {
	kind    faultKind
	after   int
	status  int
	code    string
	message string
	header  http.Header
}

type faultKind int

const (
	none faultKind = iota
	answer
	drop
	endEarly
	hang
	malformed
	streamError
)

// Status answers with an HTTP status and an error in OpenAI's form. retryAfter is
// sent as the header of this name unless it is empty.
func Status(status int, retryAfter string) Fault {
	f := Fault{kind: answer, status: status, message: http.StatusText(status)}
	if retryAfter != "" {
		f = f.WithHeader("Retry-After", retryAfter)
	}
	return f
}

// Drop breaks the connection after n chunks of text or reasoning.
func Drop(n int) Fault { return Fault{kind: drop, after: n} }

// EndEarly ends the stream in good order after n chunks, without a finish reason
// and without [DONE]. A reply that is not streamed comes without a choice.
func EndEarly(n int) Fault { return Fault{kind: endEarly, after: n} }

// Hang writes n chunks and then nothing, until the client or the server goes away.
func Hang(n int) Fault { return Fault{kind: hang, after: n} }

// Malformed writes n chunks and then one that is not JSON.
func Malformed(n int) Fault { return Fault{kind: malformed, after: n} }

// StreamError writes n chunks and then an error object, with this code and message.
func StreamError(n int, code, message string) Fault {
	return Fault{kind: streamError, after: n, code: code, message: message}
}

// WithHeader adds a header to the answer of [Status].
func (f Fault) WithHeader(name, value string) Fault {
	f.header = f.header.Clone()
	if f.header == nil {
		f.header = http.Header{}
	}
	f.header.Set(name, value)
	return f
}

// WithError sets code and message of the answer of [Status].
func (f Fault) WithError(code, message string) Fault {
	f.code, f.message = code, message
	return f
}
