package thread

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// machine drives a state at random, as the workflow and its activities would, and
// keeps what a store would keep.
type machine struct {
	t   *testing.T
	rnd *rand.Rand
	now time.Time
	s   *State

	// hooked says that hooks and processors decide at random, too. env says that there are
	// environment events, rules, background tasks and sub-agents besides.
	hooked bool
	env    bool
	tasks  map[string]bool

	// crowd is set when agents and people talk to one another, and decide on calls.
	crowd *crowd

	store  map[string]event.Record
	order  []event.Record
	asked  map[string]bool
	posted []string

	// contents are those of the posts that the thread took.
	contents map[string]string
	ended    int
	calls    int

	// arrived numbers events as they came to wait, made are those among them that hooks
	// have made, done those whose end was seen.
	arrived map[string]int
	made    map[string]bool
	done    map[string]bool
	closed  bool
}

func newMachine(t *testing.T, seed uint64, hooked bool) *machine {
	m := &machine{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: t0, hooked: hooked,
		store: map[string]event.Record{}, asked: map[string]bool{},
		arrived: map[string]int{}, made: map[string]bool{}, done: map[string]bool{},
	}
	agents := [][]string{nil, {"alice"}, {"alice", "bob"}}[m.rnd.IntN(3)]
	m.s = New("ns", "t1", signals.Start{Agents: agents}, m.now, m.now)
	return m
}

func (m *machine) keep(records []event.Record) {
	for _, r := range records {
		if old, there := m.store[r.ID]; there {
			require.Equal(m.t, old.Type, r.Type, "record %s is two things", r.ID)
			m.crowd.checkTwice(m.t, r)
			continue
		}
		m.store[r.ID] = r
		m.order = append(m.order, r)
	}
}

func (m *machine) flush(f step.Flush) {
	m.keep(f.Records)
	m.s.Outbox.Flushed(f)
}

// one in n.
func (m *machine) one(n int) bool { return m.rnd.IntN(n) == 0 }

// run picks a run in this phase.
func (m *machine) run(p Phase) *AgentRun {
	if m.s.Turns.Current == nil {
		return nil
	}
	var in []*AgentRun
	for _, r := range m.s.Turns.Current.Runs {
		if r.Phase == p {
			in = append(in, r)
		}
	}
	if len(in) == 0 {
		return nil
	}
	return in[m.rnd.IntN(len(in))]
}

func (m *machine) call(stage CallStage) (*AgentRun, *Call) {
	if r := m.run(PhaseTools); r != nil {
		for _, c := range r.Calls {
			if c.Stage == stage {
				return r, c
			}
		}
	}
	return nil, nil
}

func (m *machine) operations() []func() {
	all := []func(){
		m.post, m.post, m.begin, m.begin, m.model, m.model, m.model, m.tool, m.tool, m.decide, m.decide,
		m.end, m.interrupt, m.retry, m.record, m.reject, m.move,
	}
	if m.hooked {
		all = append(all, m.enter, m.enter, m.heardReply, m.heardReply, m.heardCalls, m.heardCalls, m.plan, m.heardResult, m.heardResult,
			m.heardCalls, m.heardReply, m.tool, m.plan, m.begin, m.end, m.end, m.setStatus, m.cancel, m.stop)
	}
	if m.env {
		all = append(all, m.happen, m.happen, m.happen, m.handle, m.handle, m.handle, m.release, m.release,
			m.startTask, m.endTask, m.delegate, m.delegate, m.subEnds, m.subAsks, m.subAsks)
	}
	return all
}

// events is how many different events are posted at most.
func (m *machine) events() int {
	if m.hooked && !m.env {
		return 80
	}
	return 40
}

func (m *machine) post() {
	p := says(fmt.Sprintf("p%d", m.rnd.IntN(m.events())), []string{"hello", "@alice hello", "@bob hello"}[m.rnd.IntN(3)])
	p.OnBusy = []event.OnBusy{"", event.OnBusyEnqueue, event.OnBusySteer, event.OnBusyInterrupt, event.OnBusyReject}[m.rnd.IntN(5)]
	if m.hooked && p.OnBusy == event.OnBusyInterrupt && !m.one(5) {
		p.OnBusy = ""
	}
	p.Priority = m.rnd.IntN(3)
	p.TTL = int64(m.rnd.IntN(2) * 5000)
	seen := m.s.Inbox.WasPosted(p.ID)
	out, err := postAt(m.s, m.now, p)
	switch {
	case m.conflicts(p, err):
		require.True(m.t, seen)
	case err != nil:
		require.ErrorIs(m.t, err, ErrBusy)
		require.False(m.t, seen)
	case out.Duplicate:
		require.True(m.t, seen)
	default:
		require.False(m.t, seen)
		m.posted = append(m.posted, p.ID)
		if out.Interrupts != nil {
			m.s.Turns.Interrupt(signals.Control{Action: signals.ControlInterrupt})
		}
	}
}

