package mcp

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/threadmill/threadmill/internal/guard/publicnet"
)

const (
	dialTimeout      = 10 * time.Second
	idleTimeout      = 90 * time.Second
	maxErrorBody     = 64 << 10
	maxRedirects     = 5
	maxServerHeaders = 256 << 10
)

// remote is the HTTP side of a connection.
type remote struct {
	server Server
	base   *http.Transport
	origin string

	// login is set while the server rejects requests for lack of a login.
	login atomic.Bool
}

// newRemote returns the HTTP side of a connection. public forbids private addresses.
func newRemote(s Server, public bool) *remote {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	proxy := http.ProxyFromEnvironment
	if public {
		dialer.ControlContext = publicnet.Control("servers that a namespace declares")
		proxy = nil // a proxy would resolve the name
	}
	r := &remote{server: s, base: &http.Transport{
		Proxy: proxy, DialContext: dialer.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: 4, MaxResponseHeaderBytes: maxServerHeaders,
	}}
	if u, err := url.Parse(s.URL); err == nil {
		r.origin = originOf(u)
	}
	return r
}

func originOf(u *url.URL) string { return strings.ToLower(u.Scheme + "://" + u.Host) }

func (r *remote) client() *http.Client {
	return &http.Client{
		Transport: r,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if originOf(req.URL) != r.origin {
				return fmt.Errorf("the server redirects to another host, %.100q: name its address in url", req.URL.Host)
			}
			if len(via) >= maxRedirects {
				return errors.New("the server redirects too often")
			}
			return nil
		},
	}
}

// RoundTrip implements [http.RoundTripper].
func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	// Handlers of logins use other hosts, which must not get the headers.
	if originOf(req.URL) == r.origin {
		req = req.Clone(req.Context())
		for name, value := range r.server.Headers {
			if http.CanonicalHeaderKey(name) == "Host" {
				req.Host = string(value)
			}
			req.Header.Set(name, string(value))
		}
	}
	res, err := r.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch res.StatusCode {
	case http.StatusUnauthorized:
		r.login.Store(true)
	default:
		if res.StatusCode < http.StatusBadRequest {
			r.login.Store(false)
		}
	}
	b := &body{ReadCloser: res.Body, meter: newMeter(messageRate, messageBurst, byteRate, byteBurst), left: -1}
	res.Body = b
	switch {
	case res.StatusCode >= http.StatusMultipleChoices:
		b.left = maxErrorBody
	case strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"):
		res.Body = &exactBody{ReadCloser: b, lines: bufio.NewReader(b)}
	default:
		b.left = maxMessage
		res.Body, res.ContentLength = &exactBody{ReadCloser: b}, -1
	}
	return res, nil
}

func (r *remote) close() { r.base.CloseIdleConnections() }
