package forget

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// Spoken is what came of what a person said in a thread. In a turn, that is everything from the person's message, answer or reason on,
// but for the messages of others; and what follows from it: sub-agents, background tasks and derived events.
type Spoken struct {
	person *Person

	// Inherited means that the thread is that of a sub-agent which worked for the person. Nobody writes there.
	Inherited bool

	// Turns are the events of the turns that have something of it, oldest first, and Calls the ids of its tool calls.
	Turns []string
	Calls map[string]bool

	// Titles are titles of the thread that came of it, oldest first.
	Titles []string

	turns, records map[string]bool
	began, others  bool
}

// Spoken returns what is known before the records of a thread are noted.
func (p *Person) Spoken(inherited bool) *Spoken {
	return &Spoken{person: p, Inherited: inherited, Calls: map[string]bool{}, turns: map[string]bool{}, records: map[string]bool{}}
}

// Note notes the next record of the thread, in their order.
func (s *Spoken) Note(r event.Record) {
	s.others = s.others || s.person.otherWrote(r)
	root := r.ID == r.EventID && r.Type != event.TypePrompt
	of := s.came(r, root)
	if title := s.titleOf(r, of); title != "" {
		s.Titles = append(s.Titles, title)
	}
	if root && !s.Inherited {
		s.began, s.others = s.began || of, s.others || !of
	}
	if !of {
		return
	}
	s.records[r.ID] = true
	if r.EventID != "" && !s.turns[r.EventID] {
		s.turns[r.EventID] = true
		s.Turns = append(s.Turns, r.EventID)
	}
	if call := gjson.GetBytes(r.Payload, "toolCallId").Str; call != "" {
		s.Calls[call] = true
	}
	gjson.GetBytes(r.Payload, "toolCalls.#.id").ForEach(func(_, id gjson.Result) bool {
		s.Calls[id.Str] = true
		return true
	})
}

// came reports whether the next record came of what the person said. A prompt is the agent's.
func (s *Spoken) came(r event.Record, root bool) bool {
	switch {
	case r.Type == event.TypePrompt:
		return false
	case s.Inherited, s.person.spoke(r):
		return true
	case written(r):
		return false
	case strings.Contains(r.ID, titled):
		return len(s.Turns) > 0 // the model that made the title had read what the person said
	case root || r.EventID == "":
		return s.records[r.ParentEventID] || s.Calls[r.ParentEventID]
	}
	return s.turns[r.EventID]
}

// titleOf returns the title that a record gave the thread, if it came of what the person said.
func (s *Spoken) titleOf(r event.Record, of bool) string {
	if r.Type != event.TypeStatus {
		return ""
	}
	title := gjson.GetBytes(r.Payload, "title").Str
	clean, _ := s.person.record(r, of)
	if text := gjson.GetBytes(clean.Payload, "title").Str; text == s.person.Text(title) {
		return ""
	}
	return title
}

// Tells reports whether a record is what tells that a title of the thread came of what the person said.
func (s *Spoken) Tells(r event.Record) bool { return s.titleOf(r, s.Of(r)) != "" }

// Title returns a title of the thread without what the person said, and without the terms.
func (s *Spoken) Title(title string) string {
	switch {
	case title == "":
		return ""
	case s.Inherited, slices.Contains(s.Titles, title): // the call of a sub-agent had given its title
		return Erased
	}
	return s.person.Text(title)
}

// titled is in the ids of records of titles that a model has made.
var titled = recordid.Titled("", "")

// Of reports whether a record that was noted came of what the person said.
func (s *Spoken) Of(r event.Record) bool { return s.records[r.ID] }

// Alone reports whether the person wrote here, and everything else came of that.
func (s *Spoken) Alone() bool { return s.began && !s.others && !s.Inherited }

// Sub returns what is known before the records of a sub-agent's thread are noted. metadata is that of the thread, which names the call.
func (s *Spoken) Sub(metadata json.RawMessage) *Spoken {
	return s.person.Spoken(s.Inherited || s.Calls[gjson.GetBytes(metadata, signals.MetadataParentCall).Str])
}

// Concerns reports whether a record came of what the person said, or has something of the person.
func (s *Spoken) Concerns(r event.Record) bool {
	_, changed := s.Clean(r)
	return changed || s.Of(r)
}

// Clean returns a record without what the person said, and whether there was anything.
func (s *Spoken) Clean(r event.Record) (event.Record, bool) { return s.person.record(r, s.Of(r)) }

// Record returns a record without the terms and what the person wrote in it, and whether there was anything.
func (p *Person) Record(r event.Record) (event.Record, bool) { return p.record(r, false) }

func (p *Person) record(r event.Record, said bool) (event.Record, bool) {
	before, own := r.Payload, !event.Reserved(r.Type) && r.Type != event.TypeMessage
	if own {
		// The payload of an application's own type is any JSON.
		before, _ = json.Marshal(map[string]json.RawMessage{"payload": r.Payload})
	}
	after := p.Clean(before, said)
	if string(after) == string(before) {
		return r, false
	}
	if own {
		after = json.RawMessage(gjson.GetBytes(after, "payload").Raw)
	}
	r.Payload = after
	return r, true
}

// spoke reports whether the person said something in a record: a message or a query, an answer, or a decision with a reason or with
// other arguments.
func (p *Person) spoke(r event.Record) bool {
	switch {
	case written(r):
		return p.Wrote(r.Payload)
	case r.Type == event.TypeInputReceived:
		return p.wrote(gjson.ParseBytes(r.Payload))
	case r.Type != event.TypeApproval:
		return false
	}
	said := func(v gjson.Result) bool {
		return p.wrote(v) && (v.Get("reason").Str != "" || v.Get("arguments").Str != "")
	}
	v := gjson.ParseBytes(r.Payload)
	yes := said(v)
	v.Get("votes").ForEach(func(_, vote gjson.Result) bool {
		yes = yes || said(vote)
		return !yes
	})
	return yes
}

// otherWrote reports whether somebody else wrote, decided or answered in a record.
func (p *Person) otherWrote(r event.Record) bool {
	switch {
	case written(r):
		return !p.Wrote(r.Payload)
	case r.Type == event.TypeApproval, r.Type == event.TypeInputReceived:
		return len(p.others(r.Payload)) > 0
	}
	return false
}

// written reports whether a person wrote a record.
func written(r event.Record) bool {
	if r.Type == event.TypeMessage {
		return gjson.GetBytes(r.Payload, "senderType").Str == string(event.CreatedByUser)
	}
	return r.Type == event.TypeEnv && gjson.GetBytes(r.Payload, "type").Str == event.TypeUserQuery
}
