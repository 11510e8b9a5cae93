package thread

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// TestTranscripts plays testdata/transcripts: what reaches a thread, and what it records,
// starts and shows. Each subtest of a file is a case; -rewrite accepts the present output.
// Lines of output begin with "+" for records, ">" for what the workflow starts, and "=" for
// results. What "given" does, or does several times, is not shown.
func TestTranscripts(t *testing.T) {
	err := filepath.WalkDir("testdata/transcripts", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Run(strings.TrimSuffix(d.Name(), ".txt"), func(t *testing.T) {
				p := &player{}
				datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
					return p.play(t, d.Input)
				})
			})
		}
		return err
	})
	require.NoError(t, err)
}

// player stands in for the workflow of a thread and its activities: it does what the workflow
// would do by itself, and waits for commands where that waits for something outside.
type player struct {
	t     *testing.T
	s     *State
	now   time.Time
	out   strings.Builder
	specs []hook.Spec
	rules []rule.Spec

	flights []*flight
	printed map[string]bool
	names   []string // of derived ids, "#1" is the first
	due     time.Time
	paused  bool
	broken  string // why the next start of a workflow fails
	over    bool
	handed  []Flush
}

// flight is something that the workflow has started and that has not ended.
type flight struct {
	kind, key string
	run       *AgentRun
	call      *Call
	flush     Flush
	only      []string
	seen      HookEvent
	decided   func(HookDecision)
	planned   func(PlanReply)
	checked   func(CheckReply)
	queued    *Queued
}

// command is one line: a verb, words, options as key=value, text, and JSON behind " // ".
type command struct {
	verb, id, text string
	opts           map[string]string
	raw            json.RawMessage
	p              *player
}

var option = regexp.MustCompile(`^[a-zA-Z]+=\S`)

func (p *player) parse(line string) command {
	c := command{opts: map[string]string{}, p: p}
	line = blown.ReplaceAllStringFunc(p.expand(line), func(s string) string {
		m := blown.FindStringSubmatch(s)
		n, err := strconv.Atoi(m[2])
		require.NoError(p.t, err)
		return strings.Repeat(m[1], n)
	})
	line, raw, ok := strings.Cut(line, " // ")
	if ok {
		c.raw = json.RawMessage(durations.ReplaceAllStringFunc(raw, func(s string) string {
			d, err := time.ParseDuration(s[1:])
			require.NoError(p.t, err)
			return strconv.Itoa(int(d))
		}))
		require.True(p.t, json.Valid(c.raw), line)
	}
	next := func() (word string) {
		word, line, _ = strings.Cut(line, " ")
		return word
	}
	c.verb = next()
	if !option.MatchString(line) {
		c.id = next()
	}
	for option.MatchString(line) {
		key, value, _ := strings.Cut(next(), "=")
		c.opts[key] = value
	}
	c.text = line
	return c
}

// durations in JSON are written as @1m.
var durations = regexp.MustCompile(`@\d+[smh]`)

// blown is "{x*1000}" in a text: a thousand x.
var blown = regexp.MustCompile(`\{(.)\*(\d+)\}`)

// read reads the options, and the JSON, of a command into v.
func read[T any](c command, v T) T {
	set := map[string]any{}
	for key, value := range c.opts {
		var x any = value
		switch key {
		case "agents", "tools", "addAgents", "removeAgents":
			x = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		case "priority", "ttl", "round", "turnLimit":
			n, err := strconv.Atoi(value)
			require.NoError(c.p.t, err)
			x = n
		}
		set[key] = x
	}
	raw, err := json.Marshal(set)
	require.NoError(c.p.t, err)
	require.NoError(c.p.t, json.Unmarshal(raw, &v))
	if len(c.raw) > 0 {
		require.NoError(c.p.t, json.Unmarshal(c.raw, &v))
	}
	return v
}

func (p *player) play(t *testing.T, input string) string {
	p.t = t
	p.out.Reset()
	for line := range strings.Lines(input) {
		line, given := strings.CutPrefix(strings.TrimSpace(line), "given ")
		commands := []string{line}
		if given {
			commands = nil
			for _, one := range strings.Split(line, "; ") {
				n := 1
				if _, err := fmt.Sscanf(one, "%d times ", &n); err == nil {
					_, one, _ = strings.Cut(one, " times ")
				}
				commands = append(commands, slices.Repeat([]string{one}, n)...)
			}
		}
		for _, one := range commands {
			p.do(p.parse(one))
			for !p.paused && !p.over && p.advance() {
			}
			p.show()
		}
		if given {
			p.out.Reset()
		}
	}
	return p.out.String()
}

