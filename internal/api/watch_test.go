package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
)

// entry is an event of the fake server's stream.
type entry struct{ id, data string }

// streamOf returns a stream of n records with chunks in between.
func streamOf(n int) []entry {
	var out []entry
	offset := 0
	for seq := 1; seq <= n; seq++ {
		for range 4 {
			offset++
			out = append(out, entry{fmt.Sprintf("%d:%d", seq-1, offset), fmt.Sprintf(`{"type":"stream","content":"%d ","messageId":"m%d"}`, offset, seq)})
		}
		out = append(out, entry{strconv.Itoa(seq), fmt.Sprintf(`{"type":"message","message":{"id":"m%d"}}`, seq)})
	}
	return out
}

func frameText(e entry) string {
	return ": heartbeat\n\nid: " + e.id + "\ndata: " + strings.ReplaceAll(e.data, ",", ",\ndata: ") + "\n\n"
}

// after returns the entries after an id.
func after(t *testing.T, entries []entry, id string) []entry {
	if id == "" {
		return entries
	}
	for i, e := range entries {
		if e.id == id {
			return entries[i+1:]
		}
	}
	t.Errorf("the client asks for what follows %q, which was never sent", id)
	return nil
}

func newClient(t *testing.T, h http.Handler) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := New(Config{Base: srv.URL, MinDelay: time.Millisecond, MaxDelay: 4 * time.Millisecond})
	require.NoError(t, err)
	return c
}

var errEnough = errors.New("enough")

// collect watches until n events have arrived.
func collect(ctx context.Context, c *Client, opts WatchOptions, n int) ([]Item, error) {
	var got []Item
	err := c.Watch(ctx, "t1", opts, func(item Item) error {
		if got = append(got, item); len(got) == n {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return got, err
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}

func TestWatchCutAnywhere(t *testing.T) {
	entries := streamOf(60)
	var cuts atomic.Int32
	random := rand.New(rand.NewPCG(1, 2))
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		for _, e := range after(t, entries, r.Header.Get("Last-Event-ID")) {
			text.WriteString(frameText(e))
		}
		whole := text.String()
		w.Header().Set("Content-Type", "text/event-stream")
		cut := min(len(whole), 1+random.IntN(600))
		cuts.Add(1)
		_, _ = w.Write([]byte(whole[:cut]))
		_ = http.NewResponseController(w).Flush()
		if cuts.Load()%2 == 0 {
			panic(http.ErrAbortHandler) // a broken connection rather than a clean end
		}
	}))
	got, err := collect(testContext(t), c, WatchOptions{}, len(entries))
	require.NoError(t, err)
	require.Greater(t, cuts.Load(), int32(50))
	require.Len(t, got, len(entries))
	for i, e := range entries {
		require.Equal(t, e.id, got[i].ID)
		var want event.AgentEvent
		require.NoError(t, json.Unmarshal([]byte(e.data), &want))
		require.Equal(t, want, got[i].Event)
	}
}

func TestWatchClosed(t *testing.T) {
	asked := 0
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("Last-Event-ID") == "7" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		fmt.Fprint(w, frameText(entry{"7", `{"type":"final"}`}))
	}))
	got, err := collect(testContext(t), c, WatchOptions{}, 2)
	require.ErrorIs(t, err, ErrClosed)
	require.Len(t, got, 1)
	require.Equal(t, 2, asked)
}

// The server determines ids: several events of a record have <seq>.<n>.
func TestWatchTakesIDsAsTheyAre(t *testing.T) {
	var asked []string
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Last-Event-ID"))
		if len(asked) == 1 {
			fmt.Fprint(w, frameText(entry{"7", `{"type":"final"}`}), frameText(entry{"8.1:40", `{"type":"tool_call","toolName":"one"}`}))
			return
		}
		// The gap has the id of the position at which the watch continues.
		fmt.Fprint(w, frameText(entry{"8.1:40", `{"type":"gap"}`}), frameText(entry{"8:40", `{"type":"tool_call","toolName":"two"}`}))
	}))
	got, err := collect(testContext(t), c, WatchOptions{}, 4)
	require.NoError(t, err)
	require.Equal(t, []string{"", "8.1:40"}, asked)
	require.Equal(t, []string{"7", "8.1:40", "8.1:40", "8:40"}, []string{got[0].ID, got[1].ID, got[2].ID, got[3].ID})
	require.Equal(t, event.EventGap, got[2].Event.Type)
	require.Equal(t, "two", got[3].Event.ToolName)
}

func TestWatchFromNowKeepsItsPlace(t *testing.T) {
	var asked []string
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery+"|"+r.Header.Get("Last-Event-ID"))
		if len(asked) == 1 {
			fmt.Fprint(w, "retry: 1\nid: 5\n\n")
			return
		}
		fmt.Fprint(w, frameText(entry{"6", `{"type":"final"}`}))
	}))
	got, err := collect(testContext(t), c, WatchOptions{Now: true}, 1)
	require.NoError(t, err)
	require.Equal(t, "6", got[0].ID)
	require.Equal(t, []string{"from=now|", "|5"}, asked)
}

