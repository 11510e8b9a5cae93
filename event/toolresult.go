package event

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/threadmill/threadmill/internal/strictjson"
)

// toolResultType is the "__type" of a message that is a decision on a tool call.
const toolResultType = "tool_result"

// ToolResultData is a decision on a tool call as clients of a world send it: see package
// world.
type ToolResultData struct {
	// ToolCallID is that of the call, or of the request for its approval: see
	// [ApprovalCallID].
	ToolCallID string   `json:"tool_call_id"`
	Decision   Decision `json:"decision"`

	// Scope of an approval: once, the default, or session.
	Scope Scope `json:"scope,omitempty"`

	// ToolName, ToolArgs and WorkingDirectory say what was decided on, as the person has
	// seen it. None of it changes what runs.
	ToolName         string          `json:"toolName"`
	ToolArgs         json.RawMessage `json:"toolArgs,omitempty"`
	WorkingDirectory string          `json:"workingDirectory,omitempty"`
}

// toolResultContent is what the message has of the decision, beside the call's id.
type toolResultContent struct {
	Decision         Decision        `json:"decision"`
	Scope            Scope           `json:"scope,omitempty"`
	ToolName         string          `json:"toolName"`
	ToolArgs         json.RawMessage `json:"toolArgs,omitempty"`
	WorkingDirectory string          `json:"workingDirectory,omitempty"`
}

// Text is the decision in words that a program reads: the content of a tool message.
func (d ToolResultData) Text() (string, error) {
	if len(d.ToolArgs) > 0 {
		if err := CheckJSON("toolArgs", d.ToolArgs); err != nil {
			return "", err
		}
	}
	out, err := encode(toolResultContent{d.Decision, d.Scope, d.ToolName, d.ToolArgs, d.WorkingDirectory})
	if err != nil {
		return "", &FieldError{"toolArgs", "are not JSON"}
	}
	return out, nil
}

// Content is the content of a message that carries the decision to an agent, any if
// agentID is empty. [ParseContent] reads it.
func (d ToolResultData) Content(agentID string) (string, error) {
	text, err := d.Text()
	if err != nil {
		return "", err
	}
	return encode(toolResultText{toolResultType, d.ToolCallID, agentID, text})
}

// toolResultText is the content of the message.
type toolResultText struct {
	Type       string `json:"__type"`
	ToolCallID string `json:"tool_call_id"`
	AgentID    string `json:"agentId,omitempty"`
	Content    string `json:"content"`
}

// encode is json.Marshal without escapes for HTML: people read the text, too.
func encode(v any) (string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// ToolResultMessage is a message that is a decision on a tool call. Its role is "tool",
// whoever has sent it.
type ToolResultMessage struct {
	ToolCallID string

	// TargetAgentID is the agent whose call it is, if the message says so.
	TargetAgentID string

	// Content is what the message says to a model.
	Content string

	// Data is the decision in Content. It has none if anything of it is not as it must
	// be: then there is nothing that could be carried out.
	Data ToolResultData
}

// ParseContent reads the content of a message that may be a decision on a tool call: a JSON
// object with the "__type" tool_result. All else is not ok, and is a message like any
// other; warning says what is missing of one that was meant to be a decision.
func ParseContent(content string) (m ToolResultMessage, ok bool, warning string) {
	fields, isObject := objectOf([]byte(content))
	typ, _ := textOf(fields["__type"])
	if !isObject || typ != toolResultType {
		return ToolResultMessage{}, false, ""
	}
	if err := strictjson.CheckAs([]byte(content), toolResultText{}, strictjson.Envelope); err != nil {
		return ToolResultMessage{}, false, "a message of __type tool_result can be read in more than one way, and is taken as it is: " + err.Error()
	}
	id, isText := textOf(fields["tool_call_id"])
	if !isText || id == "" {
		return ToolResultMessage{}, false, "a message of __type tool_result has no tool_call_id, and is taken as it is"
	}
	m = ToolResultMessage{ToolCallID: id, Content: contentOf(fields["content"])}
	m.TargetAgentID, isText = textOf(fields["agentId"])
	if data, fits := decisionOf(m.Content); fits && (isText || isNull(fields["agentId"])) {
		m.Data = data
	}
	m.Data.ToolCallID = id
	return m, true, ""
}

// contentOf is a text, or the text of any other value.
func contentOf(data json.RawMessage) string {
	if text, isText := textOf(data); isText || isNull(data) {
		return text
	}
	return string(data)
}

// decisionOf reads the content of a decision.
func decisionOf(content string) (d ToolResultData, fits bool) {
	fields, fits := objectOf([]byte(content))
	fits = fits && strictjson.CheckAs([]byte(content), toolResultContent{}, strictjson.Envelope) == nil
	text := func(name string) string {
		value, isText := textOf(fields[name])
		fits = fits && (isText || isNull(fields[name]))
		return value
	}
	d = ToolResultData{
		Decision: Decision(text("decision")), Scope: Scope(text("scope")),
		ToolName: text("toolName"), WorkingDirectory: text("workingDirectory"),
	}
	if !isNull(fields["toolArgs"]) {
		d.ToolArgs = fields["toolArgs"]
	}
	return d, fits
}

// objectOf reads an object. Unlike those of a struct, names count with their case.
func objectOf(data []byte) (fields map[string]json.RawMessage, isObject bool) {
	err := json.Unmarshal(data, &fields)
	return fields, err == nil && fields != nil
}

func textOf(data json.RawMessage) (text string, isText bool) {
	if isNull(data) {
		return "", false
	}
	return text, json.Unmarshal(data, &text) == nil
}

// isNull reports whether a field is left out.
func isNull(data json.RawMessage) bool { return len(data) == 0 || string(data) == "null" }

// approvalWord begins the id of a request for approval, as a call of its own.
const approvalWord = "approval"

// ApprovalCallID is the id of the call by which clients of a world are asked to approve a
// tool call: "approval_" and the call's id. When they are asked again, the round stands
// behind the word.
func ApprovalCallID(toolCallID string, round int) string {
	if round > 1 {
		return approvalWord + strconv.Itoa(round) + "_" + toolCallID
	}
	return approvalWord + "_" + toolCallID
}

// ParseApprovalCallID returns the call that an id is about: the one that is to be approved,
// in which round, or the one with that id itself, in round 0.
func ParseApprovalCallID(id string) (toolCallID string, round int) {
	rest, isApproval := strings.CutPrefix(id, approvalWord)
	digits, toolCallID, cut := strings.Cut(rest, "_")
	if !isApproval || !cut || toolCallID == "" {
		return id, 0
	}
	if digits == "" {
		return toolCallID, 1
	}
	round, err := strconv.Atoi(digits)
	if err != nil || round < 2 || strconv.Itoa(round) != digits {
		return id, 0
	}
	return toolCallID, round
}
