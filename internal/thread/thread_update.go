package thread

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// ValidateChange reports why a change of the thread would be rejected.
func (s *State) ValidateChange(c signals.ThreadChange) error {
	if s.Closing != nil {
		return ErrClosed
	}
	if err := c.Validate(); err != nil {
		return err
	}
	if agents := s.changed(c); len(agents) > signals.MaxAgents {
		return event.FieldErrorf("addAgents", "would result in %d agents, must be at most %d", len(agents), signals.MaxAgents)
	} else if len(agents) == 0 && len(c.RemoveAgents) > 0 {
		return event.FieldErrorf("removeAgents", "would remove every agent, and the default agent would take over: add another agent first")
	}
	return nil
}

// changed returns the agents after a change.
func (ro *Roster) changed(c signals.ThreadChange) []string {
	if len(c.Agents) > 0 {
		return c.Agents
	}
	among := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(other string) bool { return strings.EqualFold(other, name) })
	}
	out := slices.DeleteFunc(slices.Clone(ro.Agents), func(name string) bool { return among(c.RemoveAgents, name) })
	for _, name := range c.AddAgents {
		if !among(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// withParent adds the metadata that names the parent thread and call of a sub-agent.
func (p *ParentLink) withParent(metadata json.RawMessage) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if p.Parent == nil || json.Unmarshal(metadata, &fields) != nil {
		return metadata
	}
	fields[signals.MetadataParent], fields[signals.MetadataParentCall] = rawJSON(p.Parent.ThreadID), rawJSON(p.Parent.ToolCallID)
	return rawJSON(fields)
}

// Change changes the thread itself. It returns the id of the record of the change.
func (s *State) Change(now time.Time, c signals.ThreadChange) (recordID string) {
	var what []string
	row := s.changeRow(now)
	if c.Title != "" {
		s.Title, row.Title, what = c.Title, c.Title, append(what, "title")
	}
	var agents []string
	if len(c.Agents)+len(c.AddAgents)+len(c.RemoveAgents) > 0 {
		agents = s.changed(c)
		s.Agents, row.Agents, what = agents, agents, append(what, "agents")
	}
	if c.TurnLimit > 0 {
		s.TurnLimit, what = c.TurnLimit, append(what, "turnLimit")
	}
	if len(c.Metadata) > 0 {
		c.Metadata = s.withParent(c.Metadata)
		s.Metadata, row.Metadata, what = c.Metadata, c.Metadata, append(what, "metadata")
	}
	recordID = event.UpdatedID(s.ThreadID, s.newID(now))
	s.record(recordID, event.TypeStatus, "", "", now,
		event.StatusChange{Status: event.StatusUpdated, Agents: agents, Title: c.Title, Detail: strings.Join(what, ", "), By: c.By})
	return recordID
}

// Titling is the state of the thread's title.
type Titling struct {
	thread *State

	// Titles means that a title is to be generated for a thread without one. TitleTried means that
	// this was tried.
	Titles     bool `json:"titles,omitempty"`
	TitleTried bool `json:"titleTried,omitempty"`

	// TitleLater means that there was nothing to generate a title from, so it is tried again after
	// the next turn.
	TitleLater bool `json:"titleLater,omitempty"`
}

// WantsTitle reports whether the thread is idle and needs a title.
func (ti *Titling) WantsTitle() bool {
	s := ti.thread
	return ti.Titles && !ti.TitleTried && s.Title == "" && s.Parent == nil && s.Closing == nil && s.Idle()
}

// TitleStep returns the input of the activity that generates a title, and marks it as tried.
func (ti *Titling) TitleStep(now time.Time) TitleStep {
	s := ti.thread
	ti.TitleTried = true
	return TitleStep{Thread: s.Ref(), RecordID: event.TitledID(s.ThreadID, s.newID(now))}
}

// Titled applies a generated title. It reports whether the thread accepted it: it may have got
// another title meanwhile.
func (ti *Titling) Titled(reply TitleReply) bool {
	s := ti.thread
	s.Usage = s.Usage.Add(reply.Usage)
	if reply.Title == "" || s.Title != "" {
		ti.TitleLater = s.Title == ""
		return false
	}
	s.Title = reply.Title
	return true
}
