package thread

import (
	"cmp"
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
	"github.com/threadmill/threadmill/internal/step"
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
	handed  []step.Flush
}

// flight is something that the workflow has started and that has not ended.
type flight struct {
	kind, key string
	run       *AgentRun
	call      *Call
	flush     step.Flush
	only      []string
	seen      HookEvent
	decided   func(step.HookDecision)
	planned   func(step.PlanReply)
	checked   func(step.CheckReply)
	queued    *Queued
	ahead     *Turn
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

// answers is "answer c1 q=accept round=2 by=ann // {"q":{"content":…}}".
func (p *player) answers(c command) signals.InputAnswers {
	a := signals.InputAnswers{ToolCallID: c.id, Answers: map[string]event.InputAnswer{}, By: cmp.Or(c.opts["by"], "ann")}
	a.Round, _ = strconv.Atoi(c.opts["round"])
	for _, pair := range strings.Fields(c.text) {
		id, action, _ := strings.Cut(pair, ":")
		a.Answers[id] = event.InputAnswer{Action: event.InputAction(action)}
		if action == string(event.InputAccept) && len(c.raw) > 0 {
			a.Answers[id] = event.InputAnswer{Action: event.InputAccept, Content: c.raw}
		}
	}
	return a
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
		p.s = New("ns", "t1", start, t0, t0)
		if err := start.Validate(); err != nil {
			p.say("= error: %v", err)
		}
		p.s.Outbox.Flushed(p.s.Outbox.Flush())
	case "parent":
		s.ParentLink.Parent = new(read(c, step.Parent{ThreadID: "t0", Agent: "alice", ToolName: "ask", ToolCallID: "c0", MessageID: "m0", TraceID: "e0", EventID: "e0", Depth: 1}))
	case "first":
		p.post(p.parse("post " + s.ParentLink.FirstID(s.Ref()) + " by=alice " + strings.TrimSpace(c.id+" "+c.text)))
		s.InheritUser()
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
		if due, _, ok := s.NextDue(); ok && !due.After(p.now) {
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
		p.err(s.ValidatePost(p.message(c)))
	case "interrupt", "close", "retry":
		ctl := signals.Control{Action: signals.ControlAction(c.verb), EventID: strings.TrimPrefix(c.id, "-"), By: "ann"}
		p.control(read(c, ctl), c.text == "late")
	case "set-status":
		set := read(c, signals.SetStatus{EventID: c.id, Status: event.ItemStatus(c.text), By: "ann"})
		it, interrupt, err := s.SetStatus(now, set)
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
		id := s.Revoke(now, read(c, signals.Revoke{ToolCallID: c.id, By: "ann"}))
		p.say("= unwritten %v", s.Outbox.Unwritten(id))
	case "number":
		s.Number(now)
	case "not-passed":
		s.Children.NotForwarded(Forward{ThreadID: c.id, key: c.text})
	case "hooks-gone":
		p.say("= asked %s", short(s.Turns.Current.PendingHooks(s.Turns.Current.ItemEvent(), p.specs)))
	case "result":
		p.say("= %s", s.ReadResult(read(c, signals.ToolResult{ToolCallID: c.id, Output: c.text, By: "editor"})).Apply(now))
	case "result-early":
		out, _ := s.ReadResult(read(c, signals.ToolResult{ToolCallID: c.id, Output: c.text, By: "editor"})).Keep()
		p.say("= %s", out)
	case "result-signal":
		s.ReadResult(read(c, signals.ToolResult{ToolCallID: c.id, Output: c.text, By: "editor"})).Take(now)
	case "answer":
		p.takeInput(false, p.answers(c))
	case "answer-signal":
		p.takeInput(true, p.answers(c))
	case "task-report":
		p.err(s.TaskReported(now, read(c, step.TaskReport{TaskID: c.id})))
		p.cut()
	case "complete-task":
		out := s.CompleteTask(now, read(c, signals.CompleteTask{TaskID: c.id}))
		p.say("= %s", out.Result)
	case "cancel-task":
		out := s.CancelTask(now, read(c, signals.CancelTask{TaskID: c.id, By: "ann"}), true)
		p.say("= %s", out.Result)
		s.ForgetSubAgent(now, out.Task.ThreadID)
	case "sub-ended":
		s.SubAgentEnded(now, read(c, step.SubAgentEnded{ThreadID: c.id, DelegateReply: step.DelegateReply{Status: signals.TurnCompleted}}))
	case "sub-gone":
		s.Children.ApplyLoss(c.id, c.text)
	case "sub-asks":
		asks := step.SubAgentRequest{ThreadID: c.id, Request: read(c, event.ApprovalRequest{ToolCallID: c.text, ToolName: "rm", Agent: "bob", RequestedAt: now})}
		asks.Listed = len(c.opts) > 0
		s.SubAgentRequested(asks)
	case "sub-asks-input":
		s.SubAgentRequested(step.SubAgentRequest{ThreadID: c.id, Input: new(read(c, event.InputRequest{ToolCallID: c.text, ToolName: "book", Agent: "bob", Round: 1, RequestedAt: now}))})
	case "sub-answered":
		got := read(c, event.InputReceived{ToolCallID: c.text, ToolName: "book", Agent: "bob", Round: 1})
		s.SubAgentDecided(now, step.SubAgentDecision{ThreadID: c.id, ToolCallID: c.text, Input: &got})
	case "sub-asks-through":
		call, agents, _ := strings.Cut(c.text, " ")
		s.SubAgentRequested(step.SubAgentRequest{ThreadID: c.id, Agents: strings.Split(agents, ","), Request: event.ApprovalRequest{ToolCallID: call, ToolName: "rm", Agent: "bob"}})
	case "sub-decided":
		s.SubAgentDecided(now, read(c, step.SubAgentDecision{ThreadID: c.id, ToolCallID: c.text}))
	case "hook-decided":
		p.err(s.Turns.HookDecided(step.HookDecided{EventID: c.id, Decision: p.decision(c)}))
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
	incoming, err := s.ReadPost(post)
	switch {
	case err != nil && c.verb == "post-signal":
		s.Reject(p.now, signals.SignalPost, post, err)
		return
	case err != nil:
		p.err(err)
		return
	}
	posted, err := s.Post(p.now, incoming)
	switch {
	case err != nil && c.verb == "post-signal" && (errors.Is(err, ErrFull) || errors.Is(err, ErrClosed)):
		s.PostFailed(p.now, incoming, err)
	case err != nil && c.verb == "post-signal":
		s.Reject(p.now, signals.SignalPost, post, err)
	case err != nil:
		p.err(err)
	case posted.Duplicate:
		p.say("= duplicate")
	case posted.Interrupts != nil:
		p.affect(*posted.Interrupts)
	}
}

func (p *player) control(ctl signals.Control, late bool) {
	s := p.s
	switch {
	case ctl.Action == signals.ControlRetry:
		p.err(s.Retry(p.now, ctl))
		return
	case ctl.Action == signals.ControlClose:
		ctl.EventID = ""
		s.Closing = &ctl
		s.Turns.Interrupt(ctl)
	case ctl.EventID == "" || s.Turns.InTurn(ctl.EventID):
		s.Turns.Interrupt(ctl)
		s.CancelDerived(p.now, ctl)
	default:
		p.say("= cancelled: %v", s.CancelEvent(p.now, ctl))
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
		if f.ahead != nil {
			continue
		}
		if f.kind == "hook" {
			p.say("> cancel hooks on %s", f.key)
			s.Turns.Current.HooksFinished(f.seen)
		}
		if f.queued != nil {
			s.Turns.Current.PutBack(p.now, *f.queued)
		}
	}
	p.flights = slices.DeleteFunc(p.flights, func(f *flight) bool { return f.kind != "check" && f.ahead == nil })
}

func (p *player) decide(c command) {
	d := read(c, signals.Decide{ToolCallID: c.id, Decision: event.Decision(c.text), By: "ann"})
	p.take(c.verb == "decide-signal", d)
}

func (p *player) take(signal bool, d signals.Decide) {
	s := p.s
	r := s.ReadDecision(d)
	switch {
	case r.Below():
		f, err := r.Forward(p.now)
		if p.err(err); err == nil {
			p.say("= %s by %s", f.Outcome, f.ThreadID)
		}
		return
	case signal:
		r.Take(p.now)
		return
	case r.Early():
		_, held := r.Keep()
		p.say("= early, held: %v", held)
		return
	}
	if err := r.Problem(); err != nil {
		p.err(err)
		return
	}
	answer := func(reply step.CheckReply) { p.say("= %s", short(s.ReadDecision(d).Apply(p.now, reply))) }
	if input, ok := r.Unchecked(); ok {
		p.start(&flight{kind: "check", key: d.ToolCallID, checked: answer}, "check %s %s", d.ToolCallID, short(input, "thread", "toolCallId"))
		return
	}
	answer(step.CheckReply{})
}

func (p *player) takeInput(signal bool, a signals.InputAnswers) {
	switch r := p.s.ReadAnswer(a); {
	case r.Below():
		f, err := r.Forward(p.now)
		if p.err(err); err == nil {
			p.say("= %s by %s", f.Outcome, f.ThreadID)
		}
	case signal:
		r.Take(p.now)
	default:
		out, err := r.Apply(p.now)
		p.err(err)
		p.say("= %s", out)
	}
}
