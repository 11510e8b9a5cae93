package server_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
