package thread

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// machine drives a state at random, as the workflow and its activities would, and
// keeps what a store would keep.
type machine struct {
	t   *testing.T
	rnd *rand.Rand
	now time.Time
	s   *State

	store  map[string]event.Record
	asked  map[string]bool
	posted []string
	ended  int
	calls  int
}

func newMachine(t *testing.T, seed uint64) *machine {
	m := &machine{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: t0, store: map[string]event.Record{}, asked: map[string]bool{},
	}
	agents := [][]string{nil, {"alice"}, {"alice", "bob"}}[m.rnd.IntN(3)]
	m.s = New("ns", "t1", signals.Start{Agents: agents}, m.now)
	return m
}

func (m *machine) keep(records []event.Record) {
	for _, r := range records {
		if old, there := m.store[r.ID]; there {
			require.Equal(m.t, old.Type, r.Type, "record %s is two things", r.ID)
			continue
		}
		m.store[r.ID] = r
	}
}

func (m *machine) flush(f Flush) {
	m.keep(f.Records)
	m.s.Flushed(f)
}

// run picks a run in this phase.
func (m *machine) run(p Phase) *Run {
	if m.s.Turn == nil {
		return nil
	}
	var in []*Run
	for _, r := range m.s.Turn.Runs {
		if r.Phase == p {
			in = append(in, r)
		}
	}
	if len(in) == 0 {
		return nil
	}
	return in[m.rnd.IntN(len(in))]
}

func (m *machine) call(stage Stage) (*Run, *Call) {
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
	return []func(){
		m.post, m.post, m.begin, m.begin, m.model, m.model, m.model, m.tool, m.tool, m.decide, m.decide,
		m.end, m.interrupt, m.retry, m.record, m.reject, m.move,
	}
}

func (m *machine) post() {
	p := says(fmt.Sprintf("p%d", m.rnd.IntN(40)), []string{"hello", "@alice hello", "@bob hello"}[m.rnd.IntN(3)])
	p.OnBusy = []signals.OnBusy{"", signals.Enqueue, signals.Steer, signals.Interrupt, signals.Reject}[m.rnd.IntN(5)]
	p.Priority = m.rnd.IntN(3)
	p.TTL = int64(m.rnd.IntN(2) * 5000)
	seen := m.s.HasSeen(p.ID)
	out, err := m.s.Post(m.now, p)
	switch {
	case err != nil:
		require.ErrorIs(m.t, err, ErrBusy)
		require.False(m.t, seen)
	case out.Duplicate:
		require.True(m.t, seen)
	default:
		require.False(m.t, seen)
		m.posted = append(m.posted, p.ID)
		if out.Interrupt {
			m.s.Interrupt(signals.Control{Action: signals.ControlInterrupt})
		}
	}
}

func (m *machine) begin() {
	if m.s.Turn != nil {
		return
	}
	if item, ok := m.s.Next(m.now); ok {
		m.s.Begin(m.now, item)
	}
}

func (m *machine) model() {
	r := m.run(PhaseModel)
	if r == nil {
		return
	}
	in, ok := m.s.NextModelStep(m.now, r)
	if !ok {
		return
	}
	require.NotContains(m.t, m.store, in.MessageID, "every model call has an id of its own")
	if m.rnd.IntN(8) == 0 {
		m.s.Fail(m.now, r, "no", true)
		return
	}
	m.flush(in.Flush)
	reply := ModelReply{Agent: r.Agent, MaxSteps: 4, Message: event.Message{ID: in.MessageID, Content: "@bob hi"}}
	if reply.Agent == "" {
		reply.Agent = "assistant"
	}
	m.keep([]event.Record{event.NewRecord(in.MessageID, event.TypeMessage, in.TraceID, in.EventID, m.now, reply.Message)})
	for range m.rnd.IntN(4) {
		m.calls++
		p := runs(fmt.Sprintf("c%d", m.calls))
		if m.rnd.IntN(2) == 0 {
			p = asks(p.ID)
		}
		m.asked[p.ID] = true
		reply.Calls = append(reply.Calls, p)
	}
	if len(reply.Calls) == 0 {
		m.keep([]event.Record{event.NewRecord(in.MessageID+".final", event.TypeFinal, in.TraceID, in.EventID, m.now, event.Final{})})
	}
	m.s.Replied(m.now, r, reply)
}

