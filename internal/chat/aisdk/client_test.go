package aisdk_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/internal/chat/aisdk"
)

// client reads chunks as the AI SDK does. It fails where that would throw.
type client struct {
	seven    bool
	parts    []*aisdk.UIPart
	speaking map[string]*aisdk.UIPart // by type and id
	finished bool
}

func newClient(version int) *client {
	return &client{seven: version >= 7, speaking: map[string]*aisdk.UIPart{}}
}

// begin begins another stream. One that resumes begins the message anew.
func (c *client) begin(anew bool) {
	c.speaking, c.finished = map[string]*aisdk.UIPart{}, false
	if anew {
		c.parts = nil
	}
}

func (c *client) read(chunks []aisdk.Chunk) error {
	for _, one := range chunks {
		if err := c.apply(one); err != nil {
			data, _ := json.Marshal(one)
			return fmt.Errorf("%s: %w", data, err)
		}
	}
	return nil
}

func (c *client) apply(one aisdk.Chunk) error {
	if c.finished {
		return fmt.Errorf("it comes behind finish")
	}
	switch one.Type {
	case "start", "message-metadata", "error", "abort":
	case "finish":
		c.finished = true
	case "start-step":
		c.parts = append(c.parts, &aisdk.UIPart{Type: "step-start"})
	case "finish-step":
		if !c.seven {
			c.speaking = map[string]*aisdk.UIPart{}
		}
	case "reset-step":
		if !c.seven {
			return fmt.Errorf("unknown")
		}
		c.parts, c.speaking = c.parts[:c.step()], map[string]*aisdk.UIPart{}
	case "text-start", "reasoning-start":
		p := &aisdk.UIPart{Type: one.Type[:len(one.Type)-len("-start")], State: "streaming"}
		c.speaking[p.Type+one.ID] = p
		c.parts = append(c.parts, p)
	case "text-delta", "reasoning-delta", "text-end", "reasoning-end":
		typ, what := one.Type[:strings.IndexByte(one.Type, '-')], one.Type[strings.IndexByte(one.Type, '-')+1:]
		p := c.speaking[typ+one.ID]
		if p == nil {
			return fmt.Errorf("nothing of this id has begun")
		}
		if p.Text += one.Delta; what == "end" {
			p.State = "done"
			delete(c.speaking, typ+one.ID)
		}
	case "source-document":
		c.parts = append(c.parts, &aisdk.UIPart{Type: one.Type, SourceID: one.SourceID, MediaType: one.MediaType, Title: one.Title, Filename: one.Filename, ProviderMetadata: one.ProviderMetadata})
	case "tool-input-available", "tool-input-error":
		return c.input(one)
	case "tool-approval-request", "tool-approval-response", "tool-output-denied", "tool-output-available", "tool-output-error":
		return c.tool(one)
	default:
		c.data(one)
	}
	return nil
}

// step is the place behind the beginning of the last step.
func (c *client) step() int {
	for i, p := range slices.Backward(c.parts) {
		if p.Type == "step-start" {
			return i + 1
		}
	}
	return 0
}

func (c *client) data(one aisdk.Chunk) {
	if one.Transient {
		return
	}
	for _, p := range c.parts {
		if one.ID != "" && p.Type == one.Type && p.ID == one.ID {
			p.Data = one.Data
			return
		}
	}
	c.parts = append(c.parts, &aisdk.UIPart{Type: one.Type, ID: one.ID, Data: one.Data})
}

func (c *client) input(one aisdk.Chunk) error {
	state := map[string]string{"tool-input-available": "input-available", "tool-input-error": "output-error"}[one.Type]
	for _, p := range c.parts[c.step():] {
		if p.ToolCallID == one.ToolCallID {
			p.State, p.Input, p.Output, p.ErrorText = state, one.Input, nil, one.ErrorText
			return nil
		}
	}
	for _, p := range c.parts {
		if p.ToolCallID == one.ToolCallID {
			return fmt.Errorf("it would be another call: its step is over")
		}
	}
	typ, name := "tool-"+one.ToolName, ""
	if one.Dynamic {
		typ, name = "dynamic-tool", one.ToolName
	}
	c.parts = append(c.parts, &aisdk.UIPart{Type: typ, ToolName: name, ToolCallID: one.ToolCallID, State: state, Input: one.Input, ErrorText: one.ErrorText})
	return nil
}

func (c *client) tool(one aisdk.Chunk) error {
	i := slices.IndexFunc(c.parts, func(p *aisdk.UIPart) bool {
		return p.ToolCallID != "" && p.ToolCallID == one.ToolCallID
	})
	if i < 0 {
		return fmt.Errorf("there is no such call")
	}
	p := c.parts[i]
	switch one.Type {
	case "tool-approval-request":
		p.State, p.Approval = "approval-requested", &aisdk.UIApproval{ID: one.ApprovalID}
	case "tool-approval-response":
		if !c.seven {
			return fmt.Errorf("unknown")
		}
		if p.Approval == nil || p.Approval.ID != one.ApprovalID {
			return fmt.Errorf("there is no such request")
		}
		p.State, p.Approval = "approval-responded", &aisdk.UIApproval{ID: one.ApprovalID, Approved: one.Approved, Reason: one.Reason}
	case "tool-output-denied":
		p.State = "output-denied"
	case "tool-output-available":
		p.State, p.Output, p.ErrorText = "output-available", one.Output, ""
	case "tool-output-error":
		p.State, p.ErrorText, p.Output = "output-error", one.ErrorText, nil
	}
	return nil
}

// has returns the parts as text, one a line, without what is live only and what version 6 cannot be told.
func (c *client) has() []string { return lines(c.parts, c.seven) }

func lines(parts []*aisdk.UIPart, seven bool) []string {
	live := map[string]bool{"reasoning": true, "data-reset": true, "data-changed": true}
	var out []string
	for _, p := range parts {
		if live[p.Type] {
			continue
		}
		shown := *p
		if shown.Approval != nil && !seven {
			shown.Approval = &aisdk.UIApproval{ID: shown.Approval.ID}
		}
		if !seven && shown.State == "approval-responded" {
			shown.State = "input-available"
		}
		// What a client shows depends on the state.
		if shown.State != "output-available" {
			shown.Output = nil
		}
		if shown.State != "output-error" {
			shown.ErrorText = ""
		}
		data, _ := json.Marshal(shown)
		out = append(out, string(data))
	}
	return out
}