// do takes in what comes from outside.
func (p *player) do(c command) {
	s, now := p.s, p.now
	switch c.verb {
	case "thread":
		*p = player{t: p.t, now: t0, printed: map[string]bool{}}
		start := read(c, signals.Start{Agents: strings.Fields(strings.TrimSpace(c.id + " " + c.text))})
		p.s = New("ns", "t1", start, t0)
		if err := start.Validate(); err != nil {
			p.say("= error: %v", err)
		}
		p.s.Outbox.Flushed(p.s.Outbox.Flush())
	case "parent":
		s.ParentLink.Parent = new(read(c, Parent{ThreadID: "t0", Agent: "alice", ToolName: "ask", ToolCallID: "c0", MessageID: "m0", TraceID: "e0", EventID: "e0", Depth: 1}))
	case "hooks":
		p.specs = []hook.Spec{}
		for name := range strings.FieldsSeq(c.id + " " + c.text) {
			p.specs = append(p.specs, read(c, hook.Spec{Name: name, Kind: hook.KindFunc}))
		}
	case "rules":
		p.rules = nil
		require.NoError(p.t, json.Unmarshal(c.raw, &p.rules))
	case "no-worker":
		d, err := time.ParseDuration(c.id)
		require.NoError(p.t, err)
		p.now = now.Add(d)
	case "wait":
		d, err := time.ParseDuration(c.id)
		require.NoError(p.t, err)
		p.now = now.Add(d)
		if due, ok := s.NextDue(); ok && !due.After(p.now) {
			s.Release(p.now)
			p.cut()
		}
	case "pause":
		p.paused = true
	case "go":
		p.paused = false
	case "new-run":
		p.newRun()
	case "breaks":
		p.broken = c.id + " " + c.text
	case "created":
		s.Lifecycle(now, event.TypeSessionCreated, recordid.Opened(s.ThreadID), p.rules)
	case "post", "custom", "env", "post-signal":
		p.post(c)
	case "check-post":
		p.err(s.Inbox.ValidatePost(p.message(c)))
	case "interrupt", "close", "retry":
		ctl := signals.Control{Action: signals.ControlAction(c.verb), EventID: strings.TrimPrefix(c.id, "-"), By: "ann"}
		p.control(read(c, ctl), c.text == "late")
	case "set-status":
		set := read(c, signals.SetStatus{EventID: c.id, Status: event.ItemStatus(c.text), By: "ann"})
		it, interrupt, err := s.Inbox.SetStatus(now, set)
		p.err(err)
		if err == nil {
			p.say("= %s", it.Status)
		}
		if interrupt {
			s.Turns.Interrupt(signals.Control{Action: signals.ControlInterrupt, By: set.By, Reason: set.Reason, EventID: set.EventID})
			p.cut()
		}
	case "change":
		change := read(c, signals.ThreadChange{})
		if err := s.ValidateChange(change); err != nil {
			p.err(err)
			return
		}
		s.Lifecycle(now, event.TypeSessionUpdated, s.Change(now, change), p.rules)
	case "decide", "decide-signal":
		p.decide(c)
	case "revoke":
		id := s.Decisions.Revoke(now, read(c, signals.Revoke{ToolCallID: c.id, By: "ann"}))
		p.say("= unwritten %v", s.Outbox.Unwritten(id))
	case "number":
		s.Number(now)
	case "not-passed":
		s.Children.NotForwarded(c.id, c.text)
	case "hooks-gone":
		p.say("= asked %s", short(s.Turns.Current.PendingHooks(s.Turns.Current.ItemEvent(), p.specs)))
	case "result":
		p.say("= %s", s.Decisions.ToolResult(now, read(c, signals.ToolResult{ToolCallID: c.id, Output: c.text, By: "editor"})))
	case "result-early":
		p.say("= %s", s.Decisions.BufferEarlyResult(read(c, signals.ToolResult{ToolCallID: c.id, Output: c.text, By: "editor"})))
	case "result-signal":
		s.Decisions.TakeResult(now, read(c, signals.ToolResult{ToolCallID: c.id, Output: c.text, By: "editor"}))
	case "task-report":
		p.err(s.Tasks.Reported(now, read(c, TaskReport{TaskID: c.id})))
		p.cut()
	case "complete-task":
		out := s.Tasks.Complete(now, read(c, signals.CompleteTask{TaskID: c.id}))
		p.say("= %s", out.Result)
	case "cancel-task":
		out := s.Tasks.Cancel(now, read(c, signals.CancelTask{TaskID: c.id, By: "ann"}), true)
		p.say("= %s", out.Result)
		s.Children.Forget(out.Task.ThreadID)
	case "sub-ended":
		s.Children.ApplyEnd(now, read(c, SubAgentEnded{ThreadID: c.id, DelegateReply: DelegateReply{Status: signals.TurnCompleted}}))
	case "sub-gone":
		s.Children.ApplyLoss(c.id, c.text)
	case "sub-asks":
		asks := SubAgentApprovals{ThreadID: c.id, Request: read(c, event.ApprovalRequest{ToolCallID: c.text, ToolName: "rm", Agent: "bob", RequestedAt: now})}
		asks.Listed = len(c.opts) > 0
		s.Children.ApplyApprovals(asks)
	case "sub-asks-through":
		call, agents, _ := strings.Cut(c.text, " ")
		s.Children.ApplyApprovals(SubAgentApprovals{ThreadID: c.id, Agents: strings.Split(agents, ","), Request: event.ApprovalRequest{ToolCallID: call, ToolName: "rm", Agent: "bob"}})
	case "sub-decided":
		s.Children.ApplyDecision(now, read(c, SubAgentDecision{ThreadID: c.id, ToolCallID: c.text}))
	case "hook-decided":
		p.err(s.Turns.HookDecided(HookDecided{EventID: c.id, Decision: p.decision(c)}))
	case "reject":
		s.Reject(now, c.id, c.text, errors.New("it cannot be read"))
	case "flush":
		f := s.Outbox.Flush()
		p.handed = append(p.handed, f)
		p.say("= %s row %v", strings.Join(recordIDs(f.Records), " "), f.Row != nil)
	case "flushed":
		s.Outbox.Flushed(p.handed[0])
		p.handed = p.handed[1:]
	default:
		if !p.reply(c) {
			p.look(c)
		}
	}
}

