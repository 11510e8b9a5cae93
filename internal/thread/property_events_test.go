package thread

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// rules are those that there are at the moment.
func (m *machine) rules() []rule.Spec {
	if m.crowd != nil {
		return []rule.Spec{wakes}
	}
	if !m.env {
		return nil
	}
	agent := &rule.Agent{Name: []string{"", "bob"}[m.rnd.IntN(2)]}
	files := []string{"file.*"}
	return append([][]rule.Spec{
		nil,
		{{Name: "keep", Events: files, Priority: 1, Log: true}},
		{{Name: "f", Events: files, Priority: 1, Function: true}},
		{{Name: "f", Events: files, Priority: 1, Function: true, Agent: agent}},
		{{Name: "p", Events: files, Priority: 1, Processor: "sorter"}},
		{{Name: "d", Events: files, Priority: 1, Debounce: 3 * time.Second, Agent: agent}},
		{{Name: "t", Events: files, Priority: 1, Throttle: 5 * time.Second, Agent: agent}},
		{{Name: "t", Events: []string{"tool.*", "file.*"}, Priority: 1, Debounce: time.Second, Function: true}},
	}[m.rnd.IntN(8)], defaults[:m.rnd.IntN(len(defaults)+1)]...)
}

// happen posts an environment event.
func (m *machine) happen() {
	p := happens(fmt.Sprintf("v%d", m.rnd.IntN(40)), "file.changed", `1`)
	if m.one(4) {
		p.Type, p.Payload = event.TypeUserQuery, []byte(`{"content":"@bob hello"}`)
	}
	p.Priority, p.TTL = m.rnd.IntN(3), int64(m.rnd.IntN(2)*5000)
	seen := m.s.Inbox.WasPosted(p.ID)
	out, err := postAt(m.s, m.now, p)
	if m.conflicts(p, err) {
		require.True(m.t, seen)
		return
	}
	require.NoError(m.t, err)
	require.Equal(m.t, seen, out.Duplicate, "S3-10")
	if !seen {
		m.posted = append(m.posted, p.ID)
	}
}

// handle lets the function or the processor of a rule act.
func (m *machine) handle() {
	t := m.s.Turns.Current
	if t == nil || !t.handlingPending() || t.Interrupted != nil {
		return
	}
	if t.Handling.Stage == HandlingProcessor {
		if d, ok := m.hears(m.s.Turns.Current.RuleEvent()); ok {
			m.s.Turns.Current.ApplyProcessorDecision(m.now, d)
		}
		return
	}
	in := m.s.Turns.Current.EventStep()
	m.flush(in.Flush)
	if m.one(3) {
		m.s.Turns.Current.FunctionFailed(m.now, "no")
		return
	}
	m.s.Turns.Current.FunctionDone(false)
}

// release lets the thread do what is due.
func (m *machine) release() {
	m.s.Release(m.now)
	due, _, ok := m.s.NextDue()
	require.True(m.t, !ok || due.After(m.now), "what is due is done")
}

// startTask lets a call start a background task, which may be a sub-agent.
func (m *machine) startTask() {
	r, c := m.call(CallReady)
	if r == nil || m.s.Tasks.CheckLimit() != "" || m.s.Turns.Current.CheckDelegate() != "" {
		return
	}
	c.Plan.Task = &step.TaskPlan{Tool: "build", Deadline: time.Hour, Detached: m.one(2)}
	var in step.Task
	if m.one(3) {
		c.Plan.SubAgent = &step.SubAgentPlan{Agent: "bob", Message: "do it"}
		in, _ = c.DelegateTask(m.now)
	} else {
		in = c.StartTask(m.now)
	}
	require.False(m.t, m.tasks[in.Task.ID], "no id is used twice")
	m.tasks[in.Task.ID] = true
	if m.one(5) {
		c.TaskNotStarted(m.now, in.Task, "no")
		return
	}
	c.TaskStarted(m.now, in.Task)
}

// endTask ends a task in one of the ways in which one can, also one that has ended.
func (m *machine) endTask() {
	if m.s.Tasks.Count == 0 {
		return
	}
	id := signals.TaskID("t1", m.rnd.IntN(m.s.Tasks.Count)+1)
	switch m.rnd.IntN(4) {
	case 0:
		_ = m.s.TaskReported(m.now, step.TaskReport{TaskID: id, TaskReply: step.TaskReply{Error: []string{"", "no"}[m.rnd.IntN(2)]}})
	case 1:
		m.s.CompleteTask(m.now, signals.CompleteTask{TaskID: id})
	case 2:
		m.s.CancelTask(m.now, signals.CancelTask{TaskID: id, By: "ann"}, m.one(2))
	case 3:
		for _, sub := range m.s.Children.SubAgents {
			if sub.TaskID == id {
				m.s.SubAgentEnded(m.now, step.SubAgentEnded{ThreadID: sub.ThreadID})
				return
			}
		}
	}
}

