package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/threadmill/threadmill/signals"
)

// Erase erases a thread for good. If the receipt has no time at which the erasure finished, it goes on, and the same call waits for
// it.
func (c *Client) Erase(ctx context.Context, threadID, by string) (signals.Erasure, error) {
	in := map[string]string{"threadId": threadID, "by": by}
	return call[signals.Erasure](ctx, c, http.MethodPost, c.url(nil, "erasures"), in, "erasing thread %q", threadID)
}

// Erasures returns the receipts of all erasures.
func (c *Client) Erasures(ctx context.Context) ([]signals.Erasure, error) {
	out, err := call[struct {
		Erasures []signals.Erasure `json:"erasures"`
	}](ctx, c, http.MethodGet, c.url(nil, "erasures"), nil, "reading the receipts of erasures")
	return out.Erasures, err
}

// Erasure returns the receipt of the erasure of a thread.
func (c *Client) Erasure(ctx context.Context, threadID string) (signals.Erasure, error) {
	return call[signals.Erasure](ctx, c, http.MethodGet, c.url(nil, "erasures", threadID), nil, "reading the receipt of the erasure of thread %q", threadID)
}

// ErasePerson erases a person in all threads. If the receipt has no time at which the erasure finished, it goes on, and the same call
// waits for it.
func (c *Client) ErasePerson(ctx context.Context, person string, terms []string, by string) (signals.PersonErasure, error) {
	in := map[string]any{"person": person, "terms": terms, "by": by}
	return call[signals.PersonErasure](ctx, c, http.MethodPost, c.url(nil, "person-erasures"), in, "erasing a person")
}

// PersonErasures returns the receipts of all erased people.
func (c *Client) PersonErasures(ctx context.Context) ([]signals.PersonErasure, error) {
	out, err := call[struct {
		Erasures []signals.PersonErasure `json:"erasures"`
	}](ctx, c, http.MethodGet, c.url(nil, "person-erasures"), nil, "reading the receipts of erased people")
	return out.Erasures, err
}

// Export writes everything that belongs to a thread, as JSON lines.
func (c *Client) Export(ctx context.Context, threadID string, to io.Writer) error {
	return c.lines(ctx, http.MethodGet, c.url(nil, "threads", threadID, "export"), nil, to)
}

// ExportPerson writes what all threads have of a person, as JSON lines.
func (c *Client) ExportPerson(ctx context.Context, person string, terms []string, to io.Writer) error {
	raw, err := json.Marshal(map[string]any{"person": person, "terms": terms})
	if err != nil {
		return err
	}
	return c.lines(ctx, http.MethodPost, c.url(nil, "person-exports"), bytes.NewReader(raw), to)
}

func (c *Client) lines(ctx context.Context, method string, u *url.URL, body io.Reader, to io.Writer) error {
	header := http.Header{}
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	resp, err := c.send(ctx, method, u, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return problem(resp)
	}
	_, err = io.Copy(to, resp.Body)
	return err
}