// message is a post: a person's message, or an event.
func (p *player) message(c command) signals.Post {
	by, kind, _ := strings.Cut(c.opts["by"], ":")
	delete(c.opts, "by")
	sender := event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Content: c.text}
	if by != "" {
		sender.SenderID = by
	}
	if kind != "" {
		sender.SenderType = event.CreatedBy(kind)
	}
	id := c.id
	if id == "-" {
		id = ""
	}
	post := signals.NewPost(id, sender)
	if c.verb == "custom" || c.verb == "env" {
		typ, payload, _ := strings.Cut(c.text, " ")
		if payload == "" {
			payload = "1"
		}
		post.Type, post.Payload = typ, json.RawMessage(payload)
	}
	if c.verb == "env" {
		post.Metadata = json.RawMessage(`{"source":"env"}`)
	}
	return read(c, post)
}

func (p *player) post(c command) {
	post := p.message(c)
	s := p.s
	incoming, err := s.Inbox.Read(post)
	switch {
	case err != nil && c.verb == "post-signal":
		s.Reject(p.now, signals.SignalPost, post, err)
		return
	case err != nil:
		p.err(err)
		return
	}
	if d, ok := s.Decisions.DecisionIn(incoming); ok {
		s.Decisions.Remember(incoming)
		p.say("= a decision")
		p.take(c.verb == "post-signal", d)
		return
	}
	posted, err := s.Inbox.Post(p.now, incoming)
	switch {
	case err != nil && c.verb == "post-signal" && (errors.Is(err, ErrFull) || errors.Is(err, ErrClosed)):
		s.Inbox.PostFailed(p.now, incoming, err)
	case err != nil && c.verb == "post-signal":
		s.Reject(p.now, signals.SignalPost, post, err)
	case err != nil:
		p.err(err)
	case posted.Duplicate:
		p.say("= duplicate")
	case posted.Interrupt:
		p.control(signals.Control{Action: signals.ControlInterrupt, Reason: "interrupted by message " + posted.EventID}, false)
	}
}

func (p *player) control(ctl signals.Control, late bool) {
	s := p.s
	switch {
	case ctl.Action == signals.ControlRetry:
		p.err(s.Inbox.Retry(p.now, ctl))
		return
	case ctl.Action == signals.ControlClose:
		ctl.EventID = ""
		s.Closing = &ctl
		s.Turns.Interrupt(ctl)
	case ctl.EventID == "" || s.Turns.InTurn(ctl.EventID):
		s.Turns.Interrupt(ctl)
		s.Inbox.CancelDerived(p.now, ctl)
	default:
		p.say("= cancelled: %v", s.Inbox.Cancel(p.now, ctl))
	}
	if !late {
		p.cut()
	}
}

// cut ends what an interrupted turn has in flight.
func (p *player) cut() {
	s := p.s
	if s.Turns.Current == nil || s.Turns.Current.Interrupted == nil {
		return
	}
	for _, f := range p.flights {
		if f.kind == "hook" {
			p.say("> cancel hooks on %s", f.key)
			s.Turns.Current.HooksFinished(f.seen)
		}
		if f.queued != nil {
			s.Turns.Current.PutBack(p.now, *f.queued)
		}
	}
	p.flights = slices.DeleteFunc(p.flights, func(f *flight) bool { return f.kind != "check" })
}

func (p *player) decide(c command) {
	d := read(c, signals.Decide{ToolCallID: c.id, Decision: event.Decision(c.text), By: "ann"})
	p.take(c.verb == "decide-signal", d)
}

func (p *player) take(signal bool, d signals.Decide) {
	s := p.s
	if _, _, below := s.Children.Request(d.ToolCallID); below {
		id, out, err := s.Children.Forward(p.now, d)
		if p.err(err); err == nil {
			p.say("= %s by %s", out, id)
		}
		return
	}
	if early := s.Decisions.IsEarly(d.ToolCallID); signal {
		if !early || !s.Decisions.BufferEarly(d) {
			s.Decisions.TakeDecision(p.now, d)
		}
		return
	} else if early {
		p.say("= early, held: %v", s.Decisions.BufferEarly(d))
		return
	}
	if err := s.Decisions.CheckAlone(d); err != nil {
		p.err(err)
		return
	}
	answer := func(reply CheckReply) { p.say("= %s", short(s.Decisions.DecideChecked(p.now, d, reply))) }
	if step, ok := s.Decisions.Unchecked(d); ok {
		p.start(&flight{kind: "check", key: d.ToolCallID, checked: answer}, "check %s %s", d.ToolCallID, short(step, "thread", "toolCallId"))
		return
	}
	answer(CheckReply{})
}

