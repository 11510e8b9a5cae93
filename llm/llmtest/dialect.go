package llmtest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm/internal/script"
)

// Dialect is what a server of Chat Completions does otherwise than OpenAI. The zero value is OpenAI's own.
type Dialect struct {
	// Name is the server's.
	Name string

	// Setting is the dialect that is configured for such a server: see the driver openai. Empty: its default.
	Setting string

	// Refused are the fields that the server refuses: stream_options, max_tokens, or, of messages and calls, name, reasoning_content and
	// extra_content. Refusal is what it says, with the name of the field as %s.
	Refused []string
	Refusal string

	// Alternating: user and assistant speak in turn, and what the system says comes first, as the templates of many models want.
	Alternating bool

	// ShortIDs: the ids of calls have nine letters and digits.
	ShortIDs bool

	// ThoughtParts: thoughts are parts of the content. ThoughtField is the field that has them otherwise. Default: [Config].ReasoningField.
	ThoughtParts bool
	ThoughtField string

	// ThoughtsBack: each message with calls has thoughts, in the running turn those that the server has sent.
	ThoughtsBack bool

	// Signatures: in the running turn, the first call of each message has a signature in extra_content: its own, or the documented one for
	// calls that others made.
	Signatures bool
}

// What servers say of fields that they do not take.
const (
	saysOpenAI   = "Unsupported parameter: '%s' is not supported with this model."
	saysPydantic = `[{"type":"extra_forbidden","loc":["body","%s"],"msg":"Extra inputs are not permitted"}]`
	saysGroq     = "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property '%s' is unsupported)]"
	saysGoogle   = `Invalid JSON payload received. Unknown name "%s": Cannot find field.`
)

// Dialects returns the dialects of known servers.
func Dialects() []Dialect {
	mistral := Dialect{
		Name: "Mistral", Setting: "mistral", Alternating: true, ShortIDs: true, ThoughtParts: true,
		Refused: []string{"name", "reasoning_content", "extra_content"}, Refusal: saysPydantic,
	}
	older := mistral
	older.Name, older.Refused = "Mistral, older", append([]string{"stream_options"}, mistral.Refused...)
	return []Dialect{
		mistral,
		older,
		{Name: "Groq", ThoughtField: "reasoning", Refused: []string{"name", "reasoning_content", "extra_content"}, Refusal: saysGroq},
		{Name: "DeepSeek", ThoughtsBack: true, Refused: []string{"extra_content"}, Refusal: saysOpenAI},
		{Name: "vLLM", Alternating: true},
		{Name: "Gemini, compatible endpoint", Signatures: true, Refused: []string{"name", "reasoning_content"}, Refusal: saysGoogle},
		{Name: "gateway", Refused: []string{"stream_options", "reasoning_content"}, Refusal: saysPydantic},
		{Name: "newer models", Refused: []string{"max_tokens"}, Refusal: "Unsupported parameter: '%s' is not supported with this model. Use 'max_completion_tokens' instead."},
		{Name: "OpenAI's elsewhere", Setting: "openai", Refused: []string{"name", "reasoning_content", "extra_content"}, Refusal: saysOpenAI},
	}
}

// openAI refuses what other servers have added.
var openAI = Dialect{Refused: []string{"reasoning_content", "extra_content"}, Refusal: `Unknown parameter: "%s"`}

// dialect returns that of the server.
func (c Config) dialect() Dialect {
	if c.Dialect.Name == "" {
		return openAI
	}
	return c.Dialect
}

func (d Dialect) refuses(field string) bool { return slices.Contains(d.Refused, field) }

// problem returns why the server refuses a request, or "".
func (d Dialect) problem(q *chatRequest) string {
	for _, field := range d.Refused {
		if q.has(field) {
			return fmt.Sprintf(d.Refusal, field)
		}
	}
	for _, check := range []struct {
		applies bool
		problem func(*chatRequest) string
	}{{d.Alternating, alternation}, {d.ShortIDs, shortIDs}, {d.ThoughtsBack, thoughtsBack}, {d.Signatures, signaturesBack}} {
		if !check.applies {
			continue
		}
		if problem := check.problem(q); problem != "" {
			return problem
		}
	}
	return ""
}

// has reports whether a request has a field that a server may refuse.
func (q *chatRequest) has(field string) bool {
	switch field {
	case "stream_options":
		return q.StreamOptions != nil
	case "max_tokens":
		return q.MaxTokens > 0
	}
	return slices.ContainsFunc(q.Messages, func(m chatMessage) bool {
		switch field {
		case "name":
			return m.Name != ""
		case "reasoning_content":
			return m.Reasoning != nil
		}
		return slices.ContainsFunc(m.ToolCalls, func(c chatCall) bool { return c.Extra != nil })
	})
}

