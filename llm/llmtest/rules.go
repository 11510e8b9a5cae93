package llmtest

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Violation is a rule for messages that a transcript breaks, so that the provider would
// refuse it.
type Violation struct {
	// Provider is openai, anthropic or google.
	Provider string

	// Rule is one of the Rule… words.
	Rule string

	// At is the index of the message, or the number of messages if something is missing
	// behind the last.
	At      int
	Problem string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s refuses messages[%d]: %s (%s)", v.Provider, v.At, v.Problem, v.Rule)
}

// The rules of the providers, as far as they differ in nothing but words.
const (
	// RuleRole: a message is of the system, a user, the assistant or a tool.
	RuleRole = "role"
	// RuleContent: who speaks says something; a reply may have calls instead.
	RuleContent = "content"
	// RuleBegin: the first to speak is a user.
	RuleBegin = "begins with a user"
	// RuleEnd: it is the model's turn.
	RuleEnd = "ends with a user or results"
	// RuleCalls: only the assistant makes calls, and each has an id.
	RuleCalls = "calls"
	// RuleResults: each call has its result right behind it, once, and nothing else is one.
	RuleResults = "results follow their calls"
	// RuleIDs: no two calls of a transcript have the same id.
	RuleIDs = "ids are unique"
)

// The providers whose rules are known.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
	Google    = "google"
)

// ValidateTranscript reports what OpenAI, Anthropic and Google would refuse about a
// transcript, each error a *[Violation]. It judges what their drivers can make of it: for
// Anthropic and Google, messages of one role in a row are one turn, results are part of the
// user's turn, and so is what the system says once the conversation has begun, see
// [llm.SystemFirst]. OpenAI takes messages one by one.
func ValidateTranscript(messages []llm.Message) []error {
	var c checker
	c.messages(messages)
	turns := merged(messages)
	for _, provider := range []string{Anthropic, Google} {
		c.turns(provider, turns, len(messages))
	}
	c.unique(messages)
	return c.found
}

type checker struct{ found []error }

func (c *checker) add(provider, rule string, at int, format string, args ...any) {
	c.found = append(c.found, &Violation{Provider: provider, Rule: rule, At: at, Problem: fmt.Sprintf(format, args...)})
}

// messages applies the rules for messages one by one, which are OpenAI's.
func (c *checker) messages(messages []llm.Message) {
	open := map[string]bool{}
	for i, m := range messages {
		if m.Role == event.RoleTool {
			if !open[m.ToolCallID] {
				c.add(OpenAI, RuleResults, i, "it answers %q, which is no open call of the reply before it", m.ToolCallID)
			}
			delete(open, m.ToolCallID)
			continue
		}
		c.unanswered(OpenAI, i, open)
		clear(open)
		c.message(i, m)
		for _, call := range m.ToolCalls {
			open[call.ID] = true
		}
	}
	c.unanswered(OpenAI, len(messages), open)
}

func (c *checker) unanswered(provider string, at int, open map[string]bool) {
	if len(open) > 0 {
		c.add(provider, RuleResults, at, "%d calls before it have no result", len(open))
	}
}

func (c *checker) message(at int, m llm.Message) {
	switch m.Role {
	case event.RoleSystem, event.RoleUser:
		if len(m.ToolCalls) > 0 {
			c.add(OpenAI, RuleCalls, at, "only an assistant makes calls")
		}
		if !says(m) {
			c.add(OpenAI, RuleContent, at, "it says nothing")
		}
	case event.RoleAssistant:
		if !says(m) && len(m.ToolCalls) == 0 {
			c.add(OpenAI, RuleContent, at, "it says nothing and makes no call")
		}
	default:
		c.add(OpenAI, RuleRole, at, "%q is no role", m.Role)
	}
	for _, call := range m.ToolCalls {
		if call.ID == "" || call.Function.Name == "" {
			c.add(OpenAI, RuleCalls, at, "call %q of %q lacks its id or its name", call.ID, call.Function.Name)
		}
	}
}

// says reports whether a message has text. Drivers leave out parts that have none.
func says(m llm.Message) bool {
	return strings.TrimSpace(m.Content+strings.Join(m.Parts, "")) != ""
}

// turn is what one side says before it is the other's turn. The other side of the model's
// is the user's, which tools are part of.
type turn struct {
	at    int
	model bool
	parts []part
}

// part is a text (with neither call nor result), a call or a result.
type part struct {
	at           int
	call, result bool
	id           string
}

// merged makes turns of messages, as drivers do.
func merged(messages []llm.Message) []turn {
	var out []turn
	for i, m := range messages {
		if m.Role == event.RoleSystem && len(out) == 0 {
			// It goes elsewhere.
			continue
		}
		model := m.Role == event.RoleAssistant
		if len(out) == 0 || out[len(out)-1].model != model {
			out = append(out, turn{at: i, model: model})
		}
		last := &out[len(out)-1]
		switch {
		case m.Role == event.RoleTool:
			last.parts = append(last.parts, part{at: i, result: true, id: m.ToolCallID})
		case says(m):
			last.parts = append(last.parts, part{at: i})
		}
		for _, call := range m.ToolCalls {
			last.parts = append(last.parts, part{at: i, call: true, id: call.ID})
		}
	}
	return out
}

// turns applies the rules for turns, which Anthropic and Google share: they alternate,
// beginning and ending with the user's; the results of a turn's calls open the next one.
func (c *checker) turns(provider string, turns []turn, end int) {
	if len(turns) == 0 {
		c.add(provider, RuleBegin, end, "nobody says anything")
		return
	}
	if turns[0].model {
		c.add(provider, RuleBegin, turns[0].at, "the model speaks first")
	}
	if last := turns[len(turns)-1]; last.model {
		c.add(provider, RuleEnd, end, "the model would answer itself")
	}
	var open map[string]bool
	for _, t := range turns {
		if len(t.parts) == 0 {
			c.add(provider, RuleContent, t.at, "the turn says nothing")
		}
		c.results(provider, t, open)
		open = map[string]bool{}
		for _, p := range t.parts {
			if p.call {
				open[p.id] = true
			}
		}
	}
	c.unanswered(provider, end, open)
}

// results checks a turn against the calls of the one before it: as many results as calls,
// one for each, ahead of any text.
func (c *checker) results(provider string, t turn, open map[string]bool) {
	text := false
	for _, p := range t.parts {
		switch {
		case p.result && text:
			c.add(provider, RuleResults, p.at, "the result of %q stands behind a text", p.id)
		case p.result && !open[p.id]:
			c.add(provider, RuleResults, p.at, "it answers %q, which is no open call of the turn before it", p.id)
		}
		if p.result {
			delete(open, p.id)
		}
		text = text || !p.result
	}
	c.unanswered(provider, t.at, open)
}

// unique checks that no id is used twice, on which Anthropic insists.
func (c *checker) unique(messages []llm.Message) {
	seen := map[string]bool{}
	for i, m := range messages {
		for _, call := range m.ToolCalls {
			if seen[call.ID] {
				c.add(Anthropic, RuleIDs, i, "%q is the id of another call", call.ID)
			}
			seen[call.ID] = true
		}
	}
}