// newRun goes on in another run of the workflow.
func (p *player) newRun() {
	for _, f := range p.flights {
		require.Contains(p.t, []string{"hook"}, f.kind, "a run waits for its steps before it ends")
		p.s.Turns.Current.ReportRequested(f.seen)
		if f.queued != nil {
			p.s.Turns.Current.PutBack(p.now, *f.queued)
		}
	}
	for _, id := range p.s.Children.ReportsToRequest() {
		p.s.Children.MarkReportRequested(id)
	}
	p.flights = nil
	p.s = copied(p.t, p.s)
}

// start begins something that ends by a command.
func (p *player) start(f *flight, format string, args ...any) {
	p.show()
	p.flights = append(p.flights, f)
	p.say("> "+format, args...)
}

func (p *player) flying(match func(*flight) bool) bool { return slices.ContainsFunc(p.flights, match) }

// take the first flight of a kind, whose key has this prefix.
func (p *player) land(kind, key string) *flight {
	i := slices.IndexFunc(p.flights, func(f *flight) bool {
		return f.kind == kind && (key == "" || f.key == key || f.run != nil && strings.EqualFold(f.run.Agent, key))
	})
	require.GreaterOrEqual(p.t, i, 0, "no %s %s is in flight", kind, key)
	f := p.flights[i]
	p.flights = slices.Delete(p.flights, i, i+1)
	p.s.Outbox.Flushed(f.flush)
	return f
}

// reply ends what is in flight.
func (p *player) reply(c command) bool {
	s, now := p.s, p.now
	interrupted := s.Turns.Current != nil && s.Turns.Current.Interrupted != nil
	switch c.verb {
	case "reply":
		f := p.land("model", strings.TrimSuffix(c.id, "-"))
		f.run.Replied(now, p.modelReply(c, f))
	case "model-fails":
		f := p.land("model", "")
		if interrupted {
			f.run.StopRun(now)
			return true
		}
		f.run.Fail(now, c.text, c.id != "for-good")
	case "model-out":
		f := p.land("model", "")
		f.run.Unavailable(read(c, event.Retry{Since: now, Attempts: 1, Error: c.id + " " + c.text, NextAttemptAt: now.Add(time.Minute)}))
	case "ran":
		f := p.land("tool", c.id)
		reply := read(c, ToolReply{ToolCallID: c.id, Status: "succeeded"})
		if reply.Approval != nil {
			f.call.RequestAgain(now, *reply.Approval)
			return true
		}
		f.call.CallRan(reply)
	case "tool-fails":
		f := p.land("tool", c.id)
		f.call.CallFailed(now, c.text)
		f.call.ToolDone(now, p.rules)
	case "hook":
		p.land("hook", c.opts["on"]).decided(p.decision(c))
	case "planned":
		f := p.land("plan", "")
		reply := PlanReply{Agent: f.run.Agent, MaxSteps: f.run.MaxSteps}
		for _, id := range f.only {
			reply.Calls = append(reply.Calls, PlannedCall{ID: id, Name: "note"})
		}
		f.planned(read(c, reply))
	case "plan-fails":
		f := p.land("plan", "")
		f.run.PlanFailed(now, c.text, c.id != "for-good")
	case "checked":
		p.land("check", c.id).checked(read(c, CheckReply{Guard: &Guard{Digest: "checked"}}))
	case "function":
		p.land("function", "")
		if c.id == "fails" {
			s.Turns.Current.FunctionFailed(now, c.text)
			return true
		}
		s.Turns.Current.FunctionDone(c.text == "and ended")
	case "loaded":
		s.Inbox.Loaded(p.land("load", "").key, read(c, LoadReply{}))
	case "not-loaded":
		s.Inbox.NotLoaded(now, p.land("load", "").key, c.id+" "+c.text)
	case "title":
		p.land("title", "")
		p.say("= titled: %v", s.Titling.Apply(read(c, TitleReply{Title: strings.TrimSpace(c.id + " " + c.text)})))
	default:
		return false
	}
	return true
}

// modelReply is "reply alice calls=c1:note,c2:rm! text": a call with "!" waits for approval, and
// has what "plan" of the JSON says.
func (p *player) modelReply(c command, f *flight) ModelReply {
	agent := f.run.Agent
	if agent == "" {
		agent = "assistant"
	}
	var extra struct {
		Plan json.RawMessage
	}
	_ = json.Unmarshal(c.raw, &extra)
	reply := ModelReply{
		Agent: agent, Model: "demo/demo", MaxSteps: 9, Usage: event.Usage{InputTokens: 1},
		Message: event.Message{ID: f.key, ThreadID: "t1", SenderID: agent, SenderType: event.CreatedByAgent, AgentID: agent, Content: c.text},
	}
	for call := range strings.SplitSeq(c.opts["calls"], ",") {
		id, name, ok := strings.Cut(call, ":")
		if !ok {
			continue
		}
		plan := PlannedCall{ID: id, Name: strings.TrimSuffix(name, "!")}
		if plan.NeedsApproval = plan.Name != name; plan.NeedsApproval {
			plan.Arguments, plan.Guard = `{"path":"a"}`, &Guard{Digest: "digest of " + id}
		}
		if len(extra.Plan) > 0 {
			require.NoError(p.t, json.Unmarshal(extra.Plan, &plan))
		}
		reply.Calls = append(reply.Calls, plan)
	}
	delete(c.opts, "calls")
	reply = read(c, reply)
	reply.EndStored = f.only[0] != "" && len(reply.Calls) == 0 && !f.run.Gated && len(Answering(p.s.Roster.Agents, reply.Message)) == 0
	return reply
}

