package signals

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/threadmill/threadmill/event"
)

// UpdateThread is the update that changes a thread itself.
const UpdateThread = "update_thread"

// Limits on the agents and the title of a thread.
const (
	MaxAgents = 100
	MaxTitle  = 400 // bytes
)

// ThreadChange changes a thread: the payload of update "update_thread". Empty fields leave the
// thread unchanged.
type ThreadChange struct {
	// A new title.
	Title string `json:"title,omitempty" maxLength:"400"`

	// The thread's agents from the next turn on. They replace all current ones.
	Agents []string `json:"agents,omitempty" maxItems:"100"`

	// Agents to add. Cannot be combined with agents.
	AddAgents []string `json:"addAgents,omitempty" maxItems:"100"`

	// Agents to remove, except the last one. Cannot be combined with agents.
	RemoveAgents []string `json:"removeAgents,omitempty" maxItems:"100"`

	// How many model calls an agent may make until the next user message or environment event.
	TurnLimit int `json:"turnLimit,omitempty" minimum:"1" maximum:"1000"`

	// A JSON object that replaces the thread's own.
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// Who changes it.
	By string `json:"by,omitempty"`
}

// Validate reports the first invalid field.
func (c ThreadChange) Validate() error {
	if c.Title == "" && len(c.Agents)+len(c.AddAgents)+len(c.RemoveAgents) == 0 && len(c.Metadata) == 0 && c.TurnLimit == 0 {
		return event.FieldErrorf("title", "set at least one of title, agents, addAgents, removeAgents, turnLimit and metadata")
	}
	if len(c.Agents) > 0 && len(c.AddAgents)+len(c.RemoveAgents) > 0 {
		return event.FieldErrorf("agents", "replace all agents of the thread: they cannot be combined with addAgents or removeAgents")
	}
	if err := errors.Join(validateTurnLimit(c.TurnLimit), checkNames("addAgents", c.AddAgents, MaxAgents), checkNames("removeAgents", c.RemoveAgents, MaxAgents)); err != nil {
		return err
	}
	if err := checkBy("by", c.By); err != nil {
		return err
	}
	return validateThread(c.Agents, c.Title, c.Metadata)
}

// Validate reports, as a [*event.FieldError], why the input of a thread workflow is invalid. A
// thread that is started with an invalid input is closed immediately.
func (s Start) Validate() error {
	return errors.Join(validateThread(s.Agents, s.Title, s.Metadata), validateTurnLimit(s.TurnLimit))
}

// validateThread reports the first invalid field of a thread.
func validateThread(agents []string, title string, metadata json.RawMessage) error {
	if err := checkNames("agents", agents, MaxAgents); err != nil {
		return err
	}
	if len(title) > MaxTitle {
		return event.FieldErrorf("title", "is %d bytes, must be at most %d", len(title), MaxTitle)
	}
	if len(metadata) > MaxPayload {
		return event.FieldErrorf("metadata", "is %d bytes, must be at most %d", len(metadata), MaxPayload)
	}
	if title != "" && event.Blank(title) {
		return event.FieldErrorf("title", "has no visible characters; omit it")
	}
	if err := event.ValidateLine("title", title); err != nil || len(metadata) == 0 {
		return err
	}
	var object map[string]json.RawMessage
	return event.DecodeJSON("metadata", metadata, &object)
}

// checkNames reports the first invalid agent name.
func checkNames(field string, agents []string, most int) error {
	if len(agents) > most {
		return event.FieldErrorf(field, "has %d entries, must have at most %d", len(agents), most)
	}
	for i, agent := range agents {
		if err := ValidateID(fmt.Sprintf("%s[%d]", field, i), agent); err != nil {
			return err
		}
	}
	return nil
}
