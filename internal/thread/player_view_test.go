package thread

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// look prints what can be asked of the thread.
func (p *player) look(c command) {
	s := p.s
	switch c.verb {
	case "view":
		p.say("= %s", short(s.View(), "namespace", "threadId"))
	case "details":
		p.say("= %s", regexp.MustCompile(`\n+`).ReplaceAllString(s.Details(), "\n  "))
	case "queue":
		q := s.Queue()
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
		for _, a := range s.Approvals() {
			p.say("= %s", short(a))
		}
	case "clients":
		for _, a := range s.Turns.ClientCalls() {
			p.say("= %s", short(a))
		}
	case "inputs":
		for _, q := range s.InputRequests() {
			p.say("= %s", short(q))
		}
	case "tasks":
		p.say("= %s", short(s.Tasks.View()))
	case "outcome":
		out, ok := s.Turns.Outcome(c.id)
		p.say("= %s known %v last %s awaited %v", told(out), ok, out.LastRecord, s.Awaits(c.id))
	case "row":
		p.say("= %s listed %v", short(s.Outbox.Row, "number"), s.listable())
	case "below":
		d := signals.Decide{ToolCallID: c.id, Decision: event.Decision(c.text)}
		f := Forward{Outcome: signals.DecideAccepted, key: d.ToolCallID, as: d.Decision}
		p.say("= %s, several %v", s.Decisions.Forwarded(f), s.Children.NeedsSeveral(f))
	case "closed-task":
		for _, r := range TaskRecords(s.Ref(), s.Tasks.Running[0], read(c, step.TaskReply{}), p.now) {
			p.say("= %s %s %s", r.ID, r.Type, short(r.Payload))
		}
	case "end-step":
		p.say("= %v %s", s.AnswerStored(), short(s.EndStep(), "thread", "flush"))
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
	for _, l := range p.s.Log.Take() {
		p.say("> log %s: %s %v", l.Level, l.Text, l.Args[2:])
	}
	due, _, ok := p.s.NextDue()
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