// decision is what hooks have decided: "pass", "fail why", "respond text", "drop", "replace" and
// "produce" with the event as JSON, or a whole decision as JSON.
func (p *player) decision(c command) HookDecision {
	by := "guard"
	d := HookDecision{Outcome: event.OutcomePassed, By: by}
	outcome := func(out event.Outcome, each event.Outcome) {
		d.Outcome, d.Hooks = out, []event.HookOutcome{{Name: by, Outcome: each}}
	}
	word := c.id
	if c.verb == "hook-decided" {
		word, c.text, _ = strings.Cut(c.text, " ")
	}
	switch word {
	case "pass":
		outcome(event.OutcomePassed, event.OutcomePassed)
		d.By = ""
	case "silent":
		return passing
	case "fail":
		outcome(event.OutcomeFailed, event.OutcomeFailed)
		d.Error = c.text
	case "respond":
		outcome(event.OutcomeResponded, event.OutcomeResponded)
		d.Responses = []hook.Response{read(c, hook.Response{Content: c.text})}
	case "drop":
		outcome(event.OutcomeDropped, event.OutcomeDropped)
	case "swallow":
		outcome(event.OutcomePassed, event.OutcomePassed)
		d.NoDefault = true
	case "replace":
		outcome(event.OutcomeReplaced, event.OutcomeReplaced)
		d.By, d.Event = "", c.raw
	case "produce":
		outcome(event.OutcomeOverwritten, event.OutcomeOverwritten)
		d.Produced = []hook.Produced{read(c, hook.NewProduced(c.text, 1))}
	case "many":
		outcome(event.OutcomeOverwritten, event.OutcomeOverwritten)
		n, err := strconv.Atoi(c.text)
		require.NoError(p.t, err)
		d.Produced = slices.Repeat([]hook.Produced{hook.NewProduced("note.taken", 1)}, n)
	default:
		p.t.Fatalf("no such decision: %s", word)
	}
	return d
}

// passing is the decision where no hook has a say.
var passing = HookDecision{Outcome: event.OutcomePassed, Silent: true, Unmatched: true}

// intercept lets hooks decide on an event. It reports whether something has happened.
func (p *player) intercept(e HookEvent, by *HookDecision, q *Queued, then func(HookDecision)) bool {
	if p.flying(func(f *flight) bool { return f.kind == "hook" && f.key == e.Key }) {
		return false
	}
	matching := e.Processing(hook.Matching(p.specs, p.s.Subject(e)))
	d, asked := p.s.Turns.Current.HooksPending(e)
	switch {
	case by != nil:
		then(*by)
	case asked && d == nil:
		return false
	case asked:
		p.s.Turns.Current.HooksFinished(e)
		then(*d)
	case len(matching) == 0:
		then(passing)
	default:
		p.ask(e, matching, q, then)
	}
	return true
}

func (p *player) ask(e HookEvent, specs []hook.Spec, q *Queued, then func(HookDecision)) {
	step := p.s.Turns.Current.HookStep(e, specs)
	p.s.Turns.Current.HooksStarted(e, specs...)
	p.start(&flight{kind: "hook", key: e.Key, seen: e, flush: step.Flush, queued: q, decided: func(d HookDecision) {
		p.s.Turns.Current.HooksFinished(e)
		then(d)
	}}, "hooks %s on %s %s", Names(specs), e.Key, short(step, "thread", "traceId", "hooks", "flush", "eventId"))
}

// advance does the next thing that the workflow does by itself. It reports whether there was any.
func (p *player) advance() bool {
	s, now := p.s, p.now
	if s.Turns.Overdue(len(p.flights), false) || s.Outbox.Heavy() {
		f := s.Outbox.Flush()
		p.show()
		p.say("> store %s", strings.Join(recordIDs(f.Records), " "))
		s.Outbox.Flushed(f)
		return true
	}
	if s.Inbox.Superseded() {
		s.Inbox.Supersede(now)
		return true
	}
	if len(s.Decisions.ToCheck) > 0 && !p.flying(func(f *flight) bool { return f.kind == "check" }) {
		d := s.Decisions.ToCheck[0]
		p.start(&flight{kind: "check", key: d.ToolCallID, checked: func(reply CheckReply) {
			s.Decisions.ToCheck = s.Decisions.ToCheck[1:]
			s.Decisions.DecideOrReject(now, d, reply)
		}}, "check %s", d.ToolCallID)
		return true
	}
	if t := s.Turns.Cascading(); t != nil && !p.flying(func(f *flight) bool { return f.kind == "plan" }) {
		r := t.NextCascade()
		if r == nil {
			t.Cascaded()
			return true
		}
		step := r.CascadeStep()
		p.start(&flight{kind: "plan", run: r, flush: step.Flush, only: step.Only, planned: func(reply PlanReply) {
			t.Cascaded()
			r.Cover(p.now, reply)
		}}, "plan %s", short(step, stepNoise...))
		return true
	}
	for len(s.ParentLink.Notices) > 0 {
		p.say("> tell the parent %s", short(s.ParentLink.Notices[0]))
		s.ParentLink.NoticeSent()
	}
	if s.Titling.Due() && !p.flying(func(f *flight) bool { return f.kind == "title" }) {
		p.start(&flight{kind: "title"}, "title %s", short(s.Titling.Step(now), "thread", "flush"))
		return true
	}
	return p.live()
}

