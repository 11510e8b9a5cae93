package thread

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/hook"
)

// Pace contains how long the thread's steps have taken. Quick ones run as local activities, within a workflow task.
type Pace struct {
	// Steps are the last steps of each kind, the kind that was used last at the end.
	Steps []Paced `json:"steps,omitempty"`
}

// Paced contains the durations of the last steps of one kind, in milliseconds.
type Paced struct {
	Kind string  `json:"kind"`
	Last []int64 `json:"last"`
}

const (
	// quickWithin is the duration within which a step is quick. A local activity has half a second more.
	quickWithin = time.Second

	maxPaced     = 64 // kinds
	maxDurations = 3  // of each kind
)

// Took notes the duration of a step in milliseconds. 0 = the next step of the kind must be an activity, negative = it is not known.
func (p *Pace) Took(kind string, ms int64) {
	if kind == "" || ms < 0 {
		return
	}
	step := Paced{Kind: kind}
	if i := p.index(kind); i >= 0 {
		step = p.Steps[i]
		p.Steps = slices.Delete(p.Steps, i, i+1)
	}
	if ms == 0 {
		return
	}
	step.Last = keepLast(append(step.Last, ms), maxDurations)
	p.Steps = keepLast(append(p.Steps, step), maxPaced)
}

// Quick reports whether a step usually ends soon: all that are known of its kind did, and one is known.
func (p *Pace) Quick(kind string) bool {
	i := p.index(kind)
	return i >= 0 && p.Steps[i].quick()
}

func (s Paced) quick() bool {
	return !slices.ContainsFunc(s.Last, func(ms int64) bool { return ms > quickWithin.Milliseconds() })
}

// QuickSteps returns those of the quick kinds.
func (p *Pace) QuickSteps() []Paced {
	var quick []Paced
	for _, s := range p.Steps {
		if s.quick() {
			quick = append(quick, Paced{s.Kind, slices.Clone(s.Last)})
		}
	}
	return quick
}

// Inherit adds the steps of other threads of the kinds that the thread knows nothing of.
func (p *Pace) Inherit(steps []Paced) {
	unknown := slices.DeleteFunc(slices.Clone(steps), func(s Paced) bool { return p.index(s.Kind) >= 0 })
	p.Steps = keepLast(append(unknown, p.Steps...), maxPaced)
}

func (p *Pace) index(kind string) int {
	return slices.IndexFunc(p.Steps, func(s Paced) bool { return s.Kind == kind })
}

// ModelKind returns the kind of the run's model calls on a task queue, or "" if the next one must be an
// activity: it is repeated, or its provider has a task queue of its own.
func (r *AgentRun) ModelKind(queue string) string {
	if queue != "" || r.Outage != nil {
		return ""
	}
	return r.modelKind(cmp.Or(r.Agent, r.turn.thread.Roster.Default))
}

func (r *AgentRun) modelKind(agent string) string {
	model := ""
	if r.Next != nil {
		model = r.Next.Model
	}
	return "model/" + agent + "/" + model
}

// FirstKind returns the kind that a step has in a new thread. If it was opened without agents, it does not know the name of its
// default agent yet.
func (ro *Roster) FirstKind(kind string) string {
	if model, ok := strings.CutPrefix(kind, "model/"+ro.Default+"/"); ok && len(ro.Agents) == 0 {
		return "model//" + model
	}
	return kind
}

// HooksKind returns the kind of the steps that run these hooks.
func HooksKind(specs []hook.Spec) string { return "hooks/" + Names(specs) }

// Kind returns the kind of the call's runs, or "" if they must be activities: the tool has a task queue of its own.
func (c *Call) Kind() string {
	if c.Plan.TaskQueue != "" {
		return ""
	}
	return "tool/" + c.Plan.Name
}