// alternation: user and assistant in turn, and results after calls.
func alternation(q *chatRequest) string {
	after := map[string][]string{
		event.RoleUser: {event.RoleAssistant}, event.RoleAssistant: {event.RoleUser, event.RoleTool}, event.RoleTool: {event.RoleAssistant, event.RoleTool},
	}
	before := event.RoleAssistant
	for i, m := range q.Messages {
		if i == 0 && m.Role == event.RoleSystem {
			continue
		}
		if !slices.Contains(after[m.Role], before) {
			return "Unexpected role '" + m.Role + "' after role '" + before + "'"
		}
		before = m.Role
	}
	return ""
}

var shortID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

func shortIDs(q *chatRequest) string {
	for _, m := range q.Messages {
		ids := []string{m.ToolCallID}
		for _, c := range m.ToolCalls {
			ids = append(ids, c.ID)
		}
		for _, id := range ids {
			if (id != "" || m.Role == event.RoleTool) && !shortID.MatchString(id) {
				return "Tool call id was " + id + " but must be a-z, A-Z, 0-9, with a length of 9."
			}
		}
	}
	return ""
}

// running returns the messages after the newest one of a user.
func (q *chatRequest) running() []chatMessage {
	for i, m := range slices.Backward(q.Messages) {
		if m.Role == event.RoleUser {
			return q.Messages[i+1:]
		}
	}
	return nil
}

func thoughtsBack(q *chatRequest) string {
	const problem = "The `reasoning_content` in the thinking mode must be passed back to the API."
	for _, m := range q.Messages {
		if len(m.ToolCalls) > 0 && (m.Reasoning == nil || *m.Reasoning == "") {
			return problem
		}
	}
	for _, m := range q.running() {
		if len(m.ToolCalls) == 0 {
			continue
		}
		if sent := q.server.thoughtOf(m.ToolCalls[0].ID); sent != "" && *m.Reasoning != sent {
			return problem
		}
	}
	return ""
}

// extra is the extra_content of a call.
type extra struct {
	Google struct {
		Signature string `json:"thought_signature"`
	} `json:"google"`
}

func signaturesBack(q *chatRequest) string {
	for _, m := range q.running() {
		for i, c := range m.ToolCalls {
			var e extra
			_ = json.Unmarshal(c.Extra, &e) // nothing else has a signature
			switch s := e.Google.Signature; {
			case s == "" && i == 0:
				return "Function call is missing a thought_signature in functionCall parts: " + c.Function.Name
			case s != "" && !anySignature[s] && s != signed(q.Model, q.account, c.Function.Name):
				return "Invalid thought signature of " + c.Function.Name
			}
		}
	}
	return ""
}

// extraOf returns the extra_content of a call in a reply, or nil.
func (q *chatRequest) extraOf(index int, call event.ToolCall) any {
	if !q.dialect.Signatures || index > 0 {
		return nil
	}
	return object{"google": object{"thought_signature": signed(q.Model, q.account, call.Function.Name)}}
}

// thoughtFields returns the fields of a message with a thought.
func (q *chatRequest) thoughtFields(c *call, thought, text string) object {
	field := c.config.ReasoningField
	if q.dialect.ThoughtField != "" {
		field = q.dialect.ThoughtField
	}
	if !q.dialect.ThoughtParts {
		return object{field: thought}
	}
	parts := []any{object{"type": "thinking", "thinking": []any{object{"type": "text", "text": thought}}}}
	if text != "" {
		parts = append(parts, object{"type": "text", "text": text})
	}
	return object{"content": parts}
}

// answers gives the calls of a reply ids as the server has them, and keeps the thought that must come back with them.
func (q *chatRequest) answers(reply *script.Reply) {
	for i := range reply.Calls {
		if q.dialect.ShortIDs {
			sum := sha256.Sum256([]byte(reply.Calls[i].ID))
			reply.Calls[i].ID = hex.EncodeToString(sum[:])[:9]
		}
	}
	if _, thought := joinedPieces(*reply); len(reply.Calls) > 0 {
		q.server.keepThought(reply.Calls[0].ID, thought)
	}
}

func (s *Server) keepThought(id, thought string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.thoughts == nil {
		s.thoughts = map[string]string{}
	}
	s.thoughts[id] = thought
}

// thoughtOf returns the thought that came with a call of this server, or "".
func (s *Server) thoughtOf(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.thoughts[id]
}
