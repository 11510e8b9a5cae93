package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tests/internal/check"
)

// figures are the counts of the soak.
type figures struct {
	answers, accepted atomic.Int64

	mu     sync.Mutex
	counts map[string]int
}

// wrongs are the forbidden outcomes.
var wrongs = []string{"lost", "duplicated", "reordered", "changed", "unprocessed", "misanswered", "unknown"}

// found is what a thread has stored of a text.
type found struct {
	seq    int64  // of its first record
	event  string // the id of its event
	stored int    // as a message or an environment event
	asked  int    // as a prompt, which becomes a message
	kept   int    // as a failed event
}

func (f *figures) add(what string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what] += n
}

func (f *figures) count(what string) { f.add(what, 1) }

func (f *figures) of(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[what]
}

// enter counts an attempt; first means that its text is accepted for the first time.
func (f *figures) enter(way string, a answer, first bool) {
	f.count("attempts")
	if first {
		f.count("accepted")
		f.count("accepted by " + way)
		f.accepted.Add(1)
	}
	if !a.accepted {
		f.count("answered " + a.why)
	}
	f.answers.Add(1)
}

func (f *figures) line() string {
	var b strings.Builder
	for _, what := range append([]string{
		"attempts", "accepted", "kills", "database stops", "closed threads", "accounted", "processed", "failed events kept",
		"not accepted and absent", "not accepted and there",
	}, wrongs...) {
		fmt.Fprintf(&b, "%s %d, ", what, f.of(what))
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// table has the figures that line omits.
func (f *figures) table() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(f.counts)) {
		if strings.HasPrefix(what, "accepted by ") || strings.HasPrefix(what, "answered ") || strings.HasPrefix(what, "ended ") {
			fmt.Fprintf(&b, "%s: %d\n", what, f.counts[what])
		}
	}
	return b.String()
}

func (s *soak) awaitMore(counter *atomic.Int64, n int64) {
	s.t.Helper()
	until := counter.Load() + n
	s.await("posts are answered", func() bool { return counter.Load() >= until })
}

// await waits for an expected event. Goroutines of the test may call it.
func (s *soak) await(what string, done func() bool) {
	s.t.Helper()
	assert.Eventually(s.t, done, soakOver, testenv.Tick, what)
}

// awaitEnd waits until a closed thread has ended.
func (s *soak) awaitEnd(l *register) {
	s.await("the end of thread "+l.id, func() bool {
		ctx, cancel := context.WithTimeout(s.t.Context(), soakAnswer)
		defer cancel()
		d, err := s.temporal.DescribeWorkflowExecution(ctx, signals.WorkflowID(signals.DefaultNamespace, l.id), "")
		return err == nil && d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	})
}

// awaitIdle waits until an open thread has nothing left to do, or does not exist.
func (s *soak) awaitIdle(l *register) {
	s.await("nothing is left to do in thread "+l.id, func() bool {
		var queue struct {
			Processing *event.Item
			Items      []event.Item
		}
		switch s.server.Try(s.t.Context(), http.MethodGet, "/v1/threads/"+l.id+"/queue", nil, &queue) {
		case http.StatusOK:
			return queue.Processing == nil && len(queue.Items) == 0
		case http.StatusNotFound:
			return true
		}
		return false
	})
}

// account compares the records of a thread with the responses to clients.
func (s *soak) account(l *register, closed bool) {
	texts, ends := map[string]*found{}, map[string]string{}
	for after := int64(0); ; {
		page, err := s.db.Records(s.t.Context(), key(l.id), store.Query{After: after, MaxBytes: 8 << 20})
		if err != nil {
			s.wrong("unknown", l, "its records cannot be read: %v", err)
			return
		}
		for _, r := range page {
			if after++; r.Seq != after {
				s.wrong("unknown", l, "record %d is there and %d is not", r.Seq, after)
			}
			after = r.Seq
			s.note(l, r, texts, ends)
		}
		if len(page) == 0 {
			break
		}
	}
	s.compare(l, texts, ends, closed)
	s.figures.count("accounted")
}

// note counts a record.
func (s *soak) note(l *register, r event.Record, texts map[string]*found, ends map[string]string) {
	see := func(text string) *found {
		name := text
		if i := strings.IndexAny(text, " \n"); i >= 0 {
			name = text[:i]
		}
		e := l.entries[name]
		if e == nil {
			s.wrong("unknown", l, "nobody has posted %.40q, which is stored as %s", text, r.ID)
			return &found{}
		}
		f := texts[name]
		if f == nil {
			f = &found{seq: r.Seq, event: r.EventID}
			texts[name] = f
		}
		if text != e.text() {
			s.wrong("changed", l, "%s has %d bytes, and had %d", name, len(text), len(e.text()))
		}
		return f
	}
	switch r.Type {
	case event.TypeMessage:
		if m := check.Decode[event.Message](s.t, r.Payload); m.SenderType == event.CreatedByUser {
			see(m.Content).stored++
		}
	case event.TypeEnv:
		e := check.Decode[event.EnvEvent](s.t, r.Payload)
		if text := textOf(e.Payload); e.Type == event.TypeUserQuery {
			see(text).asked++
		} else {
			see(text).stored++
		}
	case event.TypeUnqueued:
		see(textOf(check.Decode[event.Unqueued](s.t, r.Payload).Event.Payload)).kept++
	case event.TypeTurnEnded:
		end := check.Decode[event.TurnEnded](s.t, r.Payload)
		for _, id := range append(end.Joined, end.EventID) {
			ends[id] = end.Status
		}
	case event.TypeRejected:
		s.wrong("unknown", l, "rejected: %s", r.Payload)
	}
}

