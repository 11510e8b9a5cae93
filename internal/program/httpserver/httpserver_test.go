package httpserver

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func get(url string) (int, error) {
	res, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func served(t *testing.T, handler http.HandlerFunc, closeStreams func()) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return Serve(l, handler, closeStreams, slog.New(slog.DiscardHandler))
}

func TestDrain(t *testing.T) {
	h := served(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, func() {})
	for path, want := range map[string]int{"/readyz": http.StatusOK, "/": http.StatusOK} {
		status, err := get(h.URL() + path)
		require.NoError(t, err)
		require.Equal(t, want, status, path)
	}
	h.Drain()
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/": http.StatusOK} {
		status, err := get(h.URL() + path)
		require.NoError(t, err)
		require.Equal(t, want, status, path)
	}
	h.Stop(time.Second)
	_, err := get(h.URL())
	require.Error(t, err)
	require.Empty(t, h.Failed())
}

func TestLargeHeader(t *testing.T) {
	h := served(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, func() {})
	defer h.Stop(time.Second)
	for size, want := range map[int]int{32 << 10: http.StatusOK, 128 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL(), nil)
		require.NoError(t, err)
		req.Header.Set("X-Large", strings.Repeat("x", size))
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, size)
	}
}

func TestConnectionLimit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := serve(l, 2, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func() {}, slog.New(slog.DiscardHandler))
	defer h.Stop(time.Second)
	answered := make(chan int, 3)
	var conns []net.Conn
	for i := range cap(answered) {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		conns = append(conns, conn)
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		go func() {
			if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				answered <- i
			}
		}()
	}
	first, second := <-answered, <-answered
	require.Empty(t, answered)
	require.NoError(t, conns[first].Close())
	require.Equal(t, 3-first-second, <-answered, "one that ends makes room")
}

func TestStop(t *testing.T) {
	for _, c := range []struct {
		name   string
		grace  time.Duration
		finish bool
	}{
		{"ends streams and waits for the rest", time.Minute, true},
		{"cuts off what takes too long", time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun, closing, cut := make(chan struct{}), make(chan struct{}), make(chan struct{})
			h := served(t, func(_ http.ResponseWriter, r *http.Request) {
				close(begun)
				<-closing
				if !c.finish {
					<-r.Context().Done()
					<-cut // otherwise it might respond in time
				}
			}, func() { close(closing) })
			answered := make(chan error, 1)
			go func() {
				_, err := get(h.URL())
				answered <- err
			}()
			<-begun
			h.Stop(c.grace)
			err := <-answered
			close(cut)
			require.Equal(t, c.finish, err == nil, err)
		})
	}
}
