package guard_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/internal/testenv"
)

func dial(t *testing.T, srv *httptest.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(testenv.Patience)))
	return conn
}

func TestBodyTimeout(t *testing.T) {
	const timeout = 100 * time.Millisecond
	read := make(chan error, 1)
	srv := httptest.NewServer(guard.Limits{BodyTimeout: timeout}.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Libraries do this, and would remove the deadline.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		_, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			select { // after its body, a client may take any time
			case <-r.Context().Done():
				err = r.Context().Err()
			case <-time.After(3 * timeout):
			}
		}
		read <- err
	})))
	defer srv.Close()

	t.Run("a body that drips", func(t *testing.T) {
		for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			conn := dial(t, srv)
			_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n1", framing)
			require.NoError(t, err)
			require.ErrorIs(t, <-read, os.ErrDeadlineExceeded)
			_, err = io.Copy(io.Discard, conn)
			require.NoError(t, err, "the server ends the connection")
		}
	})
	t.Run("a handler that takes longer than the body may", func(t *testing.T) {
		conn := dial(t, srv)
		in := bufio.NewReader(conn)
		for range 2 { // the deadline is not that of the next request either
			_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody")
			require.NoError(t, err)
			require.NoError(t, <-read)
			res, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
		}
	})
}

func TestWriteTimeout(t *testing.T) {
	const size = 16 << 20 // more than the buffers of a connection hold
	large := strings.Repeat("x", size)
	serve := func(timeout time.Duration) (*httptest.Server, <-chan error) {
		wrote := make(chan error, 1)
		srv := httptest.NewServer(guard.Limits{WriteTimeout: timeout}.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush() // what follows is written directly
			_, err := io.WriteString(w, large)
			wrote <- err
		})))
		t.Cleanup(srv.Close)
		return srv, wrote
	}
	request := func(srv *httptest.Server) net.Conn {
		conn := dial(t, srv)
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		return conn
	}

	t.Run("a client that does not read", func(t *testing.T) {
		srv, wrote := serve(100 * time.Millisecond)
		request(srv)
		require.ErrorIs(t, <-wrote, os.ErrDeadlineExceeded)
	})
	t.Run("a client that does not read a response that is held", func(t *testing.T) {
		wrote := make(chan error, 1)
		srv := httptest.NewServer(guard.Limits{WriteTimeout: 100 * time.Millisecond}.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.WriteString(w, large)
			wrote <- err
		})))
		defer srv.Close() // it waits for the end of the response
		conn := request(srv)
		require.NoError(t, <-wrote, "the handler does not wait for the client")
		srv.Close()
		read, err := io.Copy(io.Discard, conn)
		require.Less(t, read, int64(size), err)
	})
	t.Run("a client that reads slowly", func(t *testing.T) {
		const timeout = time.Second
		srv, wrote := serve(timeout)
		conn := request(srv)
		begun, got := time.Now(), 0
		pause := time.NewTicker(timeout / 20)
		defer pause.Stop()
		for buf := make([]byte, 256<<10); ; <-pause.C {
			n, err := io.ReadFull(conn, buf)
			got += n
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			require.NoError(t, err)
		}
		require.NoError(t, <-wrote)
		require.Greater(t, time.Since(begun), timeout, "the whole takes longer than a part may")
		require.GreaterOrEqual(t, got, size)
	})
	t.Run("the next request on the connection", func(t *testing.T) {
		srv := httptest.NewServer(guard.Limits{WriteTimeout: time.Millisecond}.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // which makes the server write 100 Continue
		})))
		defer srv.Close()
		conn := dial(t, srv)
		in := bufio.NewReader(conn)
		for i := range 2 {
			_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
			require.NoError(t, err)
			line, err := in.ReadString('\n')
			require.NoError(t, err, i)
			require.Contains(t, line, "100 Continue")
			_, err = in.ReadString('\n')
			require.NoError(t, err)
			_, err = io.WriteString(conn, "body")
			require.NoError(t, err)
			res, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			<-time.After(2 * time.Millisecond) // the deadline of the response passes
		}
	})
}

// TestMemory: when responses take too much memory, clients that read nothing make room for others.
func TestMemory(t *testing.T) {
	const size = 16 << 20
	large := strings.Repeat("x", size)
	ended := make(chan struct{}, 100)
	limits := guard.Limits{WriteTimeout: testenv.Patience, ResponseMemory: 3 * size}
	srv := httptest.NewUnstartedServer(limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, large)
	})))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			ended <- struct{}{}
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	for range 5 {
		conn := dial(t, srv)
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
	}
	for range 3 {
		// On a machine that stalls, this client, too, reads nothing for a second.
		require.Eventually(t, func() bool {
			res, err := http.Get(srv.URL)
			if err != nil {
				return false
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			return err == nil && res.StatusCode == http.StatusOK && len(got) == size
		}, testenv.Patience, testenv.Tick)
	}
	<-ended // one of those that read nothing

	t.Run("no room", func(t *testing.T) {
		srv := httptest.NewServer(guard.Limits{ResponseMemory: size}.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1")
			_, _ = io.WriteString(w, large)
			_, _ = io.WriteString(w, large[:32<<10])
		})))
		defer srv.Close()
		res, err := http.Get(srv.URL)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.Equal(t, "1", res.Header.Get("Retry-After"))
	})
	t.Run("no room, for the result of a change", func(t *testing.T) {
		srv := httptest.NewServer(guard.Limits{ResponseMemory: 1}.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "done")
		})))
		defer srv.Close()
		res, err := http.Get(srv.URL)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusAccepted, res.StatusCode)
	})
}

// TestBodyMemory: when requests take too much memory, clients that send nothing make room for others.
func TestBodyMemory(t *testing.T) {
	const size = 1 << 20
	limits := guard.Limits{BodyTimeout: testenv.Patience, RequestMemory: 6 * size}
	read := make(chan struct{}, 100)
	srv := httptest.NewServer(limits.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for buf := make([]byte, 64<<10); ; {
			if _, err := io.ReadFull(r.Body, buf); err != nil {
				return
			}
			read <- struct{}{}
		}
	})))
	t.Cleanup(srv.Close)
	for range 3 {
		conn := dial(t, srv)
		_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", 2*size, strings.Repeat("x", size))
		require.NoError(t, err)
		for range size >> 16 {
			<-read
		}
	}
	res, err := http.Post(srv.URL, "text/plain", strings.NewReader(strings.Repeat("x", size)))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}