// conflicts reports whether a post was refused because the thread has another one with its id.
func (m *machine) conflicts(p signals.Post, err error) bool {
	if m.contents == nil {
		m.contents = map[string]string{}
	}
	content := p.Type + string(p.Payload)
	conflict := m.contents[p.ID] != "" && m.contents[p.ID] != content
	require.Equal(m.t, conflict, errors.Is(err, signals.ErrConflict), "%s: %v", p.ID, err)
	if err == nil {
		m.contents[p.ID] = content
	}
	return conflict
}

func (m *machine) begin() {
	if m.s.Park(); m.s.Turns.Current != nil || m.s.Turns.Unpark() {
		return
	}
	waiting := m.s.Inbox.items()
	q, ok := m.s.next(m.now)
	if !ok {
		return
	}
	m.checkOrder(q, waiting)
	m.s.begin(m.now, q)
	if !m.hooked {
		m.s.Turns.Current.Enter(m.now, pass, m.rules()...)
	}
}

func (m *machine) model() {
	r := m.run(PhaseModel)
	if r == nil || r.AtLimit(m.now) || !m.steer() || !r.HooksDecided && !m.askModelCall(r) {
		return
	}
	in := r.NextModelStep(m.specs())
	require.NotContains(m.t, m.store, in.MessageID, "every model call has an id of its own")
	if m.one(8) {
		r.fail(m.now, "no", true)
		return
	}
	m.flush(in.Flush)
	reply := step.ModelReply{Agent: r.Agent, MaxSteps: 4, Message: event.Message{ID: in.MessageID, Content: "@bob hi"}}
	if reply.Agent == "" {
		reply.Agent = "assistant"
	}
	for range m.rnd.IntN(4) {
		m.calls++
		p := runs(fmt.Sprintf("c%d", m.calls))
		if m.rnd.IntN(2) == 0 {
			p = asks(p.ID)
		}
		m.asked[p.ID] = true
		reply.Calls = append(reply.Calls, p)
	}
	if m.hooked && m.one(3) {
		reply.Message.Content = ""
	}
	m.inline(in, &reply)
	said := event.Message{SenderID: reply.Agent, SenderType: event.CreatedByAgent, AgentID: reply.Agent, Content: reply.Message.Content}
	reply.EndStored = in.Ends != "" && len(reply.Calls) == 0 && !reply.Gated && len(addressing.Answering(in.Agents, said)) == 0
	m.stored(in, reply)
	r.Replied(m.now, reply)
	if m.hooked {
		return
	}
	if r.Phase == PhaseReply {
		r.ApplyReplyDecision(m.now, pass)
	}
	if r.Phase == PhaseCalls {
		r.ApplyCallsDecision(m.now, pass)
	}
}

// stored keeps what a model call stores of its reply.
func (m *machine) stored(in step.Model, reply step.ModelReply) {
	record := func(id, typ string, payload any) {
		m.keep([]event.Record{event.NewRecord(id, typ, in.TraceID, in.EventID, m.now, payload).In(step.TurnEvent(in.Root, in.EventID))})
	}
	if reply.Message.Content != "" || len(reply.Calls) > 0 {
		record(in.MessageID, event.TypeMessage, reply.Message)
	}
	if len(reply.Calls) == 0 && !in.Gated && !reply.Gated {
		record(in.MessageID+".final", event.TypeFinal, event.Final{})
		if reply.EndStored {
			record(in.Ends, event.TypeTurnEnded, event.TurnEnded{EventID: step.TurnEvent(in.Root, in.EventID), Joined: in.Joined, Status: "completed"})
		}
	}
}

