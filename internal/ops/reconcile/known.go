package reconcile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/signals"
)

// known is what the store has and the workflow does not know.
type known struct {
	// ended are events whose turns have ended, open those whose turns have not, oldest first.
	ended []string
	open  []signals.Post

	// changed names the parts of the row that the workflow does not know.
	changed []string

	// lost is what cannot be mended, for people.
	lost []string

	// failed counts the events that could be retried.
	failed int

	decisions   []signals.Decide
	results     []signals.ToolResult
	inputs      []signals.InputAnswers
	tasks       []signals.CompleteTask
	interrupts  []signals.Control
	subs        []signals.RestoredSubAgent
	taskNumber  int
	childNumber int
}

func (k *known) empty() bool {
	return len(k.ended)+len(k.open)+len(k.decisions)+len(k.results)+len(k.inputs)+len(k.tasks)+len(k.interrupts)+len(k.subs)+len(k.changed) == 0
}

func (k *known) describe() string {
	return fmt.Sprintf("%d events, %d of them with turns that have not ended", len(k.ended)+len(k.open), len(k.open))
}

func (k *known) restore() signals.Restore {
	return signals.Restore{
		Known: k.ended, Posts: k.open, Decisions: k.decisions, Results: k.results, Inputs: k.inputs, Tasks: k.tasks, Interrupts: k.interrupts,
		TaskNumber: k.taskNumber, ChildNumber: k.childNumber, SubAgents: k.subs,
	}
}

// differences tells what the workflow does not know.
func (k *known) differences() (out []repair.Difference) {
	add := func(kind repair.Kind, n int, what, action string) {
		if n > 0 {
			out = append(out, repair.Difference{Kind: kind, In: repair.Temporal, Count: n, Detail: fmt.Sprintf("Temporal is older: its workflow lacks %s (%d)", what, n), Action: action})
		}
	}
	add(repair.Events, len(k.ended), "events whose turns have ended", "tell it their ids")
	add(repair.Turns, len(k.open), "events whose turns have not ended", "post them again; steps find their results in the store")
	add(repair.Turns, len(k.interrupts), "ends of turns that were interrupted or failed", "interrupt them")
	add(repair.Answers, len(k.decisions)+len(k.results)+len(k.inputs), "decisions and answers", "tell it; their calls find their results in the store")
	add(repair.Turns, len(k.subs), "sub-agents whose calls have not ended", "start the same again; steps find their results in the store")
	add(repair.Tasks, len(k.tasks), "ends of background tasks", "complete them")
	if len(k.changed) > 0 {
		out = append(out, repair.Difference{
			Kind: repair.Row, In: repair.Temporal, Count: len(k.changed), Detail: "Temporal is older: its workflow lacks changes of: " + strings.Join(k.changed, ", "), Action: "tell it",
		})
	}
	if k.failed > 0 && len(out) > 0 {
		out = append(out, repair.Difference{Kind: repair.Lost, In: repair.Temporal, Count: k.failed, Detail: fmt.Sprintf("%d failed events can no longer be retried; post them again", k.failed)})
	}
	for _, what := range k.lost {
		out = append(out, repair.Difference{Kind: repair.Lost, In: repair.Temporal, Count: 1, Detail: what})
	}
	return out
}

// told removes what an earlier repair told.
func (k *known) told(r signals.Restore) {
	ids := map[string]bool{}
	for _, id := range r.Known {
		ids[id] = true
	}
	for _, p := range r.Posts {
		ids[p.ID] = true
	}
	k.ended = slices.DeleteFunc(k.ended, func(id string) bool { return ids[id] })
	k.open = slices.DeleteFunc(k.open, func(p signals.Post) bool { return ids[p.ID] })
	k.decisions, k.results, k.inputs = without(k.decisions, r.Decisions), without(k.results, r.Results), without(k.inputs, r.Inputs)
	k.subs = slices.DeleteFunc(k.subs, func(sub signals.RestoredSubAgent) bool {
		return slices.ContainsFunc(r.SubAgents, func(o signals.RestoredSubAgent) bool { return o.ToolCallID == sub.ToolCallID })
	})
}

func without[T any](all, told []T) []T {
	return slices.DeleteFunc(all, func(one T) bool {
		return slices.ContainsFunc(told, func(o T) bool { return bytes.Equal(encoded(o), encoded(one)) })
	})
}

// maxPart is the size of a signal to which nothing more is added, in bytes. Its parts are smaller than a quarter of that
// each, but for posts and results, whose own signals have the same bounds.
const maxPart = 256 << 10

// split splits what a thread is told into signals of limited size. Posts come last, when all else is known.
func split(r signals.Restore) []signals.Restore {
	p := &filled{list: []signals.Restore{{Title: r.Title, Agents: r.Agents, Metadata: r.Metadata, TaskNumber: r.TaskNumber, ChildNumber: r.ChildNumber}}}
	p.size = len(encoded(p.list[0]))
	fill(p, r.SubAgents, func(to *signals.Restore) *[]signals.RestoredSubAgent { return &to.SubAgents })
	fill(p, r.Known, func(to *signals.Restore) *[]string { return &to.Known })
	fill(p, r.Decisions, func(to *signals.Restore) *[]signals.Decide { return &to.Decisions })
	fill(p, r.Results, func(to *signals.Restore) *[]signals.ToolResult { return &to.Results })
	fill(p, r.Inputs, func(to *signals.Restore) *[]signals.InputAnswers { return &to.Inputs })
	fill(p, r.Tasks, func(to *signals.Restore) *[]signals.CompleteTask { return &to.Tasks })
	fill(p, r.Interrupts, func(to *signals.Restore) *[]signals.Control { return &to.Interrupts })
	fill(p, r.Posts, func(to *signals.Restore) *[]signals.Post { return &to.Posts })
	return p.list
}

// filled are signals that are filled one after the other; size is that of the last one.
type filled struct {
	list []signals.Restore
	size int
}

// fill adds values to the last part, and begins another one when it is full.
func fill[T any](p *filled, values []T, field func(*signals.Restore) *[]T) {
	for _, v := range values {
		n, last := len(encoded(v))+len(","), &p.list[len(p.list)-1]
		if p.size += n; p.size > maxPart && p.size > n || len(last.Known) == signals.MaxRestoreIDs || len(last.Posts) == signals.MaxRestorePosts {
			p.list, p.size = append(p.list, signals.Restore{}), n
			last = &p.list[len(p.list)-1]
		}
		*field(last) = append(*field(last), v)
	}
}

// encoded returns a part as JSON, which all parts have.
func encoded(v any) []byte {
	raw, _ := json.Marshal(v)
	return raw
}
