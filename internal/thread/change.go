package thread

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// CheckChange reports why a change of the thread would be refused.
func (s *State) CheckChange(c signals.ThreadChange) error {
	if s.Closing != nil {
		return ErrClosed
	}
	return signals.CheckThreadChange(c)
}

// withParent keeps what says for which thread a sub-agent works.
func (s *State) withParent(metadata json.RawMessage) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if s.Parent == nil || json.Unmarshal(metadata, &fields) != nil {
		return metadata
	}
	fields[signals.MetadataParent], fields[signals.MetadataParentCall] = rawJSON(s.Parent.ThreadID), rawJSON(s.Parent.ToolCallID)
	return rawJSON(fields)
}

// Change changes the thread itself. It returns the id of the record that tells of it.
func (s *State) Change(now time.Time, c signals.ThreadChange) (recordID string) {
	var what []string
	row := Row{}
	if s.Row != nil {
		row = *s.Row
	}
	if c.Title != "" {
		s.Title, row.Title, what = c.Title, c.Title, append(what, "title")
	}
	if len(c.Agents) > 0 {
		s.Agents, row.Agents, what = c.Agents, c.Agents, append(what, "agents")
	}
	if len(c.Metadata) > 0 {
		c.Metadata = s.withParent(c.Metadata)
		s.Metadata, row.Metadata, what = c.Metadata, c.Metadata, append(what, "metadata")
	}
	s.Row = &row
	recordID = s.ThreadID + ".updated." + s.newID(now)
	s.record(recordID, event.TypeStatus, "", "", now,
		event.StatusChange{Status: event.StatusUpdated, Agents: c.Agents, Detail: strings.Join(what, ", "), By: c.By})
	return recordID
}
