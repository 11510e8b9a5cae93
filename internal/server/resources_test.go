//go:build resources

package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store/sqlite"
)

// crowd is the number of clients that attack at once.
const crowd = 400

// TestMemoryUnderAttack: clients that never read, that stop in the middle of a request, and that ask
// for what is expensive, cost less than a gigabyte, and others are served meanwhile.
func TestMemoryUnderAttack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // whatever the others run with
	table := strings.Repeat("|a", 1200) + `\n` + strings.Repeat("|-", 1200) + `\n` + strings.Repeat(`|\n`, 20_000)
	code := "```go\\n" + strings.Repeat(`if a { b(c) }\n`, 1100) + "```"
	texts := `{"texts":["` + table + `","` + strings.Repeat(code+`","`, 40) + `"]}`
	get := func(path string, more ...string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + strings.Join(more, "") + "\r\n"
	}
	post := func(path, body string, length int) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, length, body)
	}
	large := `{"content":"` + strings.Repeat("x", 1<<20-100)
	for name, request := range map[string]string{
		"pages of messages":     get("/v1/threads/t1/messages?limit=200"),
		"snapshots":             post("/v1/ag-ui/connect", `{"threadId":"t1","runId":"r"}`, 29),
		"streams":               get("/v1/threads/t1/events", "Accept: text/event-stream\r\n"),
		"Markdown":              post("/v1/markdown", texts, len(texts)),
		"pipelined pages":       strings.Repeat(get("/v1/threads/t1/messages?limit=200"), 20),
		"bodies without an end": post("/v1/threads/t1/messages", large, 1<<20-1),
		"large bodies":          post("/v1/threads/t1/messages?wait=true", large+`"}`, len(large)+2),
		"long queries":          get("/v1/threads/t1/events?cursor=" + strings.Repeat("1", 60_000)),
	} {
		t.Run(name, func(t *testing.T) {
			db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "records.db")})
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			w := newWorld(t, func(c *server.Config) { c.Store = db })
			w.store = db
			w.open("t1")
			w.open("t2")
			w.put("t2", replied("last", "another thread"))
			for i := range 40 {
				w.put("t1", replied(fmt.Sprint(i), fmt.Sprintf("%d ", i)+strings.Repeat("x", 200<<10)))
			}
			runtime.GC()
			stop := make(chan struct{})
			most := make(chan uint64, 1)
			go func() { most <- watchHeap(stop) }()
			for range crowd {
				conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
				require.NoError(t, err)
				defer conn.Close()
				_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
				go func() { _, _ = conn.Write([]byte(request)) }()
			}
			for range 3 {
				for _, path := range []string{"/v1/threads/t2/messages", "/v1/threads/t2"} {
					require.Eventually(t, func() bool { return w.call("GET", path, nil).status == http.StatusOK }, testenv.Patience, 10*time.Millisecond)
				}
				require.Less(t, w.call("POST", "/v1/threads/t2/messages", object{"content": "x"}).status, 500)
			}
			close(stop)
			used := <-most
			t.Logf("at most %d MiB", used>>20)
			require.Less(t, used, uint64(700<<20))
		})
	}
}

// watchHeap returns the most memory of live and dead objects until stop is closed.
func watchHeap(stop <-chan struct{}) (most uint64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapInuse)
		select {
		case <-stop:
			return most
		case <-tick.C:
		}
	}
}

// TestSilentViewers: viewers that never read cost little, and are cut.
func TestSilentViewers(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // whatever the others run with
	const (
		viewers   = 30
		perViewer = 4 << 20
		size      = 250 << 10
		timeout   = 3 * time.Second
	)
	w := newWorld(t, func(c *server.Config) {
		c.Limits, c.MaxViewers = guard.Limits{WriteTimeout: timeout}, viewers+1
	})
	w.open("t1")
	const events = 12
	for i := range events {
		w.put("t1", replied(fmt.Sprint(i), fmt.Sprintf("%d ", i)+strings.Repeat("x", size)))
	}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)

	for i := range viewers {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		view := []string{"agent", "base", "env", "world"}[i%4]
		_, err = fmt.Fprintf(conn, "GET /v1/threads/t1/events?view=%s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", view)
		require.NoError(t, err)
	}
	slow := make(chan error, 1)
	body := w.viewer("/v1/threads/t1/events").Body
	go func() { slow <- readSlowly(body, 400*time.Millisecond, fmt.Sprintf(`%d xxx`, events-1)) }()

	var most uint64
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); { // they are not cut yet
		runtime.GC()
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapAlloc)
	}
	used := int64(most) - int64(before.HeapAlloc)
	t.Logf("%d viewers used at most %d KiB each", viewers, used/viewers>>10)
	require.Less(t, used, int64(viewers*perViewer))

	for range viewers { // each that is cut makes room
		require.Eventually(t, func() bool {
			return w.viewer("/v1/threads/t1/events?from=now").StatusCode == http.StatusOK
		}, testenv.Patience, 50*time.Millisecond)
	}
	require.NoError(t, <-slow, "one that reads slowly is not cut")
}

// readSlowly reads a stream, with pauses, until it says text.
func readSlowly(from io.Reader, pause time.Duration, text string) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var tail []byte
	for buf := make([]byte, 256<<10); ; <-tick.C {
		n, err := io.ReadAtLeast(from, buf, len(buf)/2)
		tail = append(tail, buf[:n]...)
		if bytes.Contains(tail, []byte(text)) {
			return nil
		}
		if err != nil {
			return err
		}
		tail = tail[max(0, len(tail)-len(text)):]
	}
}

// TestUploadsTogether: files that are uploaded at once wait for each other, and are all stored.
func TestUploadsTogether(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Limits = guard.Limits{RequestMemory: 96 << 20} })
	file := strings.Repeat("x", 20<<20)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			got := w.call("POST", fmt.Sprintf("/v1/knowledge/files?source=%d.txt", i), file)
			assert.Equal(t, http.StatusAccepted, got.status, got.text)
		})
	}
	all.Wait()
}
