package server_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
)

func following(threads ...string) string {
	return "/v1/events?thread=" + strings.Join(threads, "&thread=")
}

type followed struct {
	ThreadID string          `json:"threadId"`
	Event    json.RawMessage `json:"event"`
	Ended    string          `json:"ended"`
}

func (s seen) followed(t testing.TB) (f followed) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s.data), &f), s.data)
	return f
}

// TestFollowCuts follows threads that talk at once, with a connection that is cut at random: of each thread arrives what its own
// stream has.
func TestFollowCuts(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Heartbeat = 50 * time.Millisecond })
	threads := []string{"t1", "t2", "t3"}
	straight := map[string]chan []seen{}
	for _, id := range threads {
		w.open(id)
		v, whole := w.watch(id, "", ""), make(chan []seen, 1)
		straight[id] = whole
		go func() {
			defer close(whole)
			whole <- v.rest()
		}()
	}
	v := w.watchPath(following(threads...), "")
	moved := make(chan struct{}, 1)
	var shown atomic.Int64
	go func() {
		pieces := int64(0)
		rng, heads, said := rand.New(rand.NewPCG(2, 2)), map[string]int64{}, map[string]int{}
		for _, id := range threads {
			heads[id] = w.put(id, record(event.TypeMessage, written("e", "count")))
		}
		for i := range 450 {
			id := threads[rng.IntN(3)]
			w.publish(id, heads[id], event.AgentEvent{Type: event.EventStream, Content: fmt.Sprint(i), MessageID: fmt.Sprint("m", said[id]), Attempt: 1, Agent: "bot"})
			pieces++
			if rng.IntN(20) == 0 {
				// A viewer that is cut receives the whole message in place of pieces that it has not seen.
				assert.Eventually(t, func() bool { return shown.Load() >= pieces || w.ctx.Err() != nil }, testenv.Patience, time.Millisecond)
				heads[id] = w.put(id, replied(fmt.Sprint("m", said[id]), "counted"))
				said[id]++
			}
			if i%3 == 0 { // the viewer keeps up, so that it is cut in the middle of messages
				select {
				case <-moved:
				case <-w.ctx.Done():
				}
			}
		}
		for _, id := range threads {
			w.append(id, closedBatch())
		}
	}()
	got, ended, cuts, rng := map[string][]string{}, 0, 0, rand.New(rand.NewPCG(1, 1))
	for ended < len(threads) {
		for range 1 + rng.IntN(8) {
			e, ok := v.next()
			if !ok {
				break
			}
			assert.Less(t, len(e.id), 200)
			f := e.followed(t)
			if f.Ended != "" {
				assert.Equal(t, "closed", f.Ended)
				ended++
			} else {
				got[f.ThreadID] = append(got[f.ThreadID], string(f.Event))
				if strings.Contains(string(f.Event), `"type":"stream"`) {
					shown.Add(1)
				}
			}
			select {
			case moved <- struct{}{}:
			default:
			}
		}
		v.cancel()
		v = w.watchPath(following(threads...), v.lastID)
		cuts++
	}
	for _, id := range threads {
		assert.Equal(t, data(<-straight[id]), got[id], id)
	}
	assert.Greater(t, cuts, 80)
	assert.Equal(t, http.StatusNoContent, v.res.StatusCode, "browsers stop to reconnect")
}

// TestFollowEnds: unknown and closed threads are told once, and end no other.
func TestFollowEnds(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.open("t2")
	w.put("t1", said("go"))
	w.put("t2", said("go"))
	w.append("t2", closedBatch())
	v := w.watchPath(following("t1", "nobody", "t2", "%00"), "")
	ends := map[string]string{}
	events := map[string]int{}
	for range 6 {
		if f := v.mustNext().followed(t); f.Ended != "" {
			ends[f.ThreadID] = f.Ended
		} else {
			events[f.ThreadID]++
		}
	}
	assert.Equal(t, map[string]string{"nobody": "unknown", "t2": "closed", "\x00": "unknown"}, ends)
	assert.Equal(t, map[string]int{"t1": 1, "t2": 2}, events)
	w.put("t1", replied("m1", "still here"))
	assert.Contains(t, v.mustNext().data, "still here")

	again := w.watchPath(following("nobody", "t2", "%00"), v.lastID)
	assert.Equal(t, http.StatusNoContent, again.res.StatusCode, "it was told")
	require.NoError(t, w.store.MarkErased(w.ctx, store.Key{Namespace: "default", ThreadID: "t2"}))
	require.NoError(t, w.store.MarkErased(w.ctx, store.Key{Namespace: "default", ThreadID: "t3"}))
	erased := w.watchPath(following("t1", "t3"), v.lastID)
	assert.Equal(t, "unknown", erased.mustNext().followed(t).Ended, "an erased one does not end the others")
	w.put("t1", replied("m2", "and still"))
	assert.Contains(t, erased.mustNext().data, "and still")
	w.open("nobody")
	w.put("nobody", said("here I am"))
	again = w.watchPath(following("nobody", "t2"), v.lastID)
	f := again.mustNext().followed(t)
	assert.Equal(t, "nobody", f.ThreadID)
	assert.Contains(t, string(f.Event), "here I am", "from the beginning")
}