func (p *player) live() bool {
	s, now := p.s, p.now
	if s.Closing != nil && s.Turns.Current == nil && !s.Turns.Unpark() {
		s.Lifecycle(now, event.TypeSessionDeleted, "", p.rules)
		for _, task := range s.Tasks.Close(now) {
			p.say("> stop task %s", task.ID)
		}
		s.Close(now)
		p.over = true
		return true
	}
	switch s.NextAction(now) {
	case ActionPark:
		return s.Turns.Park()
	case ActionUnpark:
		return s.Turns.Unpark()
	case ActionRunTurn:
		return p.turn()
	case ActionLoad:
		if p.flying(func(f *flight) bool { return f.kind == "load" }) {
			return false
		}
		step, _ := s.Inbox.NextStored(now)
		p.start(&flight{kind: "load", key: step.EventID}, "load %s", step.EventID)
		return true
	case ActionBegin:
		p.show()
		s.Turns.BeginNext(now)
		p.say("= begin %s", s.Turns.Current.Item.ID)
		return true
	case ActionStore, ActionNone:
	}
	p.show()
	return false
}

func (p *player) turn() bool {
	s := p.s
	t := s.Turns.Current
	if t.Stage == ItemArrived && t.Interrupted == nil {
		var rules []rule.Spec
		if t.IsEnv() {
			rules = p.rules
		}
		enter := func(d HookDecision) { s.Turns.Current.Enter(p.now, d, rules...) }
		if d, seen := t.DecidedBefore(); seen {
			enter(d)
			return true
		}
		return p.intercept(s.Turns.Current.ItemEvent(), nil, nil, enter)
	}
	if t.HandlingPending() && t.Interrupted == nil {
		return p.handle(t.Handling)
	}
	for _, r := range t.Runs {
		if p.run(r) {
			return true
		}
	}
	if p.flying(func(f *flight) bool { return f.kind != "title" && f.kind != "check" }) ||
		slices.ContainsFunc(t.Runs, func(r *AgentRun) bool { return !r.Done() }) {
		return false
	}
	for _, id := range s.Turns.Current.StopSubAgents() {
		p.say("> stop sub-agent %s", id)
	}
	p.show()
	out := s.Turns.Current.End(p.now)
	p.show()
	p.say("= turn %s", told(out))
	return true
}

// told is how a turn has ended, in short.
func told(out signals.TurnResult) string {
	line := fmt.Sprintf("%s %s", out.EventID, out.Status)
	for _, m := range out.AllReplies() {
		line += fmt.Sprintf(" | %s: %s", m.SenderID, m.Content)
	}
	if out.Error != "" {
		line += " | error: " + out.Error
	}
	return line
}

func (p *player) handle(h *Handling) bool {
	s := p.s
	if p.flying(func(*flight) bool { return true }) {
		return false
	}
	if h.Stage == HandlingFunction {
		step := s.Turns.Current.EventStep()
		p.start(&flight{kind: "function", flush: step.Flush}, "function %s", short(step, stepNoise...))
		return true
	}
	e := s.Turns.Current.RuleEvent()
	heard := func(d HookDecision) { s.Turns.Current.ApplyProcessorDecision(p.now, d) }
	for _, spec := range p.specs {
		if spec.Kind == hook.KindProcessor && spec.Name == h.Rule.Processor {
			p.ask(e, []hook.Spec{spec}, nil, heard)
			return true
		}
	}
	heard(HookDecision{Outcome: event.OutcomeFailed, By: h.Rule.Name, Error: "no such processor"})
	return true
}

var stepNoise = []string{"thread", "traceId", "flush", "messageId", "version"}

func (p *player) run(r *AgentRun) bool {
	s, now := p.s, p.now
	busy := p.flying(func(f *flight) bool { return f.run == r })
	switch {
	case r.Done():
		return false
	case s.Turns.Current.Interrupted != nil:
		if !busy {
			r.StopRun(now)
		}
		return !busy
	case s.Turns.CanPark():
		return false
	case r.Phase == PhaseTools:
		return p.tools(r)
	case busy:
		return false
	case r.Phase == PhaseModel:
		return p.model(r)
	case r.Phase == PhaseReply:
		return p.intercept(r.ReplyEvent(), r.Reply.MessageDecision, nil, func(d HookDecision) { r.ApplyReplyDecision(p.now, d) })
	case r.Phase == PhasePlan:
		step := r.PlanStep()
		p.start(&flight{kind: "plan", run: r, flush: step.Flush, only: step.Only, planned: func(reply PlanReply) {
			r.Planned(p.now, reply)
		}}, "plan %s", short(step, stepNoise...))
		return true
	}
	return p.intercept(r.CallsEvent(), r.Reply.CallsDecision, nil, func(d HookDecision) { r.ApplyCallsDecision(p.now, d) })
}