func (m *machine) tool() {
	r, c := m.call(Ready)
	if r == nil {
		return
	}
	in := m.s.ToolStep(r, c)
	require.NotContains(m.t, m.store, ResultID(in.ToolCallID), "no call runs that has its result")
	if m.rnd.IntN(5) == 0 {
		m.s.CallFailed(m.now, r, c, "lost")
	} else {
		m.flush(in.Flush)
		m.keep([]event.Record{event.NewRecord(ResultID(in.ToolCallID), event.TypeMessage, in.TraceID, in.EventID, m.now, event.Message{ToolCallID: in.ToolCallID})})
		m.s.CallDone(c)
	}
	m.s.ToolsDone(r)
}

func (m *machine) decide() {
	id := fmt.Sprintf("c%d", m.rnd.IntN(m.calls+1))
	if approvals := m.s.Approvals(); len(approvals) > 0 && m.rnd.IntN(4) > 0 {
		id = approvals[0].ToolCallID
	}
	d := []event.Decision{event.Approve, event.Deny}[m.rnd.IntN(2)]
	m.s.Decide(m.now, decision(id, d))
	if r := m.run(PhaseTools); r != nil {
		m.s.ToolsDone(r)
	}
}

func (m *machine) interrupt() {
	if m.rnd.IntN(4) == 0 {
		m.s.Interrupt(signals.Control{Action: signals.ControlInterrupt})
	}
}

func (m *machine) end() {
	if m.s.Turn == nil {
		return
	}
	for _, r := range m.s.Turn.Runs {
		if r.Phase == PhaseDone {
			continue
		}
		if m.s.Turn.Interrupted == nil {
			return
		}
		m.s.StopRun(m.now, r)
	}
	m.ended += len(m.s.Turn.Runs)
	m.s.End(m.now)
}

func (m *machine) retry() { _ = m.s.Retry(m.now, signals.Control{}) }

func (m *machine) record() { m.flush(m.s.Flush()) }

func (m *machine) reject() { m.s.Reject(m.now, "post", "x", event.ErrInvalid) }

// move is continue-as-new.
func (m *machine) move() { m.s = copied(m.t, m.s.Carried()) }

// check is what holds at every moment.
func (m *machine) check() {
	seen := map[string]int{}
	for _, r := range m.s.Pending {
		seen[r.ID]++
	}
	for id := range m.store {
		seen[id]++
	}
	open := map[string]bool{}
	if m.s.Turn != nil {
		for _, r := range m.s.Turn.Runs {
			for _, c := range r.Calls {
				if c.Stage != CallSettled {
					open[c.Plan.ID] = true
				}
			}
		}
	}
	for id := range m.asked {
		results := 0
		if seen[ResultID(id)] > 0 {
			results = 1
		}
		if open[id] {
			require.Zero(m.t, results, "call %s has a result and is open", id)
		} else {
			require.Equal(m.t, 1, results, "call %s has no result and is not open", id)
		}
	}
	for _, id := range m.posted {
		waits := 0
		for _, it := range m.s.Ordered() {
			if it.ID == id {
				waits++
			}
		}
		require.LessOrEqual(m.t, waits, 1, "event %s waits twice", id)
		_, ended := m.s.Outcome(id)
		require.NotEqual(m.t, m.s.Awaits(id), ended, "event %s awaits and has ended, or is lost", id)
		if !m.s.Awaits(id) {
			require.True(m.t, seen[id] > 0 || seen[id+".expired"] > 0, "event %s left no record", id)
		}
	}
	require.Equal(m.t, asJSON(m.t, m.s), asJSON(m.t, copied(m.t, m.s)), "a round trip changes nothing")
}

// finish closes the thread.
func (m *machine) finish() {
	m.s.Closing = &signals.Control{Action: signals.ControlClose}
	m.s.Interrupt(*m.s.Closing)
	m.end()
	m.s.Close(m.now)
	m.record()
	m.check()
	require.True(m.t, m.s.Idle())
	require.False(m.t, m.s.Unstored())
	terminal := 0
	for id, r := range m.store {
		require.Equal(m.t, id, r.ID)
		if r.Type == event.TypeFinal || r.Type == event.TypeError {
			terminal++
		}
		require.False(m.t, strings.HasSuffix(id, ".decision") && !m.asked[strings.TrimSuffix(id, ".decision")])
	}
	require.Equal(m.t, m.ended, terminal, "S1-23 one terminal record for each run")
	for id := range m.asked {
		require.Contains(m.t, m.store, ResultID(id), "S4-71")
	}
}

func TestAnySequenceOfOperations(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newMachine(t, seed)
			operations := m.operations()
			for range 120 {
				m.now = m.now.Add(time.Duration(m.rnd.IntN(2000)) * time.Millisecond)
				operations[m.rnd.IntN(len(operations))]()
				m.check()
			}
			m.finish()
			require.NotEmpty(t, m.posted)
		})
	}
}
