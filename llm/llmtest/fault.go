package llmtest

import "net/http"

// Fault is a failure of a call. The zero value is no fault: in a queue of faults, it lets one call
// succeed.
type Fault struct {
	kind    faultKind
	after   int
	status  int
	code    string
	message string
	header  http.Header
	piece   string
	times   int
	gzip    bool
	indexes []int
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
	flood
	endless
	dimensions
	order
)

// Status responds with an HTTP status and an error in OpenAI's format. If retryAfter is not empty,
// it becomes the header Retry-After.
func Status(status int, retryAfter string) Fault {
	f := Fault{kind: answer, status: status, message: http.StatusText(status)}
	if retryAfter != "" {
		f = f.WithHeader("Retry-After", retryAfter)
	}
	return f
}

// Drop closes the connection after n chunks of text or reasoning.
func Drop(n int) Fault { return Fault{kind: drop, after: n} }

// EndEarly ends the stream normally after n chunks, without a finish reason and [DONE]. A reply
// that is not streamed has no choices.
func EndEarly(n int) Fault { return Fault{kind: endEarly, after: n} }

// Hang writes n chunks, then nothing until the client disconnects or the server closes.
func Hang(n int) Fault { return Fault{kind: hang, after: n} }

// Malformed writes n chunks, then one that is not valid JSON.
func Malformed(n int) Fault { return Fault{kind: malformed, after: n} }

// StreamError writes n chunks, then an error with this code and message.
func StreamError(n int, code, message string) Fault {
	return Fault{kind: streamError, after: n, code: code, message: message}
}

// Flood writes n chunks of the reply, then a text many times, one chunk each. A reply that is not
// streamed has them in its one text.
func Flood(n int, text string, times int) Fault {
	return Fault{kind: flood, after: n, piece: text, times: times}
}

// Endless writes n chunks, then one that does not end before times KiB.
func Endless(n, times int) Fault { return Fault{kind: endless, after: n, times: times} }

// Redirect responds with a redirect to another address.
func Redirect(status int, location string) Fault {
	return Status(status, "").WithHeader("Location", location)
}

// Compressed compresses the response, if the client accepts that.
func (f Fault) Compressed() Fault {
	f.gzip = true
	return f
}

// WithHeader adds a header to the response of [Status].
func (f Fault) WithHeader(name, value string) Fault {
	f.header = f.header.Clone()
	if f.header == nil {
		f.header = http.Header{}
	}
	f.header.Set(name, value)
	return f
}

// WithError sets the code and the message of the response of [Status].
func (f Fault) WithError(code, message string) Fault {
	f.code, f.message = code, message
	return f
}
