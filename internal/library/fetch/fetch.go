// Package fetch downloads documents from addresses that strangers name.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/threadmill/threadmill/document"
	"github.com/threadmill/threadmill/internal/guard/publicnet"
)

// Config configures a [Client].
type Config struct {
	// Private permits addresses of private networks, and the proxy of the environment.
	Private bool

	// MaxBytes of a document. Default 32 MiB.
	MaxBytes int64

	// UserAgent names the program.
	UserAgent string
}

// Bounds of a download.
const (
	defaultMaxBytes = 32 << 20
	maxRedirects    = 5
	maxAddress      = 2048
	dialWithin      = 10 * time.Second
	headerWithin    = 30 * time.Second
	within          = 2 * time.Minute
	maxHeader       = 256 << 10
)

// Error says why a document could not be fetched.
type Error struct {
	Reason string

	// Retryable reports whether it may succeed later.
	Retryable bool
}

func (e *Error) Error() string { return e.Reason }

func failed(format string, args ...any) *Error { return &Error{Reason: fmt.Sprintf(format, args...)} }

// Client fetches documents. It is safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client

	// control may refuse a connection.
	control func(ctx context.Context, network, address string, conn syscall.RawConn) error
}

// New returns a client.
func New(cfg Config) *Client {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	c := &Client{cfg: cfg, control: publicnet.Control("documents")}
	dialer := &net.Dialer{Timeout: dialWithin, ControlContext: func(ctx context.Context, network, address string, conn syscall.RawConn) error {
		return c.control(ctx, network, address, conn)
	}}
	transport := &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialWithin,
		ResponseHeaderTimeout: headerWithin, MaxResponseHeaderBytes: maxHeader,
	}
	if cfg.Private {
		transport.Proxy, dialer.ControlContext = http.ProxyFromEnvironment, nil
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return failed("the address redirects more than %d times", maxRedirects)
		}
		return check(req.URL)
	}}
	return c
}

// Validate reports why an address cannot be that of a document.
func Validate(address string) error {
	if len(address) > maxAddress {
		return failed("the address has %d bytes; the limit is %d", len(address), maxAddress)
	}
	u, err := url.Parse(address)
	if err != nil {
		return failed("the address is not valid: %v", errors.Unwrap(err))
	}
	return check(u)
}

func check(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return failed("the address must begin with http:// or https:// and a host")
	case u.User != nil:
		return failed("the address must not contain a name or a password")
	case isNumber(u.Hostname()):
		return failed("the host %q is a number and no IP address: write the address in full, such as 192.0.2.1, or a name", u.Hostname())
	}
	return nil
}

// isNumber reports whether a host ends in a number and is no IP address as it is written. Such forms of IPv4 addresses, as 2130706433
// or 0x7f.1, are names to a resolver, which no server ever has.
func isNumber(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	digits, hexadecimal := "0123456789", strings.HasPrefix(last, "0x")
	if hexadecimal {
		last, digits = last[2:], digits+"abcdef"
	}
	return (last != "" || hexadecimal) && strings.Trim(last, digits) == ""
}

// Get fetches a document. The error is an [*Error], or that of the context.
func (c *Client) Get(ctx context.Context, address string) (document.File, error) {
	if err := Validate(address); err != nil {
		return document.File{}, err
	}
	inner, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	f, err := c.get(inner, address)
	if err == nil {
		return f, nil
	}
	if ctx.Err() != nil {
		return document.File{}, ctx.Err()
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return document.File{}, e
	}
	last := address // after redirects
	if e, ok := errors.AsType[*url.Error](err); ok {
		err, last = e.Err, e.URL // without the address, which may contain a secret
	}
	return document.File{}, &Error{Reason: "the address could not be fetched: " + err.Error(), Retryable: !c.definite(last, err)}
}

// definite reports whether a connection will fail again: the address is refused, the name does not exist, or no way leads to
// the IP address. A private server may only be down.
func (c *Client) definite(address string, err error) bool {
	if _, refused := errors.AsType[*publicnet.Error](err); refused {
		return true
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		return lookup.IsNotFound
	}
	op, dialed := errors.AsType[*net.OpError](err)
	u, bad := url.Parse(address)
	if !dialed || op.Op != "dial" || bad != nil {
		return false
	}
	if _, named := netip.ParseAddr(u.Hostname()); named != nil {
		return false
	}
	return errors.Is(err, syscall.ENETUNREACH) || !c.cfg.Private && !errors.Is(err, syscall.ECONNREFUSED)
}

func (c *Client) get(ctx context.Context, address string) (f document.File, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return f, failed("the address is not valid: %v", err)
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	res, err := c.http.Do(req)
	if err != nil {
		return f, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		e := failed("the address answers %d %s", res.StatusCode, strings.ToLower(http.StatusText(res.StatusCode)))
		e.Retryable = res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusRequestTimeout
		return f, e
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, c.cfg.MaxBytes+1))
	if err != nil {
		return f, err
	}
	if int64(len(content)) > c.cfg.MaxBytes {
		return f, failed("the document has more than %d bytes, which is the limit", c.cfg.MaxBytes)
	}
	return document.File{Name: res.Request.URL.Path, MediaType: res.Header.Get("Content-Type"), Content: content}, nil
}
