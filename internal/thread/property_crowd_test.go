package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// crowd is what is known of agents and people who talk to one another, apart from the state.
type crowd struct {
	// rounds is how often people were asked about a call, votes are those who have approved
	// it since. Only approved calls may run of those that need it.
	rounds   map[string]int
	votes    map[string]map[string]bool
	approved map[string]bool
	needs    map[string]bool

	// answered are the messages that agents have answered, by turn.
	answered map[string]string

	// talked counts LLM calls since a person or the world has spoken.
	talked int

	// made are decisions that were accepted: none of them counts twice.
	made []signals.Decide
}

const (
	// maxCrowdSteps is the limit of an agent's LLM calls in one run.
	maxCrowdSteps = 4

	// maxTalk is above all that three agents can say to one another: each of the 15 calls
	// before all are at their limit may address two, who have a run each.
	maxTalk = 200
)

func newCrowd(t *testing.T, seed uint64) *machine {
	m := newMachine(t, seed, false)
	m.s = New("ns", "t1", signals.Start{Agents: []string{"alice", "bob", "carol"}[:2+m.rnd.IntN(2)]}, m.now, m.now)
	m.crowd = &crowd{
		rounds: map[string]int{}, votes: map[string]map[string]bool{}, approved: map[string]bool{}, needs: map[string]bool{}, answered: map[string]string{},
	}
	return m
}

// checkTwice: what is said of calls is said once, under an id of its own.
func (c *crowd) checkTwice(t *testing.T, r event.Record) {
	if c == nil {
		return
	}
	var m event.Message
	require.NotContains(t, []string{event.TypeApproval, event.TypeApprovalRequest, event.TypeClientCall}, r.Type, "record %s is there already", r.ID)
	require.True(t, r.Type != event.TypeMessage || json.Unmarshal(r.Payload, &m) == nil && m.ToolCallID == "", "result %s is there already", r.ID)
}

func (m *machine) crowdOperations() []func() {
	return []func(){
		m.say, m.say, m.observe, m.begin, m.begin, m.begin, m.converse, m.converse, m.converse, m.converse, m.effect, m.effect, m.effect,
		m.judge, m.judge, m.judge, m.misjudge, m.client, m.lookAgain, m.due, m.end, m.end, m.halt, m.retry, m.record, m.move,
	}
}

// say posts a message of anybody, to anybody.
func (m *machine) say() {
	by := []event.CreatedBy{event.CreatedByUser, event.CreatedByUser, event.CreatedByUser, event.CreatedByAgent, event.CreatedBySystem, event.CreatedByTool}[m.rnd.IntN(6)]
	sender := map[event.CreatedBy]string{event.CreatedByUser: "ann", event.CreatedByAgent: []string{"alice", "bob", "dora"}[m.rnd.IntN(3)], event.CreatedBySystem: "x", event.CreatedByTool: "the world"}[by]
	content := []string{"hello", "@alice hello", "@bob\n@alice hello", "ask @bob", "@human hello"}[m.rnd.IntN(5)]
	p := saidBy(fmt.Sprintf("p%d", m.rnd.IntN(m.events())), by, sender, content)
	p.OnBusy = []event.OnBusy{"", "", event.OnBusySteer, event.OnBusySteer, event.OnBusyInterrupt}[m.rnd.IntN(5)]
	if p.OnBusy == event.OnBusyInterrupt && !m.one(5) {
		p.OnBusy = ""
	}
	p.Priority = m.rnd.IntN(3)
	out, err := postAt(m.s, m.now, p)
	if m.conflicts(p, err) {
		return
	}
	require.NoError(m.t, err)
	if !out.Duplicate {
		m.posted = append(m.posted, p.ID)
	}
	if out.Interrupts != nil {
		m.s.Turns.Interrupt(signals.Control{Action: signals.ControlInterrupt})
	}
}

// observe lets something happen in the world.
func (m *machine) observe() {
	p := happens(fmt.Sprintf("v%d", m.rnd.IntN(m.events())), "file.changed", `1`)
	out, err := postAt(m.s, m.now, p)
	require.NoError(m.t, err)
	if !out.Duplicate {
		m.posted = append(m.posted, p.ID)
	}
}

// converse lets an agent speak: it calls tools, or turns to the others.
func (m *machine) converse() {
	if r := m.run(PhaseModel); r != nil && (m.s.Turns.Current.Interrupted == nil || m.one(4)) {
		m.speak(r, m.rnd.IntN(3))
	}
}

