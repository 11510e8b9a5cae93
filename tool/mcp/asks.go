package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/event"
)

// asks finds out which call a server asks a question for. Before 2026-07-28, a question is a request in the
// middle of a call that does not name the call. A question that arrives while several calls run waits
// until one is left; tools that have asked run alone from then on.
type asks struct {
	mu      sync.Mutex
	running map[*asking]bool
	alone   map[string]bool // tools that ask
	waiting int             // calls that wait to run alone
	open    int             // questions whose call is not known yet
	changed chan struct{}   // closed and replaced when any of this changes
}

// asking is a call of a tool that may ask.
type asking struct {
	tool    string
	answers []storedAnswer // not used yet
	cancel  context.CancelCauseFunc
	asked   *sdk.ElicitParams
}

func newAsks() *asks {
	return &asks{running: map[*asking]bool{}, alone: map[string]bool{}, changed: make(chan struct{})}
}

var (
	errAsked    = errors.New("the question is put to a person; the call is made again with the answer")
	errTogether = errors.New("several calls asked for a person's input at once; make them one after the other")
)

// notify must be called with the lock held.
func (a *asks) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// begin waits until the call may run.
func (a *asks) begin(ctx context.Context, call *asking) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	counted := false
	defer func() {
		if counted {
			a.waiting--
			a.notify()
		}
	}()
	for {
		alone := a.alone[call.tool]
		if alone && !counted {
			counted = true
			a.waiting++
		}
		if alone && len(a.running) == 0 || !alone && a.waiting == 0 && a.open == 0 && !a.busyAlone() {
			a.running[call] = true
			return nil
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		a.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// busyAlone reports whether a call runs that must run alone.
func (a *asks) busyAlone() bool {
	for call := range a.running {
		if a.alone[call.tool] {
			return true
		}
	}
	return false
}

func (a *asks) end(call *asking) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, call)
	a.notify()
}

// question returns the question that ended the call, if one did.
func (a *asks) question(call *asking) *sdk.ElicitParams {
	a.mu.Lock()
	defer a.mu.Unlock()
	return call.asked
}

// owner waits until it is known which call asks.
func (a *asks) owner(ctx context.Context) (*asking, error) {
	a.open++
	a.notify()
	defer func() {
		a.open--
		a.notify()
	}()
	for {
		switch n := len(a.running); {
		case n == 0:
			return nil, errors.New("no call is running that could ask")
		case n == 1:
			for call := range a.running {
				return call, nil
			}
		case a.open >= n: // each call asks
			for call := range a.running {
				a.alone[call.tool] = true
				call.cancel(errTogether)
			}
			return nil, errTogether
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		a.mu.Lock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// elicit handles a question of a server of the old protocol: it returns the stored answer if a person has
// answered the same question, and otherwise ends the call that asks.
func (s *session) elicit(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	s.asks.mu.Lock()
	defer s.asks.mu.Unlock()
	call, err := s.asks.owner(ctx)
	if err != nil {
		return nil, err
	}
	k := questionKey(req.Params)
	for i, stored := range call.answers {
		if stored.Question == k {
			call.answers = call.answers[i+1:]
			return formResult(req.Params, stored.Answer), nil
		}
	}
	if call.asked == nil {
		call.asked = req.Params
	}
	s.asks.alone[call.tool] = true
	call.cancel(errAsked)
	return nil, errAsked
}

// storedAnswer is a person's answer to a question of a server of the old protocol.
type storedAnswer struct {
	Question string            `json:"question"` // see questionKey
	Answer   event.InputAnswer `json:"answer"`
}

// formResult returns an answer as a server gets it. The SDK adds the defaults of a form to its values.
func formResult(q *sdk.ElicitParams, a event.InputAnswer) *sdk.ElicitResult {
	r := elicitResult(a)
	if r.Content == nil && a.Action == event.InputAccept && q.Mode != "url" {
		r.Content = map[string]any{}
	}
	return r
}

func elicitResult(a event.InputAnswer) *sdk.ElicitResult {
	r := &sdk.ElicitResult{Action: string(a.Action)}
	if a.Action == event.InputAccept && len(a.Content) > 0 {
		_ = json.Unmarshal(a.Content, &r.Content) // the thread has checked it against the schema
	}
	return r
}
