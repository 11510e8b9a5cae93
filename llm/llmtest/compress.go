package llmtest

import (
	"compress/gzip"
	"net/http"
)

// compressing is a response that is compressed.
type compressing struct {
	http.ResponseWriter
	gzip *gzip.Writer
}

func compressed(w http.ResponseWriter) *compressing {
	w.Header().Set("Content-Encoding", "gzip")
	return &compressing{w, gzip.NewWriter(w)}
}

func (c *compressing) Write(p []byte) (int, error) { return c.gzip.Write(p) }

// FlushError implements the flushing of [http.ResponseController].
func (c *compressing) FlushError() error {
	if err := c.gzip.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Close writes the end of the response, unless the client is gone.
func (c *compressing) Close() { _ = c.gzip.Close() }