// delegate lets a call ask a sub-agent.
func (m *machine) delegate() {
	r, c := m.call(CallReady)
	if r == nil || m.s.Turns.Current.CheckDelegate() != "" {
		return
	}
	c.Plan.SubAgent = &step.SubAgentPlan{Agent: "bob", Message: "do it"}
	id, start := c.Delegate()
	require.NoError(m.t, start.First.Validate(id))
}

// subEnds lets a sub-agent answer, or be lost.
func (m *machine) subEnds() {
	r, c := m.call(CallDelegated)
	if r == nil || m.s.Turns.Current.Interrupted != nil {
		return
	}
	if m.one(4) {
		c.SubAgentLost(m.now, "gone")
		return
	}
	m.keep([]event.Record{event.NewRecord(recordid.Result(c.Plan.ID), event.TypeMessage, "", "", m.now, event.Message{ToolCallID: c.Plan.ID})})
	c.SubAgentReplied(m.now, step.DelegateReply{Failed: m.one(3)})
}

// subAsks lets a sub-agent ask for an approval or for input, and people decide.
func (m *machine) subAsks() {
	if len(m.s.Children.SubAgents) == 0 {
		return
	}
	id := m.s.Children.SubAgents[m.rnd.IntN(len(m.s.Children.SubAgents))].ThreadID
	if m.one(2) {
		m.subAsksInput(id)
		return
	}
	callID := fmt.Sprintf("%s.x%d", id, m.rnd.IntN(3))
	m.s.SubAgentRequested(wants(id, callID))
	sub, _ := m.s.Children.approval(callID)
	require.NotNil(m.t, sub)
	if m.one(2) {
		m.asked[callID] = true
		m.keep([]event.Record{event.NewRecord(recordid.Result(callID), event.TypeMessage, "", "", m.now, event.Message{ToolCallID: callID})})
		m.s.SubAgentDecided(m.now, decided(id, callID, event.DecisionApprove))
		sub, _ = m.s.Children.approval(callID)
		require.Nil(m.t, sub)
	}
}

// subAsksInput lets a sub-agent ask for input, and people answer, or it is withdrawn.
func (m *machine) subAsksInput(threadID string) {
	m.calls++
	q := event.InputRequest{ToolCallID: fmt.Sprintf("%s.i%d", threadID, m.calls), ToolName: "book", Agent: "bob", Round: 1, Questions: []event.InputQuestion{{ID: "q"}}}
	m.s.SubAgentRequested(step.SubAgentRequest{ThreadID: threadID, Input: &q})
	a := signals.InputAnswers{ToolCallID: q.ToolCallID, By: "ann", Answers: map[string]event.InputAnswer{"q": {Action: event.InputDecline}}}
	require.True(m.t, m.s.ReadAnswer(a).Below())
	require.Contains(m.t, m.s.InputRequests(), q)
	f, err := m.s.ReadAnswer(a).Forward(m.now)
	require.NoError(m.t, err)
	require.Equal(m.t, signals.DecideAccepted, f.Outcome)
	if m.one(3) {
		return // the child thread says nothing
	}
	got, want := withdrawn(m.now, q), signals.DecideNotPending
	if m.one(2) {
		got.Withdrawn, got.Answers, want = false, a.Answers, signals.DecideAccepted
	}
	m.s.SubAgentDecided(m.now, step.SubAgentDecision{ThreadID: threadID, ToolCallID: q.ToolCallID, Input: &got})
	require.False(m.t, m.s.Children.Waits(f))
	require.Equal(m.t, want, m.s.Decisions.Forwarded(f))
}

// checkTasks: each task runs, or has ended, and is in one place; and each sub-agent is
// waited for.
func (m *machine) checkTasks(seen map[string]int) {
	places := map[string]int{}
	for _, task := range m.s.Tasks.View().Tasks {
		places[task.ID]++
	}
	for id := range m.tasks {
		require.Positive(m.t, seen[id], "task %s left no record", id)
		runs := m.s.Tasks.index(id) >= 0
		require.Equal(m.t, runs, seen[id+".ended"] == 0, "task %s", id)
		if runs || len(m.s.Tasks.Ended) < maxTasksEnded {
			require.Equal(m.t, 1, places[id], "task %s", id)
		}
	}
	for _, sub := range m.s.Children.SubAgents {
		if sub.TaskID != "" {
			continue
		}
		require.NotNil(m.t, m.s.Turns.Current, "nobody waits for %s", sub.ThreadID)
		if m.s.Turns.Current.Interrupted == nil {
			require.Contains(m.t, m.open(), sub.ToolCallID, "nobody waits for %s", sub.ThreadID)
		}
	}
}

func TestAnySequenceOfEvents(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newMachine(t, seed, true)
			m.env, m.tasks = true, map[string]bool{}
			operations := m.operations()
			for range 300 {
				m.now = m.now.Add(time.Duration(m.rnd.IntN(2000)) * time.Millisecond)
				operations[m.rnd.IntN(len(operations))]()
				m.check()
			}
			m.finish()
			require.NotEmpty(t, m.posted)
		})
	}
}
