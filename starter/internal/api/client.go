package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// DefaultBase is the default URL of the API.
const DefaultBase = "http://127.0.0.1:8080"

// NamespaceHeader names the namespace of threads, if it is not the default one.
const NamespaceHeader = "Threadmill-Namespace"

const (
	pageSize       = 200
	maxBody        = 64 << 20
	messageTimeout = 30 * time.Second
)

// ErrUnreachable marks failures to get a response from the API.
var ErrUnreachable = errors.New("the API does not answer")

// StatusError is an error response of the API.
type StatusError struct {
	Code   int
	Detail string

	// Result is the outcome in the response, if it has one.
	Result string
}

func (e *StatusError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("the API answers %d %s", e.Code, http.StatusText(e.Code))
	}
	return fmt.Sprintf("the API answers %d: %s", e.Code, e.Detail)
}

// Config configures a [Client].
type Config struct {
	// Base is the API's URL. Default [DefaultBase].
	Base string

	// Namespace of the threads. Default "default".
	Namespace string

	// Key is the API key. Default: none.
	Key string

	// HTTP sends the requests. Default: a client without an overall timeout, because streams last.
	HTTP *http.Client

	// Idle is the time without data, heartbeats included, after which a stream is opened again.
	// Default 45 s.
	Idle time.Duration

	// MinDelay and MaxDelay bound the delay before a stream is opened again. Default 100 ms and 5
	// s.
	MinDelay, MaxDelay time.Duration
}

// Client reads threads from the HTTP API. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base *url.URL
}

// New returns a client. It does not connect.
func New(cfg Config) (*Client, error) {
	if cfg.Base == "" {
		cfg.Base = DefaultBase
	}
	if cfg.Namespace == "" {
		cfg.Namespace = signals.DefaultNamespace
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{}
	}
	if cfg.Idle == 0 {
		cfg.Idle = 45 * time.Second
	}
	if cfg.MinDelay == 0 {
		cfg.MinDelay = 100 * time.Millisecond
	}
	if cfg.MaxDelay == 0 {
		cfg.MaxDelay = 5 * time.Second
	}
	base, err := url.Parse(strings.TrimRight(cfg.Base, "/"))
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("API address %q must be a URL such as %s", cfg.Base, DefaultBase)
	}
	return &Client{cfg: cfg, base: base}, nil
}

// Base is the API's URL.
func (c *Client) Base() string { return c.base.String() }

// Messages returns all messages of a thread in order.
func (c *Client) Messages(ctx context.Context, threadID string) ([]event.StoredMessage, error) {
	all, err := pages(ctx, c, c.threadURL(threadID, "messages"), pageSize, func(p messagePage) ([]event.StoredMessage, string) {
		return p.Messages, p.Next
	})
	if err != nil {
		return nil, fmt.Errorf("reading the messages of thread %q: %w", threadID, err)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Seq < all[j].Seq })
	return all, nil
}

type messagePage struct {
	Messages []event.StoredMessage `json:"messages"`
	Next     string                `json:"next"`
}

// pages reads all pages of a list, within the timeout of one request.
func pages[P, E any](ctx context.Context, c *Client, u *url.URL, limit int, content func(P) (items []E, next string)) ([]E, error) {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	var all []E
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	for {
		var page P
		if err := c.exchange(ctx, http.MethodGet, u, query, nil, &page); err != nil {
			return nil, err
		}
		items, next := content(page)
		all = append(all, items...)
		if next == "" || next == query.Get("cursor") {
			return all, nil
		}
		query.Set("cursor", next)
	}
}

// threadURL returns the URL of a part of a thread.
func (c *Client) threadURL(threadID string, part ...string) *url.URL {
	path := []string{"v1", "threads", url.PathEscape(threadID)}
	return c.base.JoinPath(append(path, part...)...)
}

// exchange sends in as JSON, unless it is nil, and decodes the response into out, unless that is
// nil.
func (c *Client) exchange(ctx context.Context, method string, u *url.URL, query url.Values, in json.RawMessage, out any) error {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	var body io.Reader
	header := http.Header{}
	if in != nil {
		body = bytes.NewReader(in)
		header.Set("Content-Type", "application/json")
	}
	resp, err := c.send(ctx, method, u, query, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return problem(resp)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(out); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", c.base, err)
	}
	return nil
}

// send returns any response of the API.
func (c *Client) send(ctx context.Context, method string, u *url.URL, query url.Values, header http.Header, body io.Reader) (*http.Response, error) {
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if c.cfg.Namespace != signals.DefaultNamespace {
		req.Header.Set(NamespaceHeader, c.cfg.Namespace)
	}
	if c.cfg.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	resp, err := c.cfg.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return resp, nil
}

// problem reads an RFC 9457 problem document, if the response is one.
func problem(resp *http.Response) error {
	var doc struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
		Result string `json:"result"`
		Errors []struct {
			Message  string `json:"message"`
			Location string `json:"location"`
		} `json:"errors"`
	}
	out := &StatusError{Code: resp.StatusCode}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || json.Unmarshal(body, &doc) != nil {
		return out
	}
	out.Detail, out.Result = doc.Detail, doc.Result
	if out.Detail == "" {
		out.Detail = doc.Title
	}
	for _, e := range doc.Errors {
		out.Detail += fmt.Sprintf("; %s: %s", e.Location, e.Message)
	}
	return out
}
