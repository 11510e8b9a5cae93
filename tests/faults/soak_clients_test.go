package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/signals"
)

// slot is the place of a thread. When the thread is closed, another replaces it.
type slot struct {
	name string

	mu     sync.Mutex
	opened int
	of     *register
}

// register has the posts of clients to a thread, and the responses.
type register struct {
	id      string
	posting sync.WaitGroup // posts in progress

	mu      sync.Mutex
	entries map[string]*soakText // by the first word of their text
}

// soakText is a text that was posted.
type soakText struct {
	name      string // its first word
	rest      string
	client, n int // the client's n-th
	accepted  bool
}

// answer is the response to a post.
type answer struct {
	accepted bool
	over     bool // the thread does not exist, or is closed
	why      string
}

// way is a way to post.
type way struct {
	name string

	// unnamed posts have an id of the server's: they cannot be repeated.
	unnamed bool
	batch   int // posts at once
	send    func(ctx context.Context, thread string, posts []*soakText) []answer
}

// expected are the responses to valid posts, during any outage.
var expected = map[int]bool{
	http.StatusOK: true, http.StatusAccepted: true, http.StatusNotFound: true, http.StatusConflict: true,
	http.StatusTooManyRequests: true, http.StatusServiceUnavailable: true,
}

// poster is a client that posts one text after another.
type poster struct {
	*soak
	slot   *slot
	client int
	n      int
	random *rand.Rand
}

// tries is the maximum number of attempts to post a text.
const tries = 20

// padding makes a text so large that a queue holds four.
var padding = " " + strings.Repeat("x", 180<<10)

// soakAgain is the time before a client's next post after a rejection.
const soakAgain = 100 * time.Millisecond

func (e *soakText) text() string { return e.name + e.rest }

// open puts a new thread into a slot. The first post with a way that opens threads opens every
// other one.
func (s *soak) open(sl *slot) {
	sl.mu.Lock()
	sl.opened++
	l := &register{id: fmt.Sprintf("%s-%d", sl.name, sl.opened), entries: map[string]*soakText{}}
	sl.of = l
	explicit := sl.opened%2 == 1
	sl.mu.Unlock()
	if explicit {
		s.await("the thread is open", func() bool {
			status := s.server.Try(s.t.Context(), http.MethodPost, "/v1/threads", map[string]any{"id": l.id}, nil)
			return status == http.StatusCreated || status == http.StatusConflict // a post opened it first
		})
	}
}

func (sl *slot) thread() *register {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.of
}

// enter returns the thread of a slot for posting. posting.Done leaves it.
func (sl *slot) enter() *register {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.of.posting.Add(1)
	return sl.of
}

// posts counts the accepted posts of the thread in a slot.
func (sl *slot) posts() (n int) {
	l := sl.thread()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.accepted {
			n++
		}
	}
	return n
}

// allWays are the submissions over HTTP, and those of any Temporal client.
func (s *soak) allWays() (out []way) {
	over := maps.Clone(submissions)
	over["event by its thread"] = submission{path: "/v1/events", body: func(thread, id, text string) any {
		return map[string]any{"id": id, "type": "tick", "payload": text, "metadata": map[string]any{"trigger_session_id": thread}}
	}}
	wait := submissions["message"]
	wait.path += "?wait=true"
	over["message and wait"] = wait
	for _, name := range slices.Sorted(maps.Keys(over)) {
		out = append(out, way{name: name, unnamed: over[name].unnamed, batch: 1, send: s.overHTTP(over[name])})
	}
	return append(out,
		way{name: "signal", batch: 1, send: s.bySignal},
		way{name: "update", batch: 1, send: s.byUpdate},
		way{name: "batch", batch: 3, send: s.byBatch},
	)
}

func (s *soak) byName(name string) way {
	return s.ways[slices.IndexFunc(s.ways, func(w way) bool { return w.name == name })]
}

func (s *soak) overHTTP(sub submission) func(context.Context, string, []*soakText) []answer {
	return func(ctx context.Context, thread string, posts []*soakText) []answer {
		req, err := sub.request(ctx, s.server.URL, thread, posts[0].name, posts[0].text())
		if err != nil {
			return []answer{{why: err.Error()}}
		}
		res, err := s.http.Do(req)
		if err != nil {
			return []answer{{why: "no answer"}}
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return []answer{{why: "half an answer"}}
		}
		a := answer{why: fmt.Sprint(res.StatusCode), accepted: res.StatusCode < 300}
		a.over = res.StatusCode == http.StatusConflict || res.StatusCode == http.StatusNotFound
		var told struct{ Status string }
		if a.accepted && json.Unmarshal(body, &told) == nil && told.Status == "ignored" {
			a = answer{why: "ignored", over: true}
		}
		if !expected[res.StatusCode] {
			s.wrong("misanswered", &register{id: thread}, "%s: %s: %s", req.URL, res.Status, body)
		}
		return []answer{a}
	}
}

// rawPost is a post as other languages write it.
func rawPost(e *soakText) map[string]any {
	return map[string]any{"id": e.name, "type": "tick", "timestamp": 1_700_000_000_000, "payload": e.text()}
}

