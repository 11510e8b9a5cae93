package forget

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

// TestSpoken: what came of a person's messages, answers and reasons is told from what came of those of others, whatever trace they
// share.
func TestSpoken(t *testing.T) {
	record := func(id, eventID, parent, typ, payload string) event.Record {
		return event.Record{ID: id, EventID: eventID, ParentEventID: parent, TraceID: "t", Type: typ, Payload: json.RawMessage(payload)}
	}
	message := func(id, eventID, who, kind string) event.Record {
		return record(id, eventID, "", event.TypeMessage, `{"senderId":"`+who+`","senderType":"`+kind+`","content":"x","toolCalls":[{"id":"call of `+id+`"}]}`)
	}
	const done = `{"type":"background_task.completed","payload":{"result":"x"}}`
	records := []struct {
		of bool
		event.Record
	}{
		{false, record("t1.titled.1", "", "", event.TypeStatus, `{"status":"updated","title":"x","by":"threadmill"}`)},
		{true, message("a", "a", "ann", "user")},
		{true, message("a.1", "a", "bot", "agent")},
		{false, record("a.prompt", "a", "", event.TypePrompt, `{"instructions":"You help."}`)},
		{false, message("joined", "a", "bob", "user")},
		{true, message("a.2", "a", "bot", "agent")},
		{false, message("b", "b", "bob", "user")},
		{false, message("b.1", "b", "bot", "agent")},
		{true, message("steers", "b", "Ann", "user")},
		{true, message("b.2", "b", "bot", "agent")},
		{true, record("env", "env", "call of a.1", event.TypeEnv, done)},
		{true, message("env.1", "env", "bot", "agent")},
		{true, record("task ended", "", "call of a.1", event.TypeTask, `{"title":"x"}`)},
		{false, record("other env", "other env", "call of b.1", event.TypeEnv, done)},
		{false, message("c", "c", "bob", "user")},
		{false, record("c approved", "c", "", event.TypeApproval, `{"toolCallId":"c1","by":"ann"}`)},
		{false, message("c.1", "c", "bot", "agent")},
		{true, record("c denied", "c", "", event.TypeApproval, `{"toolCallId":"c2","by":"ann","reason":"x"}`)},
		{true, message("c.2", "c", "bot", "agent")},
		{false, message("d", "d", "bob", "user")},
		{true, record("d answered", "d", "", event.TypeInputReceived, `{"toolCallId":"d1","by":"ann"}`)},
		{false, message("e", "e", "bob", "user")},
		{true, record("e voted", "e", "", event.TypeApproval, `{"toolCallId":"e1","by":"bob","votes":[{"by":"ann","reason":"x"}]}`)},
		{true, record("q", "q", "", event.TypeEnv, `{"type":"user_query","payload":{"content":"x","userId":"ann"}}`)},
		{true, message("q.1", "q", "bot", "agent")},
		{false, message("agent ann", "agent ann", "ann", "agent")},
		{true, record("t1.titled.2", "", "", event.TypeStatus, `{"status":"updated","title":"ann's bill","by":"threadmill"}`)},
	}
	s := ann(t).Spoken(false)
	for _, r := range records {
		s.Note(r.Record)
	}
	for _, r := range records {
		assert.Equal(t, r.of, s.Of(r.Record), r.ID)
	}
	assert.Equal(t, []string{"a", "b", "env", "c", "d", "e", "q"}, s.Turns)
	for call, want := range map[string]bool{"call of a.1": true, "call of b.1": false, "call of b.2": true, "c1": false, "c2": true, "d1": true, "e1": true} {
		assert.Equal(t, want, s.Calls[call], call)
	}
	assert.False(t, s.Alone())
	assert.Equal(t, []string{"ann's bill"}, s.Titles, "the first title came before what the person said")
	for title, want := range map[string]string{"": "", "x": "x", "ann's bill": Erased} {
		assert.Equal(t, want, s.Title(title), title)
	}
	last := records[len(records)-1].Record
	assert.True(t, s.Tells(last))
	clean, _ := s.Clean(last)
	assert.False(t, s.Tells(clean))
	assert.True(t, s.person.In(nil, s.Titles, false).Concerns(json.RawMessage(`"ann's bill"`)), "a memo")

	opened := message("s", "s", "bot", "user")
	for call, want := range map[string]bool{"call of a.1": true, "call of b.1": false} {
		sub := s.Sub(json.RawMessage(`{"parentToolCallId":"` + call + `"}`))
		sub.Note(opened)
		assert.Equal(t, want, sub.Inherited, call)
		assert.Equal(t, want, sub.Of(opened), "an agent wrote it for the person")
		assert.Equal(t, want, sub.Title("its call gave it") == Erased)
		assert.Equal(t, want, s.person.In(nil, nil, sub.Inherited).Concerns(json.RawMessage(`{"title":"its call gave it"}`)))
	}
}