func (m *machine) speak(r *AgentRun, calls int) {
	c := m.crowd
	if r.AtLimit(m.now) {
		return
	}
	m.s.joined(m.now)
	if m.one(12) {
		r.fail(m.now, "no", true)
		return
	}
	if m.s.Roster.LLMCalls == nil {
		c.talked = 0
	}
	in := r.NextModelStep(nil)
	c.talked++
	require.Less(m.t, c.talked, maxTalk, "S4-46 agents do not talk for ever")
	require.NotContains(m.t, m.store, in.MessageID, "every model call has an id of its own")
	m.flush(in.Flush)
	reply := step.ModelReply{Agent: r.Agent, MaxSteps: maxCrowdSteps, Message: event.Message{ID: in.MessageID}}
	for range calls {
		reply.Calls = append(reply.Calls, m.planned())
	}
	if calls == 0 {
		reply.Message.Content = []string{"@alice what do you say?", "@bob what do you say?", "@bob\n@carol\n@alice hm", "all said"}[m.rnd.IntN(4)]
		key := fmt.Sprintf("%s %s %s", m.s.Turns.Current.TurnID(), in.ReplyTo, strings.ToLower(r.Agent))
		require.NotContains(m.t, c.answered, key, "no agent answers a message twice: %s and", in.MessageID)
		c.answered[key] = in.MessageID
	}
	m.stored(in, reply)
	m.s.took(m.now, r, reply)
}

// planned makes up a call, and how it is to be run.
func (m *machine) planned() step.PlannedCall {
	m.calls++
	id := fmt.Sprintf("c%d", m.calls)
	m.asked[id] = true
	return m.plannedAs(id)
}

func (m *machine) plannedAs(id string) step.PlannedCall {
	c := m.crowd
	p := careful(id, []string{"ls", "rm"}[m.rnd.IntN(2)], step.ApprovalPlan{
		Quorum: m.rnd.IntN(3), Expires: time.Duration(m.rnd.IntN(3)) * 20 * time.Second, Remind: time.Duration(m.rnd.IntN(2)) * 5 * time.Second,
		EndsTurn: m.one(3), Approvers: [][]string{nil, {"ann", "bea"}}[m.rnd.IntN(2)],
	})
	c.rounds[id], c.votes[id] = c.rounds[id]+1, map[string]bool{}
	c.approved[id], c.needs[id] = false, true
	switch m.rnd.IntN(6) {
	case 0:
		p.NeedsApproval, p.Approval, c.needs[id] = false, nil, false
	case 1:
		p.NeedsApproval, p.Denied, p.DeniedBy = false, "no", "policy"
	case 2:
		p, c.needs[id] = atClient(id), false
	case 3:
		p, c.needs[id] = covered(id, "ls", "c0"), false
	}
	return p
}

// effect runs a call, or has it run, if there is one. Its step may find that it is to be
// asked about again.
func (m *machine) effect() {
	defer m.goOn()
	if m.s.Turns.Current == nil || m.s.Turns.Current.Interrupted != nil {
		return
	}
	for _, r := range m.s.Turns.Current.Runs {
		if i := slices.IndexFunc(r.Calls, func(c *Call) bool { return c.Stage == CallReady }); i >= 0 {
			m.carryOut(r, r.Calls[i])
			return
		}
	}
}

func (m *machine) carryOut(r *AgentRun, c *Call) {
	id := c.Plan.ID
	if m.one(5) && m.crowd.rounds[id] < 4 {
		again := m.plannedAs(id)
		if again.By == step.ByClient {
			again.By = ""
		}
		if c.Guarded() {
			c.Guard(m.now, again)
		} else {
			c.RequestAgain(m.now, again)
		}
		return
	}
	require.True(m.t, !m.crowd.needs[id] || m.crowd.approved[id], "call %s runs without approval", id)
	in := c.ToolStep(nil)
	require.NotContains(m.t, m.store, recordid.Result(id), "S4-94 no call runs that has its result")
	m.flush(in.Flush)
	if m.crowd.needs[id] {
		var made event.Approval
		require.NoError(m.t, json.Unmarshal(m.store[in.DecisionID].Payload, &made))
		require.Equal(m.t, event.DecisionApprove, made.Decision)
		require.Equal(m.t, id, made.ToolCallID)
		require.Equal(m.t, m.crowd.rounds[id], max(made.Round, 1), "S4-94 an approval is for its round")
	}
	if c.Plan.By == step.ByClient {
		c.AskClient(m.now)
		return
	}
	m.keep([]event.Record{event.NewRecord(recordid.Result(id), event.TypeMessage, in.TraceID, in.EventID, m.now, event.Message{ToolCallID: id})})
	m.s.ran(m.now, r, c)
}

// goOn hears results, and sends runs back to their models.
func (m *machine) goOn() {
	if m.s.Turns.Current == nil {
		return
	}
	for _, r := range m.s.Turns.Current.Runs {
		if r.Phase != PhaseTools {
			continue
		}
		for _, c := range r.Calls {
			if c.Stage == CallRan {
				c.ApplyResultDecision(m.now, pass)
			}
		}
		r.ToolsDone(m.now)
	}
}

