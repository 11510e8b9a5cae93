package forget

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
)

// Spoken is what came of what a person said in a thread: the turns of the person's events with their traces, which sub-agents and
// derived events share, and the tool calls of these turns.
type Spoken struct {
	person *Person

	// Turns are the person's events, oldest first. Traces are those of their turns, and of those for which the thread works, if it is that of
	// a sub-agent. Calls are the ids of tool calls.
	Turns  []string
	Traces map[string]bool
	Calls  map[string]bool

	// Inherited means that the thread is that of a sub-agent which worked for such a turn. Nobody writes there.
	Inherited bool

	turns, others, titles, given map[string]bool
}

// Spoken returns what is known before the records of a thread are noted. traces are those of the turns for which sub-agents worked.
func (p *Person) Spoken(traces map[string]bool) *Spoken {
	s := &Spoken{person: p, Traces: map[string]bool{}, Calls: map[string]bool{}, turns: map[string]bool{}, others: map[string]bool{}, titles: map[string]bool{}, given: traces}
	maps.Copy(s.Traces, traces)
	return s
}

// Note notes the next record of the thread.
func (s *Spoken) Note(r event.Record) {
	if r.ID == r.EventID && (r.Type == event.TypeMessage || r.Type == event.TypeEnv) {
		s.Inherited = s.Inherited || s.given[r.TraceID]
		switch {
		case s.person.Wrote(r.Payload):
			s.turns[r.EventID], s.Traces[r.TraceID] = true, true
			s.Turns = append(s.Turns, r.EventID)
		case written(r):
			s.others[r.EventID] = true
		}
	}
	if len(s.Turns) > 0 && strings.Contains(r.ID, titled) {
		s.titles[r.ID] = true // the model that made it had read what the person said
	}
	if s.Of(r) {
		gjson.GetBytes(r.Payload, "toolCalls.#.id").ForEach(func(_, id gjson.Result) bool {
			s.Calls[id.Str] = true
			return true
		})
	}
}

// titled is in the ids of records of titles that a model has made.
var titled = recordid.Titled("", "")

// Of reports whether a record came of what the person said. Messages of others that joined the turn did not, and a prompt is the agent's.
func (s *Spoken) Of(r event.Record) bool {
	switch {
	case r.Type == event.TypePrompt:
		return false
	case s.Inherited && s.Traces[r.TraceID]:
		return true
	case written(r) && !s.person.Wrote(r.Payload):
		return false
	}
	return s.titles[r.ID] || s.turns[r.EventID] || s.Traces[r.TraceID] && !s.others[r.EventID]
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

// OtherWrote reports whether somebody else wrote, decided or answered in a record.
func (p *Person) OtherWrote(r event.Record) bool {
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
