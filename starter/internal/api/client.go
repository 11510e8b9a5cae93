package api

import (
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

// DefaultBase is where the API is looked for when nothing else is said.
const DefaultBase = "http://127.0.0.1:8080"

// NamespaceHeader names the namespace of threads, when it is not the default one.
const NamespaceHeader = "Threadmill-Namespace"

const (
	pageSize       = 200
	maxBody        = 64 << 20
	messageTimeout = 30 * time.Second
)

// ErrUnreachable marks failures to get any answer from the API.
var ErrUnreachable = errors.New("the API does not answer")

// StatusError is an answer of the API other than success.
type StatusError struct {
	Code   int
	Detail string

	// Result is what became of what was asked for, where the answer says so.
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

	// HTTP carries the requests. Default: a client without an overall timeout,
	// because streams last.
	HTTP *http.Client

	// Idle is how long a stream may be silent, heartbeats included, before it is
	// taken for dead and opened again. Default 45 s.
	Idle time.Duration

	// MinDelay and MaxDelay bound the wait before a stream is opened again. Default
	// 100 ms and 5 s.
	MinDelay, MaxDelay time.Duration
}

// Client reads threads from the HTTP API. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base *url.URL
}

// New makes a client. It does not connect.
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

// Message is a message as the API returns it.
type Message struct {
	event.Message
	Seq       int64     `json:"seq"`
	CreatedAt time.Time `json:"createdAt"`
}

// Messages returns all messages of a thread in order.
func (c *Client) Messages(ctx context.Context, threadID string) ([]Message, error) {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	var all []Message
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for {
		page, err := readPage[messagePage](ctx, c, threadID, "messages", query)
		if err != nil {
			return nil, fmt.Errorf("reading the messages of thread %q: %w", threadID, err)
		}
		all = append(all, page.Messages...)
		if page.Next == "" || page.Next == query.Get("cursor") {
			break
		}
		query.Set("cursor", page.Next)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Seq < all[j].Seq })
	return all, nil
}

type messagePage struct {
	Messages []Message `json:"messages"`
	Next     string    `json:"next"`
}

// readPage asks for a page of a part of a thread.
func readPage[P any](ctx context.Context, c *Client, threadID, part string, query url.Values) (P, error) {
	var page P
	resp, err := c.get(ctx, threadID, part, query, nil)
	if err != nil {
		return page, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&page); err != nil {
		return page, fmt.Errorf("reading the answer of %s: %w", c.base, err)
	}
	return page, nil
}

// get asks for a part of a thread. Anything but 200 comes back as an error.
func (c *Client) get(ctx context.Context, threadID, part string, query url.Values, header http.Header) (*http.Response, error) {
	return c.do(ctx, http.MethodGet, c.base.JoinPath("v1", "threads", url.PathEscape(threadID), part), query, header)
}

func (c *Client) do(ctx context.Context, method string, u *url.URL, query url.Values, header http.Header) (*http.Response, error) {
	resp, err := c.send(ctx, method, u, query, header, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, problem(resp)
	}
	return resp, nil
}

// send returns whatever the API answers.
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

// problem reads an RFC 9457 problem document, if the answer is one.
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