func (m *machine) tool() {
	r, c := m.call(CallReady)
	if r == nil {
		return
	}
	in := c.ToolStep(m.specs())
	require.NotContains(m.t, m.store, recordid.Result(in.ToolCallID), "no call runs that has its result")
	if m.one(5) {
		c.CallFailed(m.now, "lost")
		r.ToolsDone(m.now)
		return
	}
	m.flush(in.Flush)
	m.keep([]event.Record{event.NewRecord(recordid.Result(in.ToolCallID), event.TypeMessage, in.TraceID, in.EventID, m.now, event.Message{ToolCallID: in.ToolCallID}).In(step.TurnEvent(in.Root, in.EventID))})
	reply := step.ToolReply{ToolCallID: in.ToolCallID, Status: "succeeded"}
	if len(in.Inline) > 0 {
		d := m.decision(saying(event.CreatedByTool, "note", "[gone]"))
		reply.Decision = &d
	}
	c.CallRan(reply)
	if !m.hooked {
		c.ApplyResultDecision(m.now, pass)
		r.ToolsDone(m.now)
	}
}

func (m *machine) decide() {
	id := fmt.Sprintf("c%d", m.rnd.IntN(m.calls+1))
	if approvals := m.s.Approvals(); len(approvals) > 0 && m.rnd.IntN(4) > 0 {
		id = approvals[0].ToolCallID
	}
	d := []event.Decision{event.DecisionApprove, event.DecisionDeny}[m.rnd.IntN(2)]
	m.s.decideUnchecked(m.now, decision(id, d))
	if r := m.run(PhaseTools); r != nil {
		r.ToolsDone(m.now)
	}
}

func (m *machine) interrupt() {
	if m.one(4) && (!m.hooked || m.one(4)) {
		m.s.Turns.Interrupt(signals.Control{Action: signals.ControlInterrupt})
	}
}

func (m *machine) end() {
	t := m.s.Turns.Current
	if t == nil || (t.Stage == ItemArrived || t.handlingPending()) && t.Interrupted == nil {
		return
	}
	for _, r := range t.Runs {
		if r.Done() {
			continue
		}
		if t.Interrupted == nil {
			return
		}
		r.StopRun(m.now)
	}
	m.ended += m.checkEnds(t)
	m.s.Turns.Current.StopSubAgents(m.now)
	m.s.Turns.Current.End(m.now)
}

func (m *machine) retry() { _ = m.s.Retry(m.now, signals.Control{}) }

func (m *machine) record() { m.flush(m.s.Outbox.Flush()) }

func (m *machine) reject() { m.s.Reject(m.now, "post", "x", event.ErrInvalid) }

// move is continue-as-new.
func (m *machine) move() { m.s = copied(m.t, m.s.Carried()) }

// finish closes the thread.
func (m *machine) finish() {
	m.s.Closing = &signals.Control{Action: signals.ControlClose}
	m.s.Turns.Interrupt(*m.s.Closing)
	for m.s.Turns.Current != nil || m.s.Turns.Unpark() {
		m.end()
	}
	m.s.CloseTasks(m.now)
	m.s.Close(m.now)
	m.closed = true
	m.record()
	m.check()
	require.True(m.t, m.s.idle())
	require.False(m.t, m.s.Outbox.Unstored())
	require.Empty(m.t, m.s.Turns.Roots, "every turn has ended")
	terminal := 0
	for id, r := range m.store {
		require.Equal(m.t, id, r.ID)
		// Those of the turn itself have no agent's slot in their ids.
		if (r.Type == event.TypeFinal || r.Type == event.TypeError) && strings.Count(id, ".") > 1 {
			terminal++
		}
		decided := strings.HasSuffix(id, ".decision") && !strings.Contains(string(r.Payload), `"decision":"withdrawn"`)
		require.False(m.t, decided && !m.asked[strings.TrimSuffix(id, ".decision")], id)
	}
	require.Equal(m.t, m.ended, terminal, "S1-23 one terminal record for each run")
	m.checkTurnsEnded()
	for id := range m.asked {
		require.Contains(m.t, m.store, recordid.Result(id), "S4-71")
	}
}

func TestAnySequenceOfOperations(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newMachine(t, seed, seed%2 == 1)
			operations := m.operations()
			steps := 120
			if m.hooked {
				steps = 250
			}
			for range steps {
				m.now = m.now.Add(time.Duration(m.rnd.IntN(2000)) * time.Millisecond)
				operations[m.rnd.IntN(len(operations))]()
				m.check()
			}
			m.finish()
			require.NotEmpty(t, m.posted)
		})
	}
}
