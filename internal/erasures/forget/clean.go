package forget

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// What the fields of stored JSON have, by their names. All other fields have text.
var (
	// people have names of people, and writers those of who wrote the object.
	people  = regexp.MustCompile(`^(senderId|by|user|userId|approvers|person)$`)
	writers = regexp.MustCompile(`^(senderId|by|userId)$`)

	// free have any JSON. Of it, only payloads and metadata have ids, at their top, which remain.
	free    = regexp.MustCompile(`^(payload|metadata|args|toolArgs|data|content|schema|extra)$`)
	withIDs = regexp.MustCompile(`^(payload|metadata)$`)
	freeIDs = []string{"threadId", "sessionId", "senderType", signals.MetadataParent, signals.MetadataParentCall, signals.MetadataScheduleID, signals.MetadataScheduledAt, "trigger_session_id"}
	sources = regexp.MustCompile(`^(tool|env|user|system|llm)$`)

	// kept have ids, types, names of agents and tools, digests, times and addresses.
	kept = regexp.MustCompile(`^(id|.*Id|.*ID|.*Ids|.*IDs|key|keys|seq|type|types|.*Type|role|status|state|stage|phase|activity|outcome|decision|scope|action|class|kind|` +
		`name|agent|agents|.*Agents|agentName|subAgent|createdBy|onBusy|onWaiting|signal|tool|tools|toolName|model|.*Model|provider|finishReason|answeredBy|tier|` +
		`prompt|turn|question|digest|definition|rest|grant|groups|namespace|rule|server|queue|.*Queue|traceparent|joinOn|root|parent|produced|joined|steered|joining|undecided|plan|calls|answers|before|next|` +
		`ids|passed|voted|hooks|abandonedHooks|processor|enqueueAfter|duplicate|deniedBy|default|record|lastRecord|replies|replyTo|collection|document|entity|` +
		`pseudonym|turns|.*At|at|since|deadline|workingDirectory)$`)
)

// Clean returns JSON that a thread stores or carries over without what the person said, and without the terms. With saidByPerson, all of it
// is of the person. The rest of the JSON remains as it is, byte by byte.
func (p *Person) Clean(document json.RawMessage, saidByPerson bool) json.RawMessage {
	if !gjson.ValidBytes(document) {
		return document
	}
	c := cleaning{p}
	out := c.value(string(document), "", p.replacing(saidByPerson))
	if out == string(document) {
		return document
	}
	return json.RawMessage(out)
}

// CleanValue is [Person.Clean] for JSON of which nothing is known, such as the arguments of a tool.
func (p *Person) CleanValue(value json.RawMessage, saidByPerson bool) json.RawMessage {
	return p.replacing(saidByPerson).JSON(value)
}

// Wrote reports whether the person wrote what JSON has, as a message or as an environment event.
func (p *Person) Wrote(document json.RawMessage) bool {
	v := gjson.ParseBytes(document)
	return p.wrote(v) || p.wrote(v.Get("payload"))
}

// others returns the names of other people who wrote objects in JSON.
func (p *Person) others(document json.RawMessage) (names []string) {
	var look func(field string, v gjson.Result)
	look = func(field string, v gjson.Result) {
		if v.Type == gjson.String && writers.MatchString(field) && v.Str != "" && !p.Is(v.Str) {
			names = append(names, v.Str)
		}
		v.ForEach(func(name, value gjson.Result) bool {
			if value.IsObject() || value.IsArray() || name.Exists() {
				look(name.Str, value)
			}
			return true
		})
	}
	if v := gjson.ParseBytes(document); v.IsObject() {
		look("", v)
	}
	return names
}

// Concerns reports whether JSON has anything of the person or one of the terms.
func (p *Person) Concerns(document json.RawMessage) bool {
	return !bytes.Equal(p.Clean(document, false), document)
}

// replacing replaces what is to be forgotten in a text, or in JSON of which nothing is known: terms, or everything.
type replacing interface {
	Text(text string) string
	JSON(value json.RawMessage, keep ...string) json.RawMessage
}

func (p *Person) replacing(saidByPerson bool) replacing {
	if saidByPerson {
		return everything{}
	}
	return p.terms
}

type everything struct{}

// Text replaces a text. JSON remains JSON.
func (everything) Text(text string) string {
	switch v := gjson.Parse(text); {
	case strings.TrimSpace(text) == "":
		return text
	case v.IsObject() && gjson.Valid(text):
		return "{}"
	case v.IsArray() && gjson.Valid(text):
		return "[]"
	}
	return Erased
}

// JSON replaces a value by an empty one.
func (e everything) JSON(value json.RawMessage, _ ...string) json.RawMessage {
	switch v := gjson.ParseBytes(value); {
	case v.IsObject():
		return json.RawMessage("{}")
	case v.IsArray():
		return json.RawMessage("[]")
	case v.Type == gjson.String:
		return json.RawMessage(quoted(e.Text(v.Str)))
	case v.Type == gjson.Number:
		return json.RawMessage("0")
	}
	return value
}

