package google

import (
	"errors"
	"io"
	"net/http"

	"github.com/threadmill/threadmill/llm/internal/driver"
)

// quiet is the body of a stream. It keeps the error that ended the stream from the SDK, which would
// print it.
type quiet struct {
	*driver.Reader
	err error
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
	if err != nil && !errors.Is(err, io.EOF) {
		q.err, err = err, io.EOF
	}
	return n, err
}
