package event

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/threadmill/threadmill/internal/strictjson"
)

// toolResultType is the "__type" of a message that contains a decision on a tool call.
const toolResultType = "tool_result"

// ToolResultData is a decision on a tool call in the format of clients of a world: see package
// world.
type ToolResultData struct {
	// ToolCallID is the id of the call or of its approval request: see [ApprovalCallID].
	ToolCallID string   `json:"tool_call_id"`
	Decision   Decision `json:"decision"`

	// Scope of an approval is once (the default) or session.
	Scope Scope `json:"scope,omitempty"`

	// ToolName, ToolArgs and WorkingDirectory are the call as the person saw it. They do not change
	// what runs.
	ToolName         string          `json:"toolName"`
	ToolArgs         json.RawMessage `json:"toolArgs,omitempty"`
	WorkingDirectory string          `json:"workingDirectory,omitempty"`
}

// toolResultContent is the decision in the message, without the call's id.
type toolResultContent struct {
	Decision         Decision        `json:"decision"`
	Scope            Scope           `json:"scope,omitempty"`
	ToolName         string          `json:"toolName"`
	ToolArgs         json.RawMessage `json:"toolArgs,omitempty"`
	WorkingDirectory string          `json:"workingDirectory,omitempty"`
}

// Text returns the decision as JSON: the content of a tool message.
func (d ToolResultData) Text() (string, error) {
	if len(d.ToolArgs) > 0 {
		if err := ValidateJSON("toolArgs", d.ToolArgs); err != nil {
			return "", err
		}
	}
	out, err := encode(toolResultContent{d.Decision, d.Scope, d.ToolName, d.ToolArgs, d.WorkingDirectory})
	if err != nil {
		return "", FieldErrorf("toolArgs", "are not JSON")
	}
	return out, nil
}

// Content returns the content of a message that sends the decision to an agent, or to any agent if
// agentID is empty. [ParseContent] reads it.
func (d ToolResultData) Content(agentID string) (string, error) {
	text, err := d.Text()
	if err != nil {
		return "", err
	}
	return encode(toolResultText{toolResultType, d.ToolCallID, agentID, text})
}

// toolResultText is the content of a message that contains a decision.
type toolResultText struct {
	Type       string `json:"__type"`
	ToolCallID string `json:"tool_call_id"`
	AgentID    string `json:"agentId,omitempty"`
	Content    string `json:"content"`
}

// encode is json.Marshal without HTML escapes, since people read the text too.
func encode(v any) (string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// ToolResultMessage is a message that contains a decision on a tool call. Its role is "tool" for
// every sender.
type ToolResultMessage struct {
	ToolCallID string

	// TargetAgentID is the agent that made the call, if the message names it.
	TargetAgentID string

	// Content is the text that models see.
	Content string

	// Data is the decision in Content. It is zero, except for the call's id, if Content is not a
	// valid decision.
	Data ToolResultData
}

// ParseContent reads the content of a message that may be a decision on a tool call: a JSON object
// with the "__type" tool_result. ok is false for any other content, which is an ordinary message;
// warning then names the defect if the message was meant to be a decision.
func ParseContent(content string) (m ToolResultMessage, ok bool, warning string) {
	fields, isObject := objectOf([]byte(content))
	typ, _ := textOf(fields["__type"])
	if !isObject || typ != toolResultType {
		return ToolResultMessage{}, false, ""
	}
	if err := strictjson.CheckAs([]byte(content), toolResultText{}, strictjson.Envelope); err != nil {
		return ToolResultMessage{}, false, "a message of __type tool_result is ambiguous, and is used unchanged: " + err.Error()
	}
	id, isText := textOf(fields["tool_call_id"])
	if !isText || id == "" {
		return ToolResultMessage{}, false, "a message of __type tool_result has no tool_call_id, and is used unchanged"
	}
	m = ToolResultMessage{ToolCallID: id, Content: contentOf(fields["content"])}
	m.TargetAgentID, isText = textOf(fields["agentId"])
	if data, fits := decisionOf(m.Content); fits && (isText || isNull(fields["agentId"])) {
		m.Data = data
	}
	m.Data.ToolCallID = id
	return m, true, ""
}

// contentOf returns a JSON string's text, or the JSON of any other value.
func contentOf(data json.RawMessage) string {
	if text, isText := textOf(data); isText || isNull(data) {
		return text
	}
	return string(data)
}

// decisionOf reads the content of a decision. fits is false if it is invalid.
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

// objectOf reads a JSON object. Unlike struct fields, its names are case-sensitive.
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

// isNull reports whether a field is missing or null.
func isNull(data json.RawMessage) bool { return len(data) == 0 || string(data) == "null" }

// approvalWord is the prefix of the ids of approval calls.
const approvalWord = "approval"

// ApprovalCallID returns the id of the call that asks clients of a world to approve a tool call:
// "approval_" and the call's id. From round 2, the round follows the word "approval".
func ApprovalCallID(toolCallID string, round int) string {
	if round > 1 {
		return approvalWord + strconv.Itoa(round) + "_" + toolCallID
	}
	return approvalWord + "_" + toolCallID
}

// ParseApprovalCallID returns the tool call and the round of an id of [ApprovalCallID]. Any other
// id is the tool call's own, with round 0.
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