// due lets time do what is due.
func (m *machine) due() {
	m.release()
	m.goOn()
}

// halt ends a turn, or all.
func (m *machine) halt() {
	if !m.one(6) {
		return
	}
	ctl := signals.Control{Action: signals.ControlInterrupt}
	if turns := m.s.Turns.all(); len(turns) > 0 && m.one(2) {
		ctl.EventID = turns[m.rnd.IntN(len(turns))].Item.ID
	}
	m.s.Turns.Interrupt(ctl)
}

// settle lets everything come to its end by itself: people decide, clients answer, and
// nobody says anything new.
func (m *machine) settle() {
	for range 20_000 {
		before := m.moment()
		m.lookAgain()
		m.begin()
		if r := m.run(PhaseModel); r != nil && m.s.Turns.Current.Interrupted == nil {
			m.speak(r, m.rnd.IntN(2))
		}
		m.goOn()
		m.effect()
		m.end()
		if m.moment() != before {
			continue
		}
		m.check()
		if len(m.s.Approvals())+len(m.s.Turns.ClientCalls()) == 0 {
			require.True(m.t, m.s.idle(), "something waits, and there is nothing to wait for: %s", before)
			return
		}
		m.satisfy()
	}
	require.Fail(m.t, "it does not come to an end")
}

// satisfy gives one of all that wait for people or clients what it waits for.
func (m *machine) satisfy() {
	for _, t := range m.s.Turns.all() {
		require.True(m.t, t.waitsForPeople(), "the turn of %s can go on, and does not", t.Item.ID)
	}
	require.True(m.t, m.s.Inbox.nextPassingWaiting(&m.s.Turns) < 0 || len(m.s.Turns.Parked) == maxParked, "what happens is handled")
	if all := m.s.Turns.ClientCalls(); len(all) > 0 {
		require.Equal(m.t, signals.DecideAccepted, m.s.ReadResult(signals.ToolResult{ToolCallID: all[0].ToolCallID, By: "editor"}).Apply(m.now))
		return
	}
	all := m.s.Approvals()
	q := all[m.rnd.IntN(len(all))]
	for _, by := range []string{"ann", "bea"}[:max(q.Quorum, 1)] {
		m.rule(q, by, event.DecisionApprove)
	}
}

// moment is where everything stands.
func (m *machine) moment() string {
	var out strings.Builder
	for _, t := range m.s.Turns.all() {
		fmt.Fprintf(&out, "%s(%t):", t.Item.ID, t.Stage == ItemArrived)
		for _, r := range t.Runs {
			fmt.Fprintf(&out, " %s %d", r.Phase, r.Step)
			for _, c := range r.Calls {
				fmt.Fprintf(&out, " %s%d", c.Stage, c.Round)
			}
		}
	}
	fmt.Fprintf(&out, "; %t, %d wait", m.s.Turns.Current != nil, len(m.s.Inbox.Queue))
	return out.String()
}

// TestAnyCrowd lets agents and people say and decide anything, at any moment.
func TestAnyCrowd(t *testing.T) {
	reached := map[string]int{}
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newCrowd(t, seed)
			operations := m.crowdOperations()
			for range 300 {
				m.now = m.now.Add(time.Duration(m.rnd.IntN(2000)) * time.Millisecond)
				operations[m.rnd.IntN(len(operations))]()
				m.check()
				reached["parked"] += len(m.s.Turns.Parked)
			}
			m.settle()
			m.finish()
			m.reach(reached)
		})
	}
	for _, what := range []string{"parked", "second round", "vote", "edited", "for the session", "covered", "expired", "reminder", "at a client", "turn limit", "observed"} {
		require.Positive(t, reached[what], what)
	}
}

// reach counts what has come about.
func (m *machine) reach(what map[string]int) {
	for id, r := range m.store {
		var a event.Approval
		if r.Type == event.TypeApproval {
			require.NoError(m.t, json.Unmarshal(r.Payload, &a))
		}
		for name, is := range map[string]bool{
			"second round": a.Round == 2, "vote": a.Missing > 0, "edited": a.Arguments != "", "for the session": a.Scope == event.ScopeSession,
			"covered": a.Grant != "", "expired": a.Decision == event.DecisionExpired, "reminder": strings.Contains(id, ".reminder."),
			"at a client": r.Type == event.TypeClientCall, "turn limit": strings.Contains(id, ".limit."), "observed": r.Type == event.TypeFinal && id[0] == 'v',
		} {
			if is {
				what[name]++
			}
		}
	}
}