// textOf returns the text in a payload: a string, a request of a webhook, or a person's message.
func textOf(payload json.RawMessage) string {
	var text string
	if json.Unmarshal(payload, &text) == nil {
		return text
	}
	var fields struct{ Text, Content string }
	_ = json.Unmarshal(payload, &fields) // otherwise it is not a posted text
	return cmp.Or(fields.Text, fields.Content)
}

// compare accounts for each text that was posted to a thread.
func (s *soak) compare(l *register, texts map[string]*found, ends map[string]string, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := map[int]*soakText{}
	for _, e := range asPosted(l.entries) {
		f := texts[e.name]
		if f == nil {
			if e.accepted {
				s.wrong("lost", l, "%s was accepted", e.name)
			} else {
				s.figures.count("not accepted and absent")
			}
			continue
		}
		if f.stored > 1 || f.asked > 1 || f.kept > 1 || f.kept > 0 && f.stored+f.asked > 0 {
			s.wrong("duplicated", l, "%s: %+v", e.name, *f)
		}
		if !e.accepted {
			s.figures.count("not accepted and there")
			continue
		}
		if f.kept > 0 {
			s.figures.count("failed events kept")
			s.requireShown(l, e, f)
			continue
		}
		s.figures.count("processed")
		s.figures.count("ended " + ends[f.event])
		if how := ends[f.event]; how != string(signals.TurnCompleted) && (!closed || how != string(signals.TurnInterrupted)) {
			s.wrong("unprocessed", l, "the turn of %s ended %q", e.name, how)
		}
		if before := newest[e.client]; before != nil && texts[before.name].seq > f.seq {
			s.wrong("reordered", l, "%s is record %d, and %s, which was posted before, %d", e.name, f.seq, before.name, texts[before.name].seq)
		}
		newest[e.client] = e
	}
}

// requireShown checks that people can see a failed event with its content.
func (s *soak) requireShown(l *register, e *soakText, f *found) {
	if s.server == nil {
		return // the test of the accounts
	}
	var item event.Item
	s.await("an answer about "+e.name, func() bool {
		status := s.server.Try(s.t.Context(), http.MethodGet, "/v1/threads/"+l.id+"/queue/"+f.event, nil, &item)
		return status != 0 && status < http.StatusInternalServerError
	})
	if item.Status != event.ItemFailed || textOf(item.Payload) != e.text() {
		s.wrong("changed", l, "the queue has %s as %q, with %d bytes", e.name, item.Status, len(item.Payload))
	}
}

// asPosted returns entries by client, in the order of its posts.
func asPosted(entries map[string]*soakText) []*soakText {
	return slices.SortedFunc(maps.Values(entries), func(a, b *soakText) int {
		return cmp.Or(a.client-b.client, a.n-b.n)
	})
}

func (s *soak) wrong(what string, l *register, format string, args ...any) {
	s.figures.count(what)
	s.complain("%s in thread %s: %s", what, l.id, fmt.Sprintf(format, args...))
}

// TestSoakAccounts: the soak detects the forbidden outcomes.
func TestSoakAccounts(t *testing.T) {
	t.Parallel()
	tick := func(id, text string) []event.Record {
		payload := event.EnvEvent{ID: id, Type: "tick", Payload: json.RawMessage(fmt.Sprintf("%q", text))}
		env := event.NewRecord(id, event.TypeEnv, id, id, time.Now(), payload)
		end := event.NewRecord(id+".turn_ended", event.TypeTurnEnded, id, id, time.Now(), event.TurnEnded{EventID: id, Status: "completed"})
		env.EventID, end.EventID = id, id
		return []event.Record{env, end}
	}
	fine := append(tick("a", "c0-1"), tick("b", "c0-2 xx")...)
	for what, records := range map[string][]event.Record{
		"":            fine,
		"lost":        fine[:2],
		"duplicated":  append(slices.Clone(fine), tick("c", "c0-1")...),
		"reordered":   append(slices.Clone(fine[2:]), fine[:2]...),
		"changed":     append(slices.Clone(fine[:2]), tick("b", "c0-2 x")...),
		"unprocessed": fine[:3],
		"unknown":     append(slices.Clone(fine), tick("c", "c0-4")...),
	} {
		s := newSoak(t)
		s.complain = func(string, ...any) {}
		db, err := sqlite.Open(t.Context(), sqlite.Config{})
		require.NoError(t, err)
		s.db = db
		_, err = db.Append(t.Context(), key("t"), store.Batch{Records: records})
		require.NoError(t, err)
		texts := map[string]*soakText{}
		for n, rest := range []string{"", " xx", ""} {
			name := fmt.Sprintf("c0-%d", n+1)
			texts[name] = &soakText{name: name, rest: rest, n: n, accepted: n < 2}
		}
		s.account(&register{id: "t", entries: texts}, false)
		for _, w := range wrongs {
			require.Equal(t, w == what, s.figures.of(w) == 1, "%s, where something is %q", w, what)
		}
		require.Equal(t, 1, s.figures.of("not accepted and absent"))
		require.NoError(t, db.Close())
	}
}
