package thread

import (
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
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
	if agents := s.Roster.changed(c); len(agents) > signals.MaxAgents {
		return event.FieldErrorf("addAgents", "would result in %d agents, must be at most %d", len(agents), signals.MaxAgents)
	} else if len(agents) == 0 && len(c.RemoveAgents) > 0 {
		return event.FieldErrorf("removeAgents", "would remove every agent, and the default agent would take over: add another agent first")
	}
	return nil
}

// Change changes the thread itself. It returns the id of the record of the change.
func (s *State) Change(now time.Time, c signals.ThreadChange) (recordID string) {
	var what []string
	row := s.Outbox.changeRow(now)
	if c.Title != "" {
		s.Title, row.Title, what = c.Title, c.Title, append(what, "title")
	}
	var agents []string
	if len(c.Agents)+len(c.AddAgents)+len(c.RemoveAgents) > 0 {
		agents = s.Roster.changed(c)
		s.Roster.Agents, row.Agents, what = agents, agents, append(what, "agents")
	}
	if c.TurnLimit > 0 {
		s.Roster.TurnLimit, what = c.TurnLimit, append(what, "turnLimit")
	}
	if len(c.Metadata) > 0 {
		c.Metadata = s.ParentLink.withParent(c.Metadata)
		s.Metadata, row.Metadata, what = c.Metadata, c.Metadata, append(what, "metadata")
	}
	recordID = recordid.Updated(s.ThreadID, s.nextID("updated"))
	s.record(recordID, event.TypeStatus, "", "", now,
		event.StatusChange{Status: event.StatusUpdated, Agents: agents, Title: c.Title, Detail: strings.Join(what, ", "), By: c.By})
	return recordID
}
