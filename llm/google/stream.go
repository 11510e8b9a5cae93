package google

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/threadmill/threadmill/llm/internal/driver"
)

// quiet is the body of a stream. It keeps the error that ended the stream from the SDK, which would
// print it, and the arguments of calls, whose integers the SDK rounds to a float64.
type quiet struct {
	*driver.Reader
	err error

	// event is the beginning of the next event, and arguments are those of the calls that the reply has not taken.
	event     []byte
	arguments []json.RawMessage
}

type quietKey struct{}

func body(x *driver.Exchange, _ string, resp *http.Response) error {
	if q, ok := resp.Request.Context().Value(quietKey{}).(*quiet); ok {
		q.Reader = x.Watch(resp.Body, driver.Events)
		resp.Body = q
		return nil
	}
	resp.Body = x.Watch(resp.Body, driver.Lines)
	return nil
}

func (q *quiet) Read(p []byte) (int, error) {
	n, err := q.Reader.Read(p)
	q.keep(p[:n], err != nil)
	if err != nil && !errors.Is(err, io.EOF) {
		q.err, err = err, io.EOF
	}
	return n, err
}

// keep keeps the arguments of the calls in the events that data completes.
func (q *quiet) keep(data []byte, last bool) {
	for line := range bytes.Lines(data) {
		begun := len(q.event) > 0 && q.event[len(q.event)-1] != '\n' // the line continues
		q.event = append(q.event, line...)
		if !begun && len(bytes.TrimRight(line, "\r\n")) == 0 {
			q.calls()
		}
	}
	if last {
		q.calls()
	}
}

// calls keeps the arguments of the calls in the event.
func (q *quiet) calls() {
	_, data, _ := bytes.Cut(q.event, []byte(":"))
	if bytes.Contains(data, []byte("functionCall")) {
		var in struct {
			Candidates []struct {
				Content struct {
					Parts []struct {
						FunctionCall *struct {
							Args json.RawMessage `json:"args"`
						} `json:"functionCall"`
					} `json:"parts"`
				} `json:"content"`
			} `json:"candidates"`
		}
		if json.Unmarshal(data, &in) == nil && len(in.Candidates) > 0 { // otherwise the SDK cannot read it either
			for _, p := range in.Candidates[0].Content.Parts {
				if p.FunctionCall != nil {
					q.arguments = append(q.arguments, p.FunctionCall.Args)
				}
			}
		}
	}
	q.event = q.event[:0]
}

// take returns the arguments of the next call, as the model wrote them.
func (q *quiet) take() (string, error) {
	if len(q.arguments) == 0 {
		return "", errForm
	}
	next := q.arguments[0]
	q.arguments = q.arguments[1:]
	if len(next) == 0 || string(next) == "null" {
		return "{}", nil
	}
	var out bytes.Buffer
	err := json.Compact(&out, next)
	return out.String(), err
}
