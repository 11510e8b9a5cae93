package aisdk

import (
	"bytes"
	"strings"
)

// differ returns the chunks that make a part what it is now. The client may not have it yet: nil.
func (e *Encoder) differ(has *shown, had, now *UIPart) []Chunk {
	switch {
	case now.ToolCallID != "":
		return e.toolChunks(has, had, now)
	case now.Type == "text" || now.Type == "reasoning":
		return saidChunks(has.reply, had, now)
	case had != nil && (now.Type == "source-document" || had.Data == now.Data):
		return nil
	}
	return []Chunk{{
		Type: now.Type, ID: now.ID, Data: now.Data, SourceID: now.SourceID, MediaType: now.MediaType, Title: now.Title, Filename: now.Filename,
		ProviderMetadata: now.ProviderMetadata,
	}}
}

// saidChunks are the chunks of a text or a thought, which has only become longer.
func saidChunks(reply string, had, now *UIPart) []Chunk {
	var out []Chunk
	text := ""
	switch {
	case had == nil:
		out = append(out, Chunk{Type: now.Type + "-start", ID: reply})
	case had.State == "done" && had.Text == now.Text:
		return nil
	case had.State == "done": // a hook has changed what was said
		return []Chunk{{Type: "data-changed", ID: reply, Data: map[string]string{"messageId": reply, "text": now.Text}}}
	default:
		text = had.Text
	}
	if more := strings.TrimPrefix(now.Text, text); more != "" {
		out = append(out, Chunk{Type: now.Type + "-delta", ID: reply, Delta: more})
	}
	if now.State == "done" {
		out = append(out, Chunk{Type: now.Type + "-end", ID: reply})
	}
	return out
}

// toolChunks are the chunks of a tool. The AI SDK has no chunk for each change of a state: what a client believes is
// replaced by an earlier state, from which there is one.
func (e *Encoder) toolChunks(has *shown, had, now *UIPart) []Chunk {
	t := &toolDiffer{now: now, dynamic: now.Type == "dynamic-tool", seven: e.cfg.Version >= 7, last: has.step == e.steps}
	if had != nil {
		t.had = *had
	}
	e.tools = e.tools || t.last
	t.run()
	return t.out
}

// toolDiffer makes the chunks of a tool.
type toolDiffer struct {
	had     UIPart // as the client has it after the chunks so far
	now     *UIPart
	dynamic bool
	seven   bool
	last    bool // whether it is in the last step: the client would take its input for another call otherwise
	out     []Chunk
}

func (t *toolDiffer) run() {
	if t.had.State == "" || t.last && !bytes.Equal(t.had.Input, t.now.Input) {
		t.input()
	}
	t.approval()
	switch t.now.State {
	case t.had.State:
		if t.now.State == outputAvailable && !bytes.Equal(t.had.Output, t.now.Output) || t.now.State == outputError && t.had.ErrorText != t.now.ErrorText {
			t.output()
		}
	case inputAvailable:
		// The client runs it now, or what the client believes has not happened.
		t.input()
	case approvalResponded:
		if !t.seven {
			t.input() // it runs: version 6 cannot be told of a decision
		}
	case outputAvailable, outputError, outputDenied:
		t.output()
	}
}

// input sends what the tool is called with, which makes the client run it if it can.
func (t *toolDiffer) input() {
	if t.had.State != "" && !t.last {
		return
	}
	c := Chunk{Type: "tool-input-available", ToolCallID: t.now.ToolCallID, ToolName: t.name(), Input: t.now.Input, Dynamic: t.dynamic}
	t.had.State, t.had.Input = inputAvailable, t.now.Input
	if t.now.State == outputError && t.now.ErrorText == notJSON {
		c.Type, c.ErrorText = "tool-input-error", t.now.ErrorText
		t.had.State, t.had.ErrorText = outputError, t.now.ErrorText
	}
	t.out = append(t.out, c)
}

func (t *toolDiffer) name() string {
	if t.dynamic {
		return t.now.ToolName
	}
	return strings.TrimPrefix(t.now.Type, "tool-")
}

// approval sends the request for a decision, and the decision if the client can be told.
func (t *toolDiffer) approval() {
	now, had := t.now.Approval, t.had.Approval
	if now == nil {
		return
	}
	asks := t.now.State == approvalRequested && t.had.State != approvalRequested
	if had == nil || had.ID != now.ID || asks || had.Approved != nil && now.Approved == nil {
		t.out = append(t.out, Chunk{Type: "tool-approval-request", ToolCallID: t.now.ToolCallID, ApprovalID: now.ID})
		t.had.State, t.had.Approval, had = approvalRequested, now, &UIApproval{ID: now.ID}
	}
	if t.seven && now.Approved != nil && (had.Approved == nil || *had.Approved != *now.Approved) {
		t.out = append(t.out, Chunk{Type: "tool-approval-response", ToolCallID: t.now.ToolCallID, ApprovalID: now.ID, Approved: now.Approved, Reason: now.Reason})
		t.had.State = approvalResponded
	}
}

// output sends how the call ended.
func (t *toolDiffer) output() {
	c := Chunk{Type: "tool-" + t.now.State, ToolCallID: t.now.ToolCallID, Output: t.now.Output}
	if t.now.State == outputError {
		c.ErrorText = t.now.ErrorText
	}
	t.out = append(t.out, c)
}