// TestFollowOthers: a client changes the threads that it follows, and misses nothing of those that it keeps.
func TestFollowOthers(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"t1", "t2", "t3"} {
		w.open(id)
		w.put(id, said("old"))
	}
	v := w.watchPath(following("t1", "t2")+"&from=now", "")
	first := "" // the id that comes without an event
	for v.lastID == "" && v.lines.Scan() {
		_, first, _ = strings.Cut(v.lines.Text(), "id: ")
		v.lastID = first
	}
	w.put("t2", replied("m1", "missed"))
	w.put("t3", replied("m1", "new"))
	next := w.watchPath(following("t3", "t2"), first)
	var texts []string
	for range 3 {
		f := next.mustNext().followed(t)
		var e event.AgentEvent
		require.NoError(t, json.Unmarshal(f.Event, &e))
		texts = append(texts, f.ThreadID+" "+e.Message.Content)
	}
	assert.ElementsMatch(t, []string{"t2 missed", "t3 old", "t3 new"}, texts)
	assert.Less(t, slices.Index(texts, "t3 old"), slices.Index(texts, "t3 new"))

	page := func(id string) string {
		return w.call("GET", "/v1/threads/"+id+"/events", nil).ok(t, http.StatusOK).body["lastEventId"].(string)
	}
	ends := "&after=" + page("t3") + "&after=" + page("t1")
	w.put("t1", replied("m1", "kept"))
	after := w.watchPath(following("t3", "t1")+"&from=now"+ends, "")
	assert.Contains(t, after.mustNext().data, "kept", "it goes on after a page")
	back := w.watchPath(following("t1")+"&lastEventId="+first, "")
	assert.Contains(t, back.mustNext().data, "kept", "an id may be sent in the query")
}

func TestFollowRefusals(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.MaxViewers = 3 })
	var many []string
	for i := range 51 {
		many = append(many, fmt.Sprint("t", i))
	}
	for path, status := range map[string]int{
		"/v1/events":                                http.StatusUnprocessableEntity,
		following(many...):                          http.StatusUnprocessableEntity,
		following("t1", "t1"):                       http.StatusUnprocessableEntity,
		following("t1") + "&from=then":              http.StatusUnprocessableEntity,
		following("t1") + "&after=1&after=2":        http.StatusUnprocessableEntity,
		following("t1") + "&after=x":                http.StatusBadRequest,
		following("t1") + "&lastEventId=12":         http.StatusBadRequest,
		following("t1") + "&lastEventId=SoTCLpRo=x": http.StatusOK, // the name of no thread that is followed
	} {
		got := w.viewer(path)
		assert.Equal(t, status, got.StatusCode, path)
		_ = got.Body.Close()
	}
	w.open("t1")
	v := w.watchPath(following("t1")+"&from=now", "")
	for v.lastID == "" && v.lines.Scan() {
		_, v.lastID, _ = strings.Cut(v.lines.Text(), "id: ")
	}
	name, _, _ := strings.Cut(v.lastID, "=")
	w.call("GET", following("t1")+"&lastEventId="+name+"=1.x", nil).problem(t, http.StatusBadRequest)
	v.cancel()

	// Each thread counts as a viewer, as long as it is followed.
	for i := range 4 {
		w.open(many[i+2])
	}
	got := w.viewer(following(many[2:6]...))
	assert.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	_ = got.Body.Close()
	require.Eventually(t, func() bool {
		v := w.viewer(following(many[2:5]...))
		defer v.Body.Close()
		return v.StatusCode == http.StatusOK
	}, testenv.Patience, 10*time.Millisecond, "those that were refused have left")
}