func (p *player) model(r *AgentRun) bool {
	s, now := p.s, p.now
	if due := r.RetryDue(now); due > 0 && !s.Inbox.HasSteered() {
		return false
	}
	if r.AtLimit(now) {
		return true
	}
	if p.flying(func(f *flight) bool { return f.queued != nil }) {
		return false
	}
	p.show()
	if q, ok := s.Turns.Current.NextSteered(now); ok {
		p.say("= %s joins", q.Item.ID)
		return p.intercept(s.Turns.Current.SteeredEvent(q), nil, &q, func(d HookDecision) { s.Turns.Current.Join(p.now, q, d) })
	}
	if !r.HooksDecided {
		if e := r.ModelCallEvent(); len(hook.Matching(p.specs, s.Subject(e))) > 0 || s.Turns.Current.find(e.Key) != nil {
			return p.intercept(e, nil, nil, func(d HookDecision) { r.ApplyModelCallDecision(p.now, d) })
		}
		if !r.ApplyModelCallDecision(now, passing) {
			return true
		}
	}
	step := r.NextModelStep(p.specs)
	p.start(&flight{kind: "model", key: step.MessageID, run: r, flush: step.Flush, only: []string{step.Ends}},
		"model %s %s", step.MessageID, short(step, append(stepNoise, "agents", "inline")...))
	return true
}

func (p *player) tools(r *AgentRun) bool {
	s, now := p.s, p.now
	for _, c := range r.Calls {
		if p.flying(func(f *flight) bool { return f.call == c }) {
			continue
		}
		switch c.Stage {
		case CallReady:
			p.execute(r, c)
			return true
		case CallDelegated:
			if reply, gone, ok := s.Children.End(c.SubAgent); ok {
				switch {
				case reply == nil:
					c.SubAgentLost(now, gone)
				case reply.Cancelled:
					c.SubAgentLost(now, "it was cancelled")
				case reply.Status == "":
					c.SubAgentLost(now, reply.Error)
				default:
					c.SubAgentReplied(*reply)
				}
				return true
			}
		case CallRan:
			if p.intercept(c.ResultEvent(), c.Decision, nil, func(d HookDecision) {
				c.ApplyResultDecision(p.now, d)
				c.ToolDone(p.now, p.rules)
			}) {
				return true
			}
		case CallWaiting, CallAtClient, CallSettled:
		}
	}
	if slices.ContainsFunc(r.Calls, func(c *Call) bool { return c.Stage != CallSettled }) {
		return false
	}
	r.ToolsDone(now)
	return true
}

func (p *player) execute(r *AgentRun, c *Call) {
	s, now := p.s, p.now
	if c.Guarded() && c.Plan.Guard.Digest != "looked at" {
		step := c.GuardStep()
		p.start(&flight{kind: "plan", run: r, call: c, flush: step.Flush, only: step.Only, planned: func(reply PlanReply) {
			plan := c.Plan
			plan.Lapsed, plan.Denied, plan.NeedsApproval = reply.Calls[0].Lapsed, reply.Calls[0].Denied, reply.Calls[0].NeedsApproval
			plan.Guard = &Guard{Digest: "looked at"}
			c.Guard(p.now, plan)
		}}, "plan %s", short(step, stepNoise...))
		return
	}
	refuse := func(why string) bool {
		if why != "" {
			c.Refused(now, why)
		}
		return why != ""
	}
	broken := p.broken
	switch {
	case c.Plan.By == ByTask && refuse(s.Tasks.CheckLimit()), c.Plan.SubAgent != nil && refuse(s.Turns.Current.CheckDelegate()):
	case c.Plan.By == ByTask:
		var step TaskStep
		if c.Plan.SubAgent != nil {
			var start DelegateStart
			step, start = c.DelegateTask(now)
			p.say("> sub-agent %s", short(start))
		} else {
			step = c.StartTask(now)
		}
		p.say("> task %s", short(step, stepNoise...))
		if p.broken = ""; broken != "" {
			c.TaskNotStarted(now, step.Task, broken)
			s.Children.Forget(step.Task.ThreadID)
			return
		}
		c.TaskStarted(now, step.Task)
	case c.Plan.By == ByAgent:
		id, start := c.Delegate(p.specs...)
		p.say("> sub-agent %s %s", id, short(start))
		if p.broken = ""; broken != "" {
			c.SubAgentLost(now, broken)
		}
	case c.Plan.By == ByThread:
		if stop := c.Answer(now, p.specs...); stop != nil {
			p.say("> stop task %s", stop.ID)
		}
	case c.Plan.By == ByClient:
		c.AskClient(now)
	default:
		step := c.ToolStep(p.specs)
		p.start(&flight{kind: "tool", key: c.Plan.ID, run: r, call: c, flush: step.Flush}, "tool %s %s", c.Plan.ID, short(step, append(stepNoise, "toolCallId")...))
	}
}

