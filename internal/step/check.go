package step

import "github.com/threadmill/threadmill/event"

// Check is the input of check_decision, which validates the edited arguments or the pattern of
// a decision.
type Check struct {
	Thread           Ref      `json:"thread"`
	Agent            string   `json:"agent"`
	MessageID        string   `json:"messageId"`
	ToolCallID       string   `json:"toolCallId"`
	Tools            []string `json:"tools,omitzero"`
	WorkingDirectory string   `json:"workingDirectory,omitempty"`

	// By is the person who decides. Args are the edited arguments, Pattern is the granted pattern.
	By      string            `json:"by"`
	Args    string            `json:"args,omitempty"`
	Pattern map[string]string `json:"pattern,omitempty"`

	// Guard identifies the call in the approval request.
	Guard *Guard `json:"guard,omitempty"`

	// Late means that the person is not one of the approvers in the request, and may have become a member of a group since.
	Late bool `json:"late,omitempty"`
}

// CheckReply is the result of check_decision.
type CheckReply struct {
	// Field and Problem describe the invalid field of the decision, if there is one.
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem,omitempty"`

	// Guard identifies the call with the edited arguments.
	Guard *Guard `json:"guard,omitempty"`

	// Rest is the digest of the arguments that the pattern does not contain.
	Rest string `json:"rest,omitempty"`

	// Member reports whether the person is a member of one of the groups by now.
	Member bool `json:"member,omitempty"`
}

// Err returns the problem of the decision as an error, or nil.
func (c CheckReply) Err() error {
	if c.Problem == "" {
		return nil
	}
	return event.FieldErrorf(c.Field, "%s", c.Problem)
}
