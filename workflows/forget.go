package workflows

import (
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/erasures/forget"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// forgets handles the erasure of people. What a person said is in the history of this run, so the thread continues as new without it,
// and the erasure deletes this run.
type forgets struct{ *conversation }

func (t forgets) handlers() []handler {
	return []handler{onSignal(t.conversation, job.SignalForget, t.forget)}
}

// forget ends the turns in progress that have something of the person: arguments that people approved, for example, cannot be replaced.
func (t forgets) forget(ctx workflow.Context, name string, f job.Forget) {
	p, err := personOf(f)
	if err != nil {
		t.state.Reject(workflow.Now(ctx), name, nil, err)
		return
	}
	t.state.Forget(f)
	t.people = nil
	for _, id := range t.state.Concerning(p.Is, p.Concerns) {
		controls(t).control(ctx, name, signals.Control{Action: signals.ControlInterrupt, EventID: id, By: signals.Eraser, Reason: "a person is erased"})
	}
}

// forgets reports whether the thread can continue as new without what it is to forget: no turn has anything of it.
func (t *conversation) forgets() bool {
	if len(t.state.Forgetting) == 0 {
		return false
	}
	for _, p := range t.forgetting() {
		if t.state.Turns.Concerned(p.Concerns) {
			return false
		}
	}
	return true
}

// forgetting returns the people whom the thread is to forget.
func (t *conversation) forgetting() []*forget.Person {
	if t.people != nil {
		return t.people
	}
	for _, f := range t.state.Forgetting {
		if p, err := personOf(f); err == nil { // it was valid when it arrived
			t.people = append(t.people, p)
		}
	}
	return t.people
}

func personOf(f job.Forget) (*forget.Person, error) {
	p, err := forget.New(f.Person, f.Pseudonym, f.Terms)
	if err != nil {
		return nil, err
	}
	return p.In(f.Turns, f.Titles, f.Inherited), nil
}

// carried returns the state that the next workflow run starts with.
func (t *conversation) carried() *thread.State {
	state := t.state.Carried()
	if !t.forgets() {
		return state
	}
	people := t.forgetting()
	state.Forgetting = nil
	raw := mustJSON(state)
	for _, p := range people {
		raw = p.Clean(raw, false)
	}
	var out thread.State
	if err := json.Unmarshal(raw, &out); err != nil {
		panic(fmt.Sprintf("reading the state of a thread that has forgotten: %v", err)) // only texts were replaced
	}
	return &out
}