// look prints what can be asked of the thread.
func (p *player) look(c command) {
	s := p.s
	switch c.verb {
	case "view":
		p.say("= %s", short(s.View(), "namespace", "threadId"))
	case "details":
		p.say("= %s", regexp.MustCompile(`\n+`).ReplaceAllString(s.Details(), "\n  "))
	case "queue":
		q := s.Inbox.View()
		if q.Processing != nil {
			p.say("= processing %s", q.Processing.ID)
		}
		for _, list := range []struct {
			name  string
			items []event.Item
		}{{"aside", q.Waiting}, {"waits", q.Items}, {"failed", q.Failed}, {"ended", q.Ended}} {
			for _, it := range list.items {
				p.say("= %s %s %s", list.name, it.ID, short(it, "id", "threadId", "namespace", "createdAt", "updatedAt", "payload", "traceId", "timestamp"))
			}
		}
	case "approvals":
		for _, a := range s.Decisions.Approvals() {
			p.say("= %s", short(a))
		}
	case "clients":
		for _, a := range s.Turns.ClientCalls() {
			p.say("= %s", short(a))
		}
	case "tasks":
		p.say("= %s", short(s.Tasks.View()))
	case "outcome":
		out, ok := s.Turns.Outcome(c.id)
		p.say("= %s known %v last %s awaited %v", told(out), ok, out.LastRecord, s.Turns.Awaits(c.id))
	case "row":
		p.say("= %s listed %v", short(s.Outbox.Row, "number"), s.Decisions.Listable())
	case "below":
		d := signals.Decide{ToolCallID: c.id, Decision: event.Decision(c.text)}
		p.say("= %s, several %v", s.Children.ForwardedOutcome(d), s.Children.NeedsSeveral(c.id))
	case "closed-task":
		for _, r := range TaskRecords(s.Ref(), s.Tasks.Running[0], read(c, TaskReply{}), p.now) {
			p.say("= %s %s %s", r.ID, r.Type, short(r.Payload))
		}
	case "end-step":
		p.say("= %v %s", s.ParentLink.AnswerStored(), short(s.ParentLink.EndStep(), "thread", "flush"))
	default:
		p.t.Fatalf("no such command: %s", c.verb)
	}
}

// show prints the records, timers and log lines that have come since.
func (p *player) show() {
	for _, r := range p.s.Outbox.Pending {
		key := r.ID + r.Type + string(r.Payload)
		if p.printed[key] {
			continue
		}
		p.printed[key] = true
		line := fmt.Sprintf("+ %s %s %s", r.ID, r.Type, short(r.Payload, "id", "threadId", "role", "toolCallId", "decidedAt", "requestedAt"))
		if r.EventID != "" && r.EventID != r.ID {
			line += " in " + r.EventID
		}
		if r.ParentEventID != "" && r.ParentEventID != r.EventID {
			line += " after " + r.ParentEventID
		}
		if r.TraceID != "" && r.TraceID != r.EventID {
			line += " trace " + r.TraceID
		}
		p.say("%s", line)
	}
	for _, l := range p.s.TakeLog() {
		p.say("> log %s: %s %v", l.Level, l.Text, l.Args[2:])
	}
	due, ok := p.s.NextDue()
	if ok && due != p.due {
		p.say("> timer %s", due.Sub(t0))
	}
	p.due = due
}

func (p *player) err(err error) {
	if err != nil {
		p.say("= error: %v", err)
	}
}

var (
	derived = regexp.MustCompile(`(?i)01[0-9A-Z]{24}|ev[a-z]*_[0-9a-f]{16,}`)
	numbers = regexp.MustCompile(`#\d+`)
)

// say prints a line, with short names in the place of derived ids.
func (p *player) say(format string, args ...any) {
	line := derived.ReplaceAllStringFunc(fmt.Sprintf(format, args...), func(id string) string {
		if !slices.Contains(p.names, id) {
			p.names = append(p.names, id)
		}
		return fmt.Sprintf("#%d", slices.Index(p.names, id)+1)
	})
	p.out.WriteString(strings.TrimRight(line, " ") + "\n")
}

// expand undoes what say does to ids.
func (p *player) expand(line string) string {
	return numbers.ReplaceAllStringFunc(line, func(name string) string {
		n, err := strconv.Atoi(name[1:])
		if err != nil || n == 0 || n > len(p.names) {
			return name
		}
		return p.names[n-1]
	})
}

// short is v as JSON, without what is empty, with times as what has passed since the thread's
// beginning.
func short(v any, without ...string) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var x any
	if err := json.Unmarshal(raw, &x); err != nil {
		panic(err)
	}
	if m, ok := x.(map[string]any); ok {
		for _, key := range without {
			delete(m, key)
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if x, _ = pruned(x); x == nil {
		return ""
	}
	_ = enc.Encode(x)
	return strings.TrimSpace(b.String())
}

func pruned(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, one := range v {
			kept, ok := pruned(one)
			if v[key] = kept; !ok {
				delete(v, key)
			}
		}
		if len(v) == 0 {
			return nil, false
		}
	case []any:
		for i := range v {
			v[i], _ = pruned(v[i])
		}
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return "+" + at.Sub(t0).String(), true
		}
		if len(v) > 300 {
			return fmt.Sprintf("%.40s… (%d bytes)", v, len(v)), true
		}
		return v, v != ""
	case bool:
		return v, v
	case float64:
		return v, v != 0
	}
	return v, v != nil
}
