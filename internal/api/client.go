package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
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
	requestTimeout = 30 * time.Second
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

// IsNotFound reports a response with status 404.
func IsNotFound(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code == http.StatusNotFound
}

// Config configures a [Client].
type Config struct {
	// Base is the API's URL. Default [DefaultBase].
	Base string

	// Namespace of the threads. Default "default".
	Namespace string

	// Key is the API key. Default: none.
	Key string

	// Do sends requests. Default: an [http.Client] that follows no redirects.
	Do func(*http.Request) (*http.Response, error)

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
	cfg.Base, cfg.Namespace = cmp.Or(cfg.Base, DefaultBase), cmp.Or(cfg.Namespace, signals.DefaultNamespace)
	cfg.Idle = cmp.Or(cfg.Idle, 45*time.Second)
	if cfg.Do == nil {
		cfg.Do = direct.Do
	}
	cfg.MinDelay, cfg.MaxDelay = cmp.Or(cfg.MinDelay, 100*time.Millisecond), cmp.Or(cfg.MaxDelay, 5*time.Second)
	base, err := url.Parse(strings.TrimRight(cfg.Base, "/"))
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("API address %q must be a URL such as %s", cfg.Base, DefaultBase)
	}
	return &Client{cfg: cfg, base: base}, nil
}

// Messages returns all messages of a thread in order.
func (c *Client) Messages(ctx context.Context, threadID string) ([]event.StoredMessage, error) {
	all, err := pages[event.StoredMessage](ctx, c, threadID, "messages", pageSize)
	slices.SortStableFunc(all, func(a, b event.StoredMessage) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, err
}

// pages reads all pages of a thread's messages or events, within the timeout of one request.
func pages[E any](ctx context.Context, c *Client, threadID, list string, limit int) ([]E, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var all []E
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	for {
		page, err := call[struct {
			Messages []E    `json:"messages"`
			Events   []E    `json:"events"`
			Next     string `json:"next"`
		}](ctx, c, http.MethodGet, c.url(query, "threads", threadID, list), nil, "reading the %s of thread %q", list, threadID)
		if err != nil {
			return nil, err
		}
		all = append(append(all, page.Messages...), page.Events...)
		if page.Next == "" || page.Next == query.Get("cursor") {
			return all, nil
		}
		query.Set("cursor", page.Next)
	}
}

func (c *Client) url(query url.Values, path ...string) *url.URL {
	u := c.base.JoinPath("v1")
	for _, part := range path {
		u = u.JoinPath(url.PathEscape(part))
	}
	u.RawQuery = query.Encode()
	return u
}

// call sends in as JSON, unless it is nil, and decodes the response, unless it has no content.
// Errors begin with the text of format.
func call[T any](ctx context.Context, c *Client, method string, u *url.URL, in any, format string, args ...any) (T, error) {
	var out T
	if err := c.exchange(ctx, method, u, in, &out); err != nil {
		return out, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
	}
	return out, nil
}

func (c *Client) exchange(ctx context.Context, method string, u *url.URL, in, out any) error {
	var body io.Reader
	header := http.Header{}
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
		header.Set("Content-Type", "application/json")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.receive(ctx, method, u, header, body, out)
}

// receive sends a request, and decodes the response, unless it has no content.
func (c *Client) receive(ctx context.Context, method string, u *url.URL, header http.Header, body io.Reader, out any) error {
	resp, err := c.send(ctx, method, u, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode/100 != 2:
		return problem(resp)
	case resp.StatusCode == http.StatusNoContent, resp.ContentLength == 0:
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(out); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", c.base, err)
	}
	return nil
}

// direct sends requests to the configured server only, and without an overall timeout, because streams
// last.
var direct = &http.Client{CheckRedirect: func(to *http.Request, _ []*http.Request) error {
	return fmt.Errorf("the server redirects to %s, and requests follow no redirects: use that address", to.URL.Host)
}}

// send returns any response of the API.
func (c *Client) send(ctx context.Context, method string, u *url.URL, header http.Header, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header = header
	if c.cfg.Namespace != signals.DefaultNamespace {
		header.Set(NamespaceHeader, c.cfg.Namespace)
	}
	if c.cfg.Key != "" {
		header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	resp, err := c.cfg.Do(req)
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
	out.Detail, out.Result = cmp.Or(doc.Detail, doc.Title), doc.Result
	for _, e := range doc.Errors {
		if problem := e.Location + ": " + e.Message; problem != doc.Detail {
			out.Detail += "; " + problem
		}
	}
	return out
}
