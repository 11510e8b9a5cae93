package fetch

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// serve starts a server with documents, and with what is none.
func serve(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/doc.md", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/markdown")
		fmt.Fprint(w, "# Hello ", r.UserAgent())
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/doc.md", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/inside", func(w http.ResponseWriter, r *http.Request) {
		_, port, _ := net.SplitHostPort(r.Host)
		http.Redirect(w, r, "http://127.0.0.2:"+port+"/doc.md", http.StatusFound)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) })
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		_, _ = packed.Write(make([]byte, 64<<20))
		_ = packed.Close()
	})
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/broken", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestGet(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := New(Config{Private: true, MaxBytes: 1000, UserAgent: "Threadmill"})
	for _, path := range []string{"/doc.md", "/moved"} {
		got, err := c.Get(t.Context(), s.URL+path)
		require.NoError(t, err)
		require.Equal(t, []string{"/doc.md", "text/markdown", "# Hello Threadmill"}, []string{got.Name, got.MediaType, string(got.Content)})
	}
	for path, want := range map[string]Error{
		"/loop":   {"the address redirects more than 5 times", false},
		"/file":   {"the address must begin with http:// or https:// and a host", false},
		"/large":  {"the document has more than 1000 bytes, which is the limit", false},
		"/bomb":   {"the document has more than 1000 bytes, which is the limit", false},
		"/none":   {"the address answers 404 not found", false},
		"/busy":   {"the address answers 503 service unavailable", true},
		"/broken": {"the address could not be fetched: EOF", true},
	} {
		_, err := c.Get(t.Context(), s.URL+path)
		var got *Error
		require.ErrorAs(t, err, &got, path)
		require.Equal(t, want, *got, path)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Get(ctx, s.URL+"/hangs")
	require.ErrorIs(t, err, context.Canceled)
}

// TestGetStaysOutside: private addresses are refused, also those that a redirect or a name leads to.
func TestGetStaysOutside(t *testing.T) {
	t.Parallel()
	s := serve(t)
	refuses := func(c *Client, address, ip string) {
		t.Helper()
		_, err := c.Get(t.Context(), address)
		var got *Error
		require.ErrorAs(t, err, &got)
		require.Contains(t, got.Reason, ip+" is an address of a private network, which documents must not use")
		require.False(t, got.Retryable)
	}
	refuses(New(Config{}), s.URL+"/doc.md", "127.0.0.1")
	refuses(New(Config{}), strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/doc.md", "127.0.0.1")
	refuses(New(Config{}), "http://169.254.169.254/latest/meta-data", "169.254.169.254")
	refuses(New(Config{}), "http://[::ffff:10.0.0.1]/", "10.0.0.1")

	// 127.0.0.1 plays the part of a public address.
	c := New(Config{})
	inside := c.control
	c.control = func(ctx context.Context, network, address string, conn syscall.RawConn) error {
		if strings.HasPrefix(address, "127.0.0.1:") {
			return nil
		}
		return inside(ctx, network, address, conn)
	}
	_, err := c.Get(t.Context(), s.URL+"/doc.md")
	require.NoError(t, err)
	refuses(c, s.URL+"/inside", "127.0.0.2")
}

// TestGetEnds: a connection that fails for good is not tried again.
func TestGetEnds(t *testing.T) {
	t.Parallel()
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for name, tc := range map[string]struct {
		address           string
		err               error
		public, inPrivate bool // whether it is tried again
	}{
		"no such name":               {"http://nowhere.example/", dial(&net.DNSError{IsNotFound: true}), false, false},
		"no answer about a name":     {"http://nowhere.example/", dial(&net.DNSError{IsTimeout: true}), true, true},
		"a server that is down":      {"http://there.example/", dial(os.NewSyscallError("connect", syscall.ETIMEDOUT)), true, true},
		"no way to an IP address":    {"http://192.88.99.1/", dial(os.NewSyscallError("connect", syscall.ENETUNREACH)), false, false},
		"no answer of an IP address": {"http://192.88.99.1/", dial(os.ErrDeadlineExceeded), false, true},
		"a server that starts":       {"http://[2606:4700::1111]/", dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), true, true},
		"an answer that ends":        {"http://192.88.99.1/", io.ErrUnexpectedEOF, true, true},
	} {
		for private, again := range map[bool]bool{false: tc.public, true: tc.inPrivate} {
			c := New(Config{Private: private})
			c.http.Transport = failing{tc.err}
			_, err := c.Get(t.Context(), tc.address)
			var got *Error
			require.ErrorAs(t, err, &got)
			require.Equal(t, again, got.Retryable, "%s, private %v", name, private)
		}
	}
}

// failing is a network on which each request fails.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"https://example.com/a.pdf?b=c", "http://1.1.1.1:80/", "http://[2606:4700::1111]/", "http://a.1b/", "http://9.example/", "http://cafe/"} {
		require.NoError(t, Validate(address), address)
	}
	for address, want := range map[string]string{
		"":                                     "must begin with http",
		"ftp://example.com/a":                  "must begin with http",
		"/etc/passwd":                          "must begin with http",
		"https://ann:secret@example.com":       "must not contain a name",
		"https://example.com/%zz":              "is not valid",
		"https://" + strings.Repeat("a", 3000): "the limit is 2048",
		"http://2130706433/":                   "is a number and no IP address",
		"http://127.1/":                        "is a number and no IP address",
		"http://0x7f.0.0.1:80/":                "is a number and no IP address",
		"http://0177.0.0.1/":                   "is a number and no IP address",
		"http://1.1.1.1./":                     "is a number and no IP address",
		"http://example.0x/":                   "is a number and no IP address",
	} {
		require.ErrorContains(t, Validate(address), want, address)
	}
}