// TestAlone: a person is alone where everything came of what the person said.
func TestAlone(t *testing.T) {
	record := func(id, eventID, typ, payload string) event.Record {
		return event.Record{ID: id, EventID: eventID, Type: typ, Payload: json.RawMessage(payload)}
	}
	own, reply := record("a", "a", event.TypeMessage, `{"senderId":"ann","senderType":"user"}`), record("a.1", "a", event.TypeMessage, `{"senderId":"bot","senderType":"agent"}`)
	for name, c := range map[string]struct {
		want bool
		more []event.Record
	}{
		"alone": {true, nil}, "interrupted by a program": {true, []event.Record{record("i", "a", event.TypeStatus, `{"by":"api"}`)}},
		"another person":  {false, []event.Record{record("b", "b", event.TypeMessage, `{"senderId":"bob","senderType":"user"}`)}},
		"who joined":      {false, []event.Record{record("b", "a", event.TypeMessage, `{"senderId":"bob","senderType":"user"}`)}},
		"who decided":     {false, []event.Record{record("d", "a", event.TypeApproval, `{"by":"bob"}`)}},
		"who voted":       {false, []event.Record{record("d", "a", event.TypeApproval, `{"by":"ann","votes":[{"by":"bob"}]}`)}},
		"own decision":    {true, []event.Record{record("d", "a", event.TypeApproval, `{"by":"ann","votes":[{"by":"erased-1"}]}`)}},
		"event of others": {false, []event.Record{record("w", "w", event.TypeEnv, `{"type":"file.changed"}`)}},
	} {
		s := ann(t).Spoken(false)
		for _, r := range append([]event.Record{own, reply}, c.more...) {
			s.Note(r)
		}
		assert.Equal(t, c.want, s.Alone(), name)
	}
	s := ann(t).Spoken(false)
	s.Note(record("w", "w", event.TypeEnv, `{"type":"file.changed"}`))
	s.Note(record("d", "w", event.TypeApproval, `{"by":"ann"}`))
	assert.False(t, s.Alone(), "the person only decided")
}

func TestPayloadOfOwnType(t *testing.T) {
	r, changed := ann(t, "Ann Smith").Record(event.Record{Type: "order", Payload: json.RawMessage(`{"id":"Ann Smith","threadId":"t1"}`)})
	assert.True(t, changed)
	assert.JSONEq(t, `{"id":"[erased]","threadId":"t1"}`, string(r.Payload))
	_, changed = ann(t, "Ann Smith").Record(event.Record{Type: "order", Payload: json.RawMessage(`3`)})
	assert.False(t, changed)
}

func TestNew(t *testing.T) {
	for field, c := range map[string]struct {
		name  string
		terms []string
	}{
		"person": {" ann", nil}, "terms": {"ann", make([]string, MaxTerms+1)}, "terms[1]": {"ann", []string{"long", "ab"}}, "terms[0]": {"ann", []string{" ab c"}},
	} {
		_, err := New(c.name, "x", c.terms)
		var wrong *event.FieldError
		require.ErrorAs(t, err, &wrong, field)
		require.Equal(t, field, wrong.Field)
	}
	_, err := New("ann", "x", []string{"erased"})
	require.ErrorContains(t, err, "one of them is in the text [erased]")
	for _, name := range []string{"user", "API", "schedule", "erasure"} {
		_, err := New(name, "x", nil)
		require.ErrorContains(t, err, "it is nobody's", name)
	}
}

func TestKnown(t *testing.T) {
	p := ann(t, "Ann Smith", "Zoë", "+49 170")
	assert.True(t, p.Is("Ann"))
	assert.True(t, p.Is("erased-1"))
	assert.False(t, p.Is("anna"))
	for text, want := range map[string]bool{"Ann": false, "ann smith": true, "Anna Smith": false, "with ZOË.": true, "call +49 170 now": true, "bob": false, "Ann Smithers": false} {
		assert.Equal(t, want, p.Known(text), text)
	}
	assert.True(t, p.In([]string{"e1"}, nil, false).Concerns(json.RawMessage(`{"outcomes":[{"eventId":"e1","status":"completed","message":{"content":"x"}}]}`)))
}
