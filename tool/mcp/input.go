package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/tool"
)

// Bounds of what a server may ask during one call.
const (
	maxQuestions      = 20
	maxQuestionText   = 4 << 10
	maxQuestionSchema = 8 << 10
	maxQuestionBytes  = 12 << 10
	maxRequestState   = 64 << 10
	maxInputState     = 200 << 10
)

// inputState is the state of a call while a person answers.
type inputState struct {
	// Answers are the answers so far, for servers of the old protocol.
	Answers []storedAnswer `json:"answers,omitempty"`

	// Asked are the keys of the questions, for servers of the old protocol.
	Asked []string `json:"asked,omitempty"`

	// RequestState belongs to a server of the new protocol, and IDs are its ids for our questions.
	RequestState string            `json:"requestState,omitempty"`
	IDs          map[string]string `json:"ids,omitempty"`

	// URLs means that the server rejected the call until a person has visited the addresses.
	URLs bool `json:"urls,omitempty"`

	// Held are the answers for a server of the new protocol, while a person logs in.
	Held map[string]event.InputAnswer `json:"held,omitempty"`
}

// input takes in a person's answers.
func (r *toolCall) input() error {
	if r.call.Input == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(r.call.Input.State), &r.state); err != nil {
		return errors.New("the stored state of its questions cannot be read")
	}
	for i, asked := range r.state.Asked {
		r.state.Answers = append(r.state.Answers, storedAnswer{Question: asked, Answer: r.call.Input.Answers[strconv.Itoa(i+1)]})
	}
	r.state.Asked = nil
	return nil
}

// refused returns why the call is not made again: a person did not want to visit an address without which
// the server rejects it.
func (r *toolCall) refused() string {
	if !r.state.URLs {
		return ""
	}
	for _, id := range slices.Sorted(maps.Keys(r.call.Input.Answers)) {
		if a := r.call.Input.Answers[id]; a.Action != event.InputAccept {
			return fmt.Sprintf("%s of the MCP server %q needs a person to visit an address first, and the person answered with %q. %s", r.definition.Name, r.server.Name, a.Action, notCalled)
		}
	}
	return ""
}

// responses returns a person's answers for a server of the new protocol.
func (s inputState) responses(input *tool.Input) sdk.InputResponseMap {
	if input == nil || len(s.IDs) == 0 {
		return nil
	}
	answers := input.Answers
	if s.Held != nil {
		answers = s.Held
	}
	out := sdk.InputResponseMap{}
	for ours, theirs := range s.IDs {
		out[theirs] = elicitResult(answers[ours])
	}
	return out
}

// ask puts the question of a server of the old protocol to a person.
func (r *toolCall) ask(q *sdk.ElicitParams) error {
	return r.required([]*sdk.ElicitParams{q}, inputState{Answers: r.state.Answers, Asked: []string{questionKey(q)}})
}

// askURLs puts the addresses to a person that a server wants to be visited first.
func (r *toolCall) askURLs(data json.RawMessage) error {
	var d struct {
		Elicitations []*sdk.ElicitParams `json:"elicitations"`
	}
	if err := json.Unmarshal(data, &d); err != nil || len(d.Elicitations) == 0 {
		return r.failed("the server wants an address to be visited, but names none", notCalled)
	}
	for _, q := range d.Elicitations {
		if q == nil {
			return r.failed("the server wants an address to be visited, but names none", notCalled)
		}
		q.Mode = "url"
	}
	return r.required(d.Elicitations, inputState{Answers: r.state.Answers, URLs: true})
}

// askNew puts the questions of a server of the new protocol to a person.
func (r *toolCall) askNew(res *sdk.CallToolResult) error {
	next := inputState{RequestState: res.RequestState, IDs: map[string]string{}}
	if len(res.RequestState) > maxRequestState {
		return r.failed(fmt.Sprintf("the server's state of the call has %d bytes, must have at most %d", len(res.RequestState), maxRequestState), unclear)
	}
	var questions []*sdk.ElicitParams
	for i, id := range slices.Sorted(maps.Keys(res.InputRequests)) {
		q, ok := res.InputRequests[id].(*sdk.ElicitParams)
		if !ok {
			return r.failed("the server asks for something other than a person's input, which is not offered to servers", unclear)
		}
		questions = append(questions, q)
		next.IDs[strconv.Itoa(i+1)] = id
	}
	return r.required(questions, next)
}

// required returns the error that makes the thread ask a person.
func (r *toolCall) required(asked []*sdk.ElicitParams, next inputState) error {
	if len(asked) > maxQuestions {
		return r.failed(fmt.Sprintf("the server asks %d questions at once, more than %d", len(asked), maxQuestions), unclear)
	}
	need, size := &tool.InputRequired{}, 0
	for i, p := range asked {
		q, err := r.question(p)
		if err != nil {
			return r.failed("the server asks a question that cannot be put to a person: "+err.Error(), unclear)
		}
		q.ID = strconv.Itoa(i + 1)
		size += len(q.Message) + len(q.Schema) + len(q.URL)
		need.Questions = append(need.Questions, q)
	}
	state, err := json.Marshal(next)
	if err != nil {
		return r.failed(err.Error(), unclear)
	}
	if size > maxQuestionBytes || len(state) > maxInputState {
		return r.failed("the server's questions are too large", unclear)
	}
	need.State = string(state)
	return need
}

// question returns a server's question as people see it.
func (r *toolCall) question(p *sdk.ElicitParams) (event.InputQuestion, error) {
	q := event.InputQuestion{Kind: event.InputForm, Message: r.connection.text(p.Message, maxQuestionText)}
	if p.Mode == "url" || p.Mode == "" && p.URL != "" {
		q.Kind, q.URL = event.InputURL, p.URL
		u, err := url.Parse(p.URL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || len(p.URL) > maxURI || hides(p.URL) {
			return q, errors.New("its address is not one of the web")
		}
		return q, nil
	}
	if p.Mode != "" && p.Mode != "form" {
		return q, fmt.Errorf("its mode %q is unknown", line(p.Mode, maxTitle))
	}
	if p.RequestedSchema == nil {
		return q, nil
	}
	var err error
	q.Schema, err = questionSchema(p.RequestedSchema)
	return q, err
}

// questionSchema returns the schema of the answer to a question: an object of plain fields.
func questionSchema(schema any) (json.RawMessage, error) {
	object, ok := schema.(map[string]any)
	if !ok {
		return nil, errors.New("its schema is not an object")
	}
	if _, ok := object["type"]; !ok {
		object["type"] = "object"
	}
	raw, err := parameters(object, nil) // whoever calls the tool redacts its questions
	if err != nil {
		return nil, err
	}
	if len(raw) > maxQuestionSchema {
		return nil, fmt.Errorf("its schema has %d bytes, must have at most %d", len(raw), maxQuestionSchema)
	}
	fields, _ := object["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, ok := fields[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("its field %q has no schema", name)
		}
		switch field["type"] {
		case "string", "number", "integer", "boolean", "array":
		default:
			return nil, fmt.Errorf("its field %q is not a text, a number, a yes or no, or a choice", name)
		}
	}
	return raw, nil
}

// questionKey identifies a question when a call is made again. Addresses count without their path: servers
// make new ones each time.
func questionKey(p *sdk.ElicitParams) string {
	address := p.URL
	if u, err := url.Parse(p.URL); err == nil && p.URL != "" {
		address = originOf(u)
	}
	raw, _ := strictjson.Encode([]any{p.Message, p.RequestedSchema, address}) // both came as JSON
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}