type cleaning struct{ *Person }

// value returns a value without what is to be forgotten. field is the name of the field that has it; the elements of an array have that of the
// array.
func (c cleaning) value(raw, field string, by replacing) string {
	v := gjson.Parse(raw)
	switch {
	case v.IsObject() && field == "rule":
		return raw // the application's
	case v.Type == gjson.String && people.MatchString(field):
		if c.named(v.Str) {
			return quoted(c.Pseudonym)
		}
		return quotedIfChanged(raw, v.Str, c.Text(v.Str))
	case v.Type == gjson.String && c.titled(field, v.Str):
		return quoted(Erased)
	case field == "opaque":
		// Only its model can read it, and a changed one is refused.
		if by == (everything{}) || string(by.JSON(json.RawMessage(raw))) != raw {
			return "null"
		}
		return raw
	case kept.MatchString(field) && !v.IsObject() && !v.IsArray():
		return raw
	case v.Type == gjson.String:
		return quotedIfChanged(raw, v.Str, by.Text(v.Str))
	case v.IsObject() && free.MatchString(field) && !typed(v):
		return c.free(v, field, by)
	case v.IsObject():
		if by != (everything{}) && c.wrote(v) {
			by = everything{}
		}
		sender := v.Get("senderType").Str
		return each(v, func(name, raw string) string {
			if name == "senderId" && sender != "" && sender != string(event.CreatedByUser) {
				return raw // of an agent or a tool
			}
			return c.value(raw, name, by)
		})
	case v.IsArray() && free.MatchString(field):
		return string(by.JSON(json.RawMessage(raw)))
	case v.IsArray():
		return each(v, func(_, raw string) string { return c.value(raw, field, by) })
	}
	return raw
}

// typed reports whether an object in a field that has any JSON is the payload of a message.
func typed(v gjson.Result) bool { return v.Get("senderId").Exists() && v.Get("senderType").Exists() }

// free cleans an object of which nothing is known but some ids at its top, and the names of people.
func (c cleaning) free(v gjson.Result, field string, by replacing) string {
	var ids []string
	if withIDs.MatchString(field) {
		ids = freeIDs
	}
	if by == (everything{}) || c.wrote(v) {
		return c.emptied(v, ids)
	}
	clean := gjson.Parse(string(by.JSON(json.RawMessage(v.Raw), ids...)))
	return each(clean, func(name, raw string) string {
		if one := gjson.Parse(raw); one.Type == gjson.String && people.MatchString(name) && c.named(one.Str) {
			return quoted(c.Pseudonym)
		}
		return raw
	})
}

// emptied returns an object with nothing but its ids and what its readers need.
func (c cleaning) emptied(v gjson.Result, ids []string) string {
	out := map[string]json.RawMessage{}
	v.ForEach(func(name, value gjson.Result) bool {
		switch {
		case value.Type != gjson.String:
		case people.MatchString(name.Str) && c.Is(value.Str):
			out[name.Str] = json.RawMessage(quoted(c.Pseudonym))
		case slices.Contains(ids, name.Str), len(ids) > 0 && name.Str == "source" && sources.MatchString(value.Str):
			out[name.Str] = json.RawMessage(value.Raw)
		case len(ids) > 0 && name.Str == "content":
			out[name.Str] = json.RawMessage(quoted(Erased))
		}
		return true
	})
	raw, _ := json.Marshal(out)
	return string(raw)
}

// wrote reports whether the person wrote an object, or it came of what the person wrote.
func (p *Person) wrote(v gjson.Result) (yes bool) {
	if kind := v.Get("senderType"); kind.Exists() && kind.Str != string(event.CreatedByUser) {
		return false
	}
	v.ForEach(func(name, value gjson.Result) bool {
		yes = yes || value.Type == gjson.String && (writers.MatchString(name.Str) && p.Is(value.Str) || name.Str == "eventId" && p.turns[value.Str])
		return !yes
	})
	return yes
}

// each returns an object or an array with other values.
func each(v gjson.Result, to func(name, raw string) string) string {
	var out strings.Builder
	copied := 0
	v.ForEach(func(name, value gjson.Result) bool {
		at := value.Index - v.Index
		out.WriteString(v.Raw[copied:at])
		out.WriteString(to(name.Str, value.Raw))
		copied = at + len(value.Raw)
		return true
	})
	out.WriteString(v.Raw[copied:])
	return out.String()
}

func quotedIfChanged(raw, before, after string) string {
	if before == after {
		return raw
	}
	return quoted(after)
}

func quoted(text string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	return strings.TrimSuffix(out.String(), "\n")
}
