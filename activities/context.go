package activities

import (
	"slices"
	"strings"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/internal/transcript/modelcontext"
	"github.com/threadmill/threadmill/llm"
)

// prepare converts a thread's newest messages, newest first, to the context of an agent's model:
// the instructions, then the conversation as the agent sees it, valid for every provider. Other
// agents appear as participants with names, without their tool calls. The messages are those of
// [transcript.Read].
//
// It is a pure function.
func prepare(who agent.Agent, in step.Model, newest []*transcript.Message) []llm.Message {
	out := make([]llm.Message, 0, len(newest)+1)
	if hasInstructions(who) {
		out = append(out, llm.Message{Role: event.RoleSystem, Content: who.Instructions})
	}
	v := newView(who.Name, in, newest)
	for _, m := range v.chronological(newest) {
		if !v.concerns(m) {
			continue
		}
		if shown, ok := modelcontext.SeenBy(who.Name, m.Message); ok && !blank(shown) {
			out = append(out, shown)
		}
	}
	for _, id := range in.OpenCalls {
		// Without a result, the model would repeat the call.
		out = append(out, llm.Message{Role: event.RoleTool, ToolCallID: id, Content: openCall})
	}
	return framed(llm.Repair(out), v.question(newest))
}

// openCall is the placeholder for the result of a call in another run of the agent.
const openCall = "This call is not done yet: it runs, or waits for a person. Its result comes later, in the conversation that it belongs to. Do not repeat the call."

// view is the view of one agent's run on a thread.
type view struct {
	name string
	in   step.Model

	// answered are the ids of the messages that the agent has answered.
	answered map[string]bool
}

func newView(name string, in step.Model, messages []*transcript.Message) view {
	v := view{name: name, in: in, answered: map[string]bool{}}
	for _, m := range messages {
		if v.own(m) && m.SenderType == event.CreatedByAgent {
			v.answered[m.ReplyToMessageID] = true
		}
	}
	return v
}

// own reports whether a message is the agent's, or the result of its call.
func (v view) own(m *transcript.Message) bool { return strings.EqualFold(m.AgentID, v.name) }

// cut reports whether the agent is shown a result that was cut.
func (v view) cut(messages []*transcript.Message) bool {
	return slices.ContainsFunc(messages, func(m *transcript.Message) bool { return v.own(m) && m.Cut() })
}

// concerns reports whether the agent sees a message: its own messages, those that it answers now or
// has answered, and those that it would answer if they were posted now. System messages are for
// all, except for the notice of the turn limit. In a thread without named agents, every message is
// for the default agent.
func (v view) concerns(m *transcript.Message) bool {
	if m.SenderType == event.CreatedBySystem {
		return !addressing.IsTurnLimit(m.Content)
	}
	if len(v.in.Agents) == 0 || v.own(m) || v.asks(m) {
		return true
	}
	id := m.Record.ID
	return id == v.in.ReplyTo || id == v.in.EventID || v.answered[id] || addressing.Responds(v.name, v.in.Agents, m.Message)
}

// asks reports whether a message is the question of the run: the question about an event, which has
// no record, or the message that is answered.
func (v view) asks(m *transcript.Message) bool {
	if v.in.Observe != nil {
		return m.Record.ID == ""
	}
	return m.Record.ID == v.in.ReplyTo
}

// question returns the question of the run in the form for the model.
func (v view) question(messages []*transcript.Message) llm.Message {
	for _, asked := range messages {
		if !v.asks(asked) {
			continue
		}
		if m, ok := modelcontext.SeenBy(v.name, asked.Message); ok && m.Role == event.RoleUser && !blank(m) {
			return m
		}
		break
	}
	return llm.Message{Role: event.RoleUser, Content: goOnText}
}

// ofRun reports whether a message is the agent's and belongs to this run.
func (v view) ofRun(m *transcript.Message) bool {
	run := v.in.MessageID[:strings.LastIndex(v.in.MessageID, ".")+1]
	return v.own(m) && (strings.HasPrefix(m.Record.ID, run) || strings.HasPrefix(m.ReplyToMessageID, run))
}

// chronological returns the messages, given newest first, in the order of the context, oldest
// first. That is the order in which they were stored, except that the agent's messages in other
// runs since the question of this run precede the question: a model continues at the end of the
// conversation, which must not be its own message.
func (v view) chronological(newest []*transcript.Message) []*transcript.Message {
	all := slices.Clone(newest)
	slices.Reverse(all)
	asked := slices.IndexFunc(all, v.asks)
	if asked < 0 {
		return all
	}
	begun := slices.IndexFunc(all, v.ofRun)
	if begun < 0 {
		begun = len(all)
	}
	// Messages of other runs, and the messages that they answer.
	others := map[string]bool{}
	for _, m := range all {
		if v.own(m) && !v.ofRun(m) {
			others[m.Record.ID], others[m.ReplyToMessageID] = true, true
		}
	}
	elsewhere := func(m *transcript.Message) bool { return others[m.Record.ID] && !v.asks(m) && !v.ofRun(m) }
	last := asked
	for i := asked; i < begun; i++ {
		if elsewhere(all[i]) {
			last = i
		}
	}
	var before, after []*transcript.Message
	for i, m := range all {
		switch {
		case i == asked:
		case i <= last || elsewhere(m):
			before = append(before, m)
		default:
			after = append(after, m)
		}
	}
	return slices.Concat(before, all[asked:asked+1], after)
}

// blank reports whether a message is empty, which providers reject. Replies and results are handled
// by [llm.Repair].
func blank(m llm.Message) bool {
	return (m.Role == event.RoleUser || m.Role == event.RoleSystem) && strings.TrimSpace(m.Content) == ""
}

// Placeholders where providers require a message that is not the model's.
const (
	earlierText = "(What was said before is not shown.)"
	goOnText    = "(Go on.)"
)

// framed makes the conversation begin with a message that is not the model's, even if earlier ones
// have left the context. It repeats the question at the end if the last message, other than system
// messages, would be the model's own.
func framed(messages []llm.Message, question llm.Message) []llm.Message {
	first := slices.IndexFunc(messages, func(m llm.Message) bool { return m.Role != event.RoleSystem })
	if first >= 0 && messages[first].Role != event.RoleUser {
		messages = slices.Insert(messages, first, llm.Message{Role: event.RoleUser, Content: earlierText})
	}
	last := len(messages) - 1
	for last > 0 && messages[last].Role == event.RoleSystem {
		last--
	}
	if first < 0 || messages[last].Role == event.RoleAssistant {
		messages = append(messages, question)
	}
	return messages
}
