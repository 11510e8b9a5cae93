package llmtest

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Violation is a violation of a provider's rule by a transcript: the provider would reject it.
type Violation struct {
	// Provider is openai, anthropic or google.
	Provider string

	// Rule is one of the Rule constants.
	Rule string

	// At is the index of the message, or the number of messages if something is missing after the
	// last one.
	At      int
	Problem string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s refuses messages[%d]: %s (%s)", v.Provider, v.At, v.Problem, v.Rule)
}

// The rules of the providers. Rules that differ only in wording are one rule.
const (
	// RuleRole: the role of a message is system, user, assistant or tool.
	RuleRole = "role"
	// RuleContent: a message has text; an assistant message may have tool calls instead.
	RuleContent = "content"
	// RuleBegin: the first turn is the user's.
	RuleBegin = "begins with a user"
	// RuleEnd: the last turn is the user's.
	RuleEnd = "ends with a user or results"
	// RuleCalls: only assistant messages contain tool calls, and each call has an id and a name.
	RuleCalls = "calls"
	// RuleResults: each call has exactly one result, directly after it, and there are no other
	// results.
	RuleResults = "results follow their calls"
	// RuleIDs: the ids of the calls in a transcript are unique.
	RuleIDs = "ids are unique"
)

// The providers with known rules.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
	Google    = "google"
)

// ValidateTranscript reports what OpenAI, Anthropic and Google reject in a transcript. Each error
// is a *[Violation]. It allows for the conversions by drivers: for Anthropic and Google,
// consecutive messages of one role are one turn, and tool results and later system messages belong
// to the user's turn, see [llm.SystemFirst]. OpenAI accepts individual messages.
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

// messages applies OpenAI's rules, which concern individual messages.
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

// says reports whether a message has text. Drivers omit parts without text.
func says(m llm.Message) bool {
	return strings.TrimSpace(m.Content+strings.Join(m.Parts, "")) != ""
}

// turn is a sequence of messages of one side: the model, or the user with tools.
type turn struct {
	at    int
	model bool
	parts []part
}

// part is a call, a result or, if neither, a text.
type part struct {
	at           int
	call, result bool
	id           string
}

// merged merges messages into turns, as drivers do.
func merged(messages []llm.Message) []turn {
	var out []turn
	for i, m := range messages {
		if m.Role == event.RoleSystem && len(out) == 0 {
			// Drivers send it separately.
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

// turns applies the rules of Anthropic and Google for turns: the first and the last turn are the
// user's, and the results of a turn's calls are at the start of the next turn.
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

// results validates a turn against the calls of the previous one: exactly one result for each call,
// before any text.
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

// unique checks that call ids are unique, which Anthropic requires.
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