func TestWatchSaysThatTheServerIsGone(t *testing.T) {
	var calls atomic.Int32
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch calls.Add(1) {
		case 1:
			fmt.Fprint(w, frameText(entry{"1", `{"type":"final"}`}))
		case 2, 3, 4:
			http.Error(w, "starting", http.StatusServiceUnavailable)
		default:
			fmt.Fprint(w, frameText(entry{"2", `{"type":"final"}`}))
		}
	}))
	var said []string
	got, err := collect(testContext(t), c, WatchOptions{
		Lost: func(error) { said = append(said, "lost") },
		Back: func() { said = append(said, "back") },
	}, 2)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, []string{"lost", "back"}, said)
}

func TestWatchSilenceIsDeath(t *testing.T) {
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, frameText(entry{"1", `{"type":"final"}`}))
	}))
	t.Cleanup(srv.Close)
	c, err := New(Config{Base: srv.URL, Idle: 200 * time.Millisecond, MinDelay: time.Millisecond})
	require.NoError(t, err)
	got, err := collect(testContext(t), c, WatchOptions{}, 1)
	require.NoError(t, err)
	require.Equal(t, "1", got[0].ID)
}

func TestWatchEnds(t *testing.T) {
	none := func(Item) error { return nil }
	t.Run("a thread that is not there", func(t *testing.T) {
		c := newClient(t, http.NotFoundHandler())
		var status *StatusError
		require.ErrorAs(t, c.Watch(testContext(t), "t1", WatchOptions{}, none), &status)
		require.Equal(t, http.StatusNotFound, status.Code)
	})
	t.Run("a thread that will be there", func(t *testing.T) {
		var calls atomic.Int32
		c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) < 4 {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, frameText(entry{"1", `{"type":"final"}`}))
		}))
		got, err := collect(testContext(t), c, WatchOptions{
			Missing: func(context.Context) error { return nil },
			Lost:    func(err error) { t.Errorf("lost: %v", err) },
		}, 1)
		require.NoError(t, err)
		require.Len(t, got, 1)
	})
	t.Run("a problem document is quoted", func(t *testing.T) {
		c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"title":"Unprocessable Entity","detail":"validation failed","errors":[{"message":"is wrong","location":"header.Last-Event-ID"}]}`)
		}))
		err := c.Watch(testContext(t), "t1", WatchOptions{}, none)
		require.EqualError(t, err, "the API answers 422: validation failed; header.Last-Event-ID: is wrong")
	})
	t.Run("no server", func(t *testing.T) {
		c, err := New(Config{Base: "http://127.0.0.1:1"})
		require.NoError(t, err)
		require.ErrorIs(t, c.Watch(testContext(t), "t1", WatchOptions{FailFast: true}, none), ErrUnreachable)
	})
	t.Run("the caller", func(t *testing.T) {
		ctx, cancel := context.WithCancel(testContext(t))
		c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, frameText(entry{"1", `{"type":"final"}`}))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		err := c.Watch(ctx, "t1", WatchOptions{}, func(Item) error { cancel(); return nil })
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("an event that is none", func(t *testing.T) {
		c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, frameText(entry{"1", `nonsense`}))
		}))
		require.ErrorContains(t, c.Watch(testContext(t), "t1", WatchOptions{}, none), `reading event "1" of thread "t1"`)
	})
}

func TestMessages(t *testing.T) {
	var namespaces []string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespaces = append(namespaces, r.Header.Get(NamespaceHeader))
		if r.URL.Path != "/base/v1/threads/t1/messages" {
			http.NotFound(w, r)
			return
		}
		if r.URL.Query().Get("cursor") == "" {
			fmt.Fprint(w, `{"messages":[{"id":"b","seq":5,"content":"two"},{"id":"c","seq":9,"content":"three"}],"next":"n"}`)
			return
		}
		fmt.Fprint(w, `{"messages":[{"id":"a","seq":2,"content":"one"}]}`)
	})
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := New(Config{Base: srv.URL + "/base/", Namespace: "acme"})
	require.NoError(t, err)
	got, err := c.Messages(testContext(t), "t1")
	require.NoError(t, err)
	require.Equal(t, []int64{2, 5, 9}, []int64{got[0].Seq, got[1].Seq, got[2].Seq})
	require.Equal(t, "one", got[0].Content)
	require.Equal(t, []string{"acme", "acme"}, namespaces)
	_, err = c.Messages(testContext(t), "t2")
	require.EqualError(t, err, `reading the messages of thread "t2": the API answers 404 Not Found`)
}

func TestNewRefusesWhatIsNoURL(t *testing.T) {
	for _, base := range []string{"localhost:8080", "ftp://x", "http://", "::"} {
		_, err := New(Config{Base: base})
		require.ErrorContains(t, err, "must be a URL", base)
	}
}