// ofTemporal is the meaning of Temporal's error for a post.
func ofTemporal(err error) answer {
	var app *temporal.ApplicationError
	var none *serviceerror.NotFound
	switch {
	case errors.As(err, &none):
		return answer{over: true, why: "not found"}
	case !errors.As(err, &app):
		return answer{why: fmt.Sprintf("%T", err)}
	case app.Type() == signals.DuplicateType:
		return answer{accepted: true}
	}
	return answer{over: app.Type() == signals.ClosedType, why: app.Type()}
}

func (s *soak) bySignal(ctx context.Context, thread string, posts []*soakText) []answer {
	ctx, cancel := context.WithTimeout(ctx, soakAnswer)
	defer cancel()
	id := signals.WorkflowID(signals.DefaultNamespace, thread)
	if err := s.temporal.SignalWorkflow(ctx, id, "", signals.SignalPost, rawPost(posts[0])); err != nil {
		return []answer{ofTemporal(err)}
	}
	return []answer{{accepted: true, why: "taken"}}
}

func (s *soak) byUpdate(ctx context.Context, thread string, posts []*soakText) []answer {
	var out signals.PostResult
	if err := s.update(ctx, thread, signals.UpdatePost, rawPost(posts[0]), &out); err != nil {
		return []answer{ofTemporal(err)}
	}
	return []answer{{accepted: true, why: out.Status}}
}

func (s *soak) byBatch(ctx context.Context, thread string, posts []*soakText) []answer {
	raw := make([]map[string]any, len(posts))
	for i, e := range posts {
		raw[i] = rawPost(e)
	}
	var out signals.PostBatchResult
	err := s.update(ctx, thread, signals.UpdatePostBatch, map[string]any{"posts": raw}, &out)
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() == signals.NothingPostedType {
		err = app.Details(&out)
	}
	answers := make([]answer, len(posts))
	for i := range posts {
		switch {
		case err != nil:
			answers[i] = ofTemporal(err)
		case i >= len(out.Results):
			answers[i] = answer{why: "no result"}
		default:
			status := out.Results[i].Status
			answers[i] = answer{accepted: status == signals.PostQueued || status == signals.PostDuplicate, why: status}
		}
	}
	return answers
}

func (s *soak) update(ctx context.Context, thread, name string, arg, out any) error {
	ctx, cancel := context.WithTimeout(ctx, soakAnswer)
	defer cancel()
	h, err := s.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: signals.WorkflowID(signals.DefaultNamespace, thread), UpdateName: name, Args: []any{arg},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return h.Get(ctx, out)
}

func newPoster(s *soak, sl *slot, number int) *poster {
	return &poster{soak: s, slot: sl, client: number, random: rand.New(rand.NewPCG(soakSeed, uint64(number+1)))}
}

// post posts until ctx ends, and finishes posts in progress.
func (p *poster) post(ctx context.Context) {
	for ctx.Err() == nil {
		w, rest := p.ways[p.random.IntN(len(p.ways))], ""
		if w.name == "message" && p.random.IntN(10) == 0 {
			rest = "\ncount 10 every 50ms" // others wait behind it
		}
		l := p.slot.enter()
		a := p.one(p.t.Context(), l, w, rest)
		l.posting.Done()
		switch {
		case !a.accepted:
			p.think(soakAgain)
		case p.random.IntN(10) == 0:
			p.think(p.pace.think)
		}
	}
}

// think waits before the next post.
func (p *poster) think(about time.Duration) {
	timer := time.NewTimer(about/2 + time.Duration(p.random.Int64N(int64(about))))
	defer timer.Stop()
	<-timer.C
}

// one posts new texts, one unless it is a batch, and repeats some: because they were rejected, or
// at random.
func (p *poster) one(ctx context.Context, l *register, w way, rest string) answer {
	posts := make([]*soakText, w.batch)
	for i := range posts {
		p.n++
		posts[i] = &soakText{name: fmt.Sprintf("c%d-%d", p.client, p.n), rest: rest, client: p.client, n: p.n}
		if p.client < 0 {
			posts[i].name = fmt.Sprintf("f%d-%d", -p.client, p.n)
		}
	}
	l.mu.Lock()
	for _, e := range posts {
		l.entries[e.name] = e
	}
	l.mu.Unlock()
	insists := !w.unnamed && p.random.IntN(2) == 0
	again := !w.unnamed && p.random.IntN(10) == 0
	a := p.attempt(ctx, l, w, posts)
	for i := 1; i < tries && insists && !a.accepted && !a.over; i++ {
		p.think(soakAgain)
		a = p.attempt(ctx, l, w, posts)
	}
	if again && a.accepted {
		p.attempt(ctx, l, w, posts)
	}
	return a
}

// attempt posts, and counts the outcomes. It returns the worst response.
func (p *poster) attempt(ctx context.Context, l *register, w way, posts []*soakText) (worst answer) {
	answers := w.send(ctx, l.id, posts)
	l.mu.Lock()
	defer l.mu.Unlock()
	worst = answers[0]
	for i, a := range answers {
		e := posts[i]
		p.figures.enter(w.name, a, a.accepted && !e.accepted)
		e.accepted = e.accepted || a.accepted
		if !a.accepted {
			worst = a
		}
	}
	return worst
}
