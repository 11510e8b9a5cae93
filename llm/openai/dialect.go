package openai

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

// Dialects are the values of [Config].Dialect.
const (
	// DialectOpenAI is that of OpenAI and Azure.
	DialectOpenAI = "openai"

	// DialectCompatible sends only what all servers are known to take.
	DialectCompatible = "compatible"

	// DialectMistral is that of Mistral's API, and of servers with the templates of its models.
	DialectMistral = "mistral"
)

// dialect is what a server takes and wants beyond what all servers do.
type dialect struct {
	// names says that messages may have a name. Other servers find names in the text, once several people speak.
	names bool

	// anyOrder says that system messages may stand anywhere, and messages of one role beside each other. Other servers get one system
	// message, at the beginning, and one message of neighbours of a role, since the templates of many models want user and assistant in turn.
	anyOrder bool

	// completionTokens says that the limit of a reply is max_completion_tokens, not max_tokens.
	completionTokens bool

	// thoughts says that thoughts which came with calls go back with them. OpenAI's servers send none, and refuse them.
	thoughts bool

	// callID returns the id of a call in the form that the server wants.
	callID func(id string) string
}

var dialects = map[string]dialect{
	DialectOpenAI:     {names: true, anyOrder: true, completionTokens: true, callID: driver.CallID},
	DialectCompatible: {thoughts: true, callID: driver.CallID},
	DialectMistral:    {callID: shortCallID},
}

// Dialects returns the names of all dialects.
func Dialects() []string { return slices.Sorted(maps.Keys(dialects)) }

// shortID matches the ids that Mistral takes.
var shortID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// shortCallID returns an id of nine letters and digits. It is deterministic, so that calls and their results still match.
func shortCallID(id string) string {
	if shortID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	short := strings.NewReplacer("-", "0", "_", "1").Replace(base64.RawURLEncoding.EncodeToString(sum[:]))
	return short[:9]
}

// messages returns a conversation as the server takes it.
func (d dialect) messages(messages []llm.Message) []llm.Message {
	if d.anyOrder {
		return messages
	}
	messages = llm.SystemFirst(messages)
	if !d.names {
		messages = driver.Named(messages)
	}
	var out []llm.Message
	for _, m := range messages {
		switch before := len(out) - 1; {
		case before >= 0 && joins(out[before], m):
			out[before] = join(out[before], m)
		case before >= 0 && out[before].Role == event.RoleTool && m.Role == event.RoleUser:
			out = append(out, llm.Message{Role: event.RoleAssistant, Content: unanswered}, m)
		default:
			out = append(out, m)
		}
	}
	return out
}

// unanswered stands for the reply of a turn that ended with the results of its calls: templates that want user and assistant in turn want one.
const unanswered = "(This turn ended without a reply.)"

// joins reports whether a message can be part of the one before it.
func joins(before, m llm.Message) bool {
	return before.Role == m.Role && (m.Role == event.RoleUser || m.Role == event.RoleAssistant) && len(before.ToolCalls) == 0
}

func join(before, m llm.Message) llm.Message {
	if len(before.Parts) > 0 || len(m.Parts) > 0 {
		before.Parts = slices.Concat(partsOf(before), partsOf(m))
	}
	if before.Content != "" && m.Content != "" {
		before.Content += "\n\n"
	}
	before.Content += m.Content
	if before.Name != m.Name {
		before.Name = ""
	}
	before.ToolCalls, before.Opaque = m.ToolCalls, m.Opaque
	return before
}

// partsOf returns the parts of a message, or its text as one.
func partsOf(m llm.Message) []string {
	if m.Content != "" && !slices.ContainsFunc(m.Parts, func(part string) bool { return part != "" }) {
		return []string{m.Content}
	}
	return m.Parts
}

// Fields of requests that a server may not know. A request can do without them, or has the other limit of tokens.
const (
	fieldStreamOptions    = "stream_options"
	fieldName             = "name"
	fieldReasoning        = "reasoning_content"
	fieldExtra            = "extra_content"
	fieldMaxTokens        = "max_tokens"
	fieldCompletionTokens = "max_completion_tokens"
)

// refusable begins with the fields that others contain.
var refusable = []string{fieldStreamOptions, fieldReasoning, fieldExtra, fieldCompletionTokens, fieldMaxTokens, fieldName}

// fieldSignature is in the extra_content of calls.
const fieldSignature = "thought_signature"

// requirable are fields of calls that a server may require, also of calls that another model made.
var requirable = []string{fieldReasoning, fieldSignature}

// learned is what a server has refused and required, by model. From then on, fields are left out, or are in all messages.
type learned struct {
	mu                sync.Mutex
	refused, required map[modelField]bool
}

type modelField struct{ model, field string }

func (l *learned) refuses(model, field string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused[modelField{model, field}]
}

func (l *learned) requires(model, field string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.required[modelField{model, field}]
}

// learn notes a field that an error refuses or requires clearly, and reports whether there is a new one.
func (l *learned) learn(model string, status int, said *driver.Said, sent map[string]bool) bool {
	if said == nil || status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	note := func(known *map[modelField]bool, field string, says bool) bool {
		key := modelField{model, field}
		if !says || (*known)[key] {
			return false
		}
		if *known == nil {
			*known = map[modelField]bool{}
		}
		(*known)[key] = true
		return true
	}
	for _, field := range refusable {
		if note(&l.refused, field, sent[field] && speaksOf(said.Message, unknownField, field)) {
			return true
		}
	}
	for _, field := range requirable {
		if note(&l.required, field, speaksOf(said.Message, missingField, field)) {
			return true
		}
	}
	return false
}

// unknownField matches what servers say of a field that they do not take: those of Mistral and other servers with pydantic, Groq, Cerebras,
// Google's compatible endpoint, and OpenAI.
var unknownField = regexp.MustCompile(`(?i)(extra inputs are not permitted|extra_forbidden|unsupported|not supported|unknown|unrecognized|unexpected|not allowed|not permitted|cannot find field|does not support)`)

// missingField matches what servers say of a field that they miss: DeepSeek, Kimi and Google's compatible endpoints.
var missingField = regexp.MustCompile(`(?i)(missing|must be passed back|required)`)

// speaksOf reports whether a message says something of a field.
func speaksOf(message string, says *regexp.Regexp, field string) bool {
	return says.MatchString(message) && regexp.MustCompile(fmt.Sprintf(`(^|[^a-zA-Z0-9_])%s($|[^a-zA-Z0-9_])`, field)).MatchString(message)
}
