package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/store"
)

// Score is the result of a conversation, without the parts that differ between runs.
type Score struct {
	// Title is the thread's title.
	Title string `yaml:"title"`

	// Records are the thread's records, in order.
	Records []Record `yaml:"records"`

	// Shown is the input of each model, in the order of its calls.
	Shown []Shown `yaml:"shown"`
}

// Record is a stored record.
type Record struct {
	ID      string `yaml:"id"`
	Type    string `yaml:"type"`
	Trace   string `yaml:"trace,omitempty"`
	Parent  string `yaml:"parent,omitempty"`
	Payload value  `yaml:"payload"`
}

// Shown are the calls of one model.
type Shown struct {
	Model string   `yaml:"model"`
	Tools []string `yaml:"tools,omitempty,flow"`
	Calls []Call   `yaml:"calls"`
}

// Call is a model call. If it begins with all messages of the previous call, Again is their number,
// and Messages has the others.
type Call struct {
	Again    int     `yaml:"again,omitempty"`
	Messages []value `yaml:"messages"`
}

// value is normalized JSON on one line.
type value struct{ v any }

// MarshalYAML implements yaml.Marshaler.
func (v value) MarshalYAML() (any, error) {
	var node yaml.Node
	if err := node.Encode(v.v); err != nil {
		return nil, err
	}
	node.Style = yaml.FlowStyle
	return &node, nil
}

// Render renders the result of a thread as YAML. Requests of other threads and exact repetitions
// are omitted.
func (t *Transcript) Render(thread store.Thread, records []event.Record, requests []llmtest.Request) ([]byte, error) {
	n := normaliser{thread: thread.ID, names: map[string]string{}, counts: map[string]int{}}
	s := Score{Title: n.text(thread.Title)}
	for _, r := range records {
		payload, err := n.value(r.Payload)
		if err != nil {
			return nil, fmt.Errorf("record %s: %w", r.ID, err)
		}
		s.Records = append(s.Records, Record{n.text(r.ID), r.Type, n.text(r.TraceID), n.text(r.ParentEventID), payload})
	}
	for _, model := range append(t.Names(), Namer) {
		shown, err := n.shown(model, requests)
		if err != nil {
			return nil, err
		}
		s.Shown = append(s.Shown, shown)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(s)
	return out.Bytes(), err
}

// shown collects one model's calls in the thread.
func (n *normaliser) shown(model string, requests []llmtest.Request) (Shown, error) {
	s := Shown{Model: model}
	var all [][]value
	for _, r := range requests {
		var body struct {
			Model    string            `json:"model"`
			Messages []json.RawMessage `json:"messages"`
			Tools    []struct {
				Function struct {
					Name string `json:"name"`
				} `json:"function"`
			} `json:"tools"`
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			return s, err
		}
		if body.Model != model || threadID.FindString(string(r.Body)) != n.thread {
			continue
		}
		messages, tools := make([]value, len(body.Messages)), make([]string, len(body.Tools))
		for i, raw := range body.Messages {
			var err error
			if messages[i], err = n.value(raw); err != nil {
				return s, err
			}
		}
		for i, tool := range body.Tools {
			tools[i] = tool.Function.Name
		}
		if slices.ContainsFunc(all, func(before []value) bool { return reflect.DeepEqual(before, messages) }) {
			continue
		}
		call := Call{Messages: messages}
		if last := len(all) - 1; last >= 0 && len(messages) > len(all[last]) && reflect.DeepEqual(messages[:len(all[last])], all[last]) {
			call = Call{Again: len(all[last]), Messages: messages[len(all[last]):]}
		}
		all, s.Calls, s.Tools = append(all, messages), append(s.Calls, call), tools
	}
	return s, nil
}

// normaliser replaces random values, and those derived from the thread's id, by names in the order
// of appearance.
type normaliser struct {
	thread string
	names  map[string]string
	counts map[string]int
}

// varying are the fields with times, attempts, and what depends on the order of parallel agents.
var varying = []string{
	"createdAt", "requestedAt", "decidedAt", "grantedAt", "expiresAt", "timestamp", "durationMs", "attempt", "context",
}

// made matches generated ids and digests.
var made = regexp.MustCompile(`(call)_[0-9a-f]{24}|(sha256):[0-9a-f]{64}|\b0[0-9A-HJKMNP-TV-Z]{25}\b`)

func (n *normaliser) text(s string) string {
	s = regexp.MustCompile(regexp.QuoteMeta(n.thread)+`\b`).ReplaceAllString(s, ThreadID)
	return made.ReplaceAllStringFunc(s, func(id string) string {
		if name, known := n.names[id]; known {
			return name
		}
		kind := "id"
		if m := made.FindStringSubmatch(id); m[1]+m[2] != "" {
			kind = m[1] + m[2]
		}
		n.counts[kind]++
		n.names[id] = fmt.Sprintf("%s-%d", kind, n.counts[kind])
		return n.names[id]
	})
}

// value normalizes JSON. Strings with JSON in them stay strings.
func (n *normaliser) value(raw json.RawMessage) (value, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return value{}, err
	}
	return value{n.any(v)}, nil
}

func (n *normaliser) any(v any) any {
	switch v := v.(type) {
	case string:
		return n.text(v)
	case []any:
		for i := range v {
			v[i] = n.any(v[i])
		}
	case map[string]any:
		for _, field := range varying {
			delete(v, field)
		}
		fields := make([]string, 0, len(v))
		for field := range v {
			fields = append(fields, field)
		}
		slices.Sort(fields) // names follow the order of appearance
		for _, field := range fields {
			v[field] = n.any(v[field])
		}
	}
	return v
}
