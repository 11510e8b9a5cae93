package driver

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/llm"
)

// maxCallID is the maximum length of a tool call's id that OpenAI accepts, in bytes.
const maxCallID = 40

// CallID returns an id of a tool call that every provider accepts. It is deterministic, so calls and
// their results still match. Ids in replies remain unchanged.
func CallID(id string) string {
	if len(id) <= maxCallID && !notInName.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// Written returns the arguments of a call as the model wrote them, or an empty object if it wrote none.
func Written(arguments string) string {
	if Blank(arguments) {
		return "{}"
	}
	return arguments
}

// Output returns the result of a call, or for a blank one a text that every provider accepts.
func Output(result string) string {
	if Blank(result) {
		return "(no output)"
	}
	return result
}

// Arguments returns the arguments of a past call as JSON, because some servers parse them and reject
// requests with invalid or deeply nested ones.
func Arguments(s string) string {
	if strictjson.Check([]byte(s)) == nil {
		return s
	}
	return invalidArguments(s)
}

// ObjectArguments returns the arguments of a past call as a JSON object, for providers that accept
// nothing else.
func ObjectArguments(s string) json.RawMessage {
	var object map[string]json.RawMessage
	if strictjson.Check([]byte(s)) == nil && json.Unmarshal([]byte(s), &object) == nil && object != nil {
		return json.RawMessage(s)
	}
	return json.RawMessage(invalidArguments(s))
}

func invalidArguments(s string) string {
	b, _ := json.Marshal(map[string]string{"invalidJson": s}) // strings can always be marshalled
	return string(b)
}

const maxName = 64

var (
	notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
	letter    = regexp.MustCompile(`^[a-zA-Z_]`)
)

// Sanitize returns a name that every provider accepts.
func Sanitize(name string) string {
	name = notInName.ReplaceAllString(strings.TrimSpace(name), "_")
	if name != "" && !letter.MatchString(name) {
		name = "_" + name // Google accepts no digit or hyphen there
	}
	return name[:min(len(name), maxName)]
}

// ToolNames maps the names of tools, and of the properties of their arguments, to names that every provider accepts, and back.
type ToolNames struct {
	there, back map[string]string

	parameters map[string]json.RawMessage   // by the tool's own name
	keys       map[string]map[string]string // the names of properties that have others, by the tool's own name and the new ones
}

// NewToolNames returns the names of a request's tools.
func NewToolNames(tools []llm.Tool) *ToolNames {
	n := &ToolNames{there: map[string]string{}, back: map[string]string{}, parameters: map[string]json.RawMessage{}, keys: map[string]map[string]string{}}
	for _, t := range tools {
		n.parameters[t.Name], n.keys[t.Name] = Parameters(t.Parameters)
	}
	for _, t := range tools { // valid names remain unchanged
		if Sanitize(t.Name) == t.Name {
			n.there[t.Name], n.back[t.Name] = t.Name, t.Name
		}
	}
	for _, t := range tools {
		if _, ok := n.there[t.Name]; ok {
			continue
		}
		wire := n.free(Sanitize(t.Name))
		n.there[t.Name], n.back[wire] = wire, t.Name
	}
	return n
}

func (n *ToolNames) free(name string) string {
	return unused(name, maxName, func(name string) bool { _, taken := n.back[name]; return taken })
}

// unused returns a name of at most limit bytes that is not taken: the name itself, or with a number.
func unused(name string, limit int, taken func(string) bool) string {
	name = name[:min(len(name), limit)]
	candidate := name
	for i := 2; taken(candidate); i++ {
		suffix := fmt.Sprintf("_%d", i)
		candidate = name[:min(len(name), limit-len(suffix))] + suffix
	}
	return candidate
}

// Parameters returns the schema of a tool's arguments in a form that every provider takes.
func (n *ToolNames) Parameters(name string) json.RawMessage { return n.parameters[name] }

// Wire returns the name that a provider accepts.
func (n *ToolNames) Wire(name string) string {
	if w, ok := n.there[name]; ok {
		return w
	}
	return Sanitize(name)
}

// FormatName returns the name of a format that every provider accepts.
func FormatName(f *llm.ResponseFormat) string { return cmp.Or(Sanitize(f.Name), "reply") }

// Restore replaces the names in calls by the original names of the tools and of their properties.
func (n *ToolNames) Restore(calls []event.ToolCall) {
	for i := range calls {
		if name, ok := n.back[calls[i].Function.Name]; ok {
			f := &calls[i].Function
			f.Name, f.Arguments = name, restoredKeys(f.Arguments, n.keys[name])
		}
	}
}
