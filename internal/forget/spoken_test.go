package forget

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

// TestSpoken: what came of a person's messages is told from what came of those of others, whatever trace they share.
func TestSpoken(t *testing.T) {
	record := func(id, eventID, trace, typ, payload string) event.Record {
		return event.Record{ID: id, EventID: eventID, TraceID: trace, Type: typ, Payload: json.RawMessage(payload)}
	}
	message := func(id, eventID, trace, who, kind string) event.Record {
		return record(id, eventID, trace, event.TypeMessage, `{"senderId":"`+who+`","senderType":"`+kind+`","content":"x","toolCalls":[{"id":"call of `+id+`"}]}`)
	}
	records := []struct {
		of bool
		event.Record
	}{
		{false, record("t1.titled.1", "", "", event.TypeStatus, `{"status":"updated","title":"x","by":"threadmill"}`)},
		{true, message("a", "a", "t1", "ann", "user")},
		{true, message("a.1", "a", "t1", "bot", "agent")},
		{false, record("a.prompt", "a", "t1", event.TypePrompt, `{"instructions":"You help."}`)},
		{false, message("joined", "a", "t1", "bob", "user")},
		{false, message("b", "b", "t1", "bob", "user")},
		{false, message("b.1", "b", "t1", "bot", "agent")},
		{true, record("env", "env", "t1", event.TypeEnv, `{"type":"background_task.completed","payload":{"result":"x"}}`)},
		{true, message("env.1", "env", "t1", "bot", "agent")},
		{false, message("c", "c", "t2", "bob", "user")},
		{true, record("q", "q", "t3", event.TypeEnv, `{"type":"user_query","payload":{"content":"x","userId":"ann"}}`)},
		{true, message("q.1", "q", "t3", "bot", "agent")},
		{false, message("ann", "ann", "t4", "ann", "agent")},
		{true, record("t1.titled.2", "", "", event.TypeStatus, `{"status":"updated","title":"x","by":"threadmill"}`)},
	}
	s := ann(t).Spoken(nil)
	for _, r := range records {
		s.Note(r.Record)
	}
	for _, r := range records {
		assert.Equal(t, r.of, s.Of(r.Record), r.ID)
	}
	assert.Equal(t, []string{"a", "q"}, s.Turns)
	assert.Equal(t, map[string]bool{"call of a": true, "call of a.1": true, "call of env.1": true, "call of q.1": true}, s.Calls)
	assert.False(t, s.Inherited)

	sub := ann(t).Spoken(s.Traces)
	opened := message("s", "s", "t1", "bot", "user")
	sub.Note(opened)
	assert.True(t, sub.Inherited)
	assert.True(t, sub.Of(opened), "an agent wrote it for the person")
	other := ann(t).Spoken(s.Traces)
	opened = message("s", "s", "t2", "bot", "user")
	other.Note(opened)
	assert.False(t, other.Inherited)
	assert.False(t, other.Of(opened))
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
}

func TestKnown(t *testing.T) {
	p := ann(t, "Ann Smith", "Zoë", "+49 170")
	for text, want := range map[string]bool{"Ann": true, "ann smith": true, "Anna Smith": false, "with ZOË.": true, "call +49 170 now": true, "bob": false, "Ann Smithers": false} {
		assert.Equal(t, want, p.Known(text), text)
	}
	assert.True(t, p.WithTurns([]string{"e1"}).Concerns(json.RawMessage(`{"outcomes":[{"eventId":"e1","status":"completed","message":{"content":"x"}}]}`)))
}

func TestOtherWrote(t *testing.T) {
	for payload, want := range map[string]bool{
		`{"by":"ann"}`: false, `{"by":"bob"}`: true, `{"by":"ann","votes":[{"by":"bob"}]}`: true, `{"by":"erased-1","votes":[{"by":"ann"}]}`: false,
	} {
		assert.Equal(t, want, ann(t).OtherWrote(event.Record{Type: event.TypeApproval, Payload: json.RawMessage(payload)}), payload)
		assert.False(t, ann(t).OtherWrote(event.Record{Type: event.TypeStatus, Payload: json.RawMessage(payload)}), payload)
	}
	assert.True(t, ann(t).OtherWrote(event.Record{Type: event.TypeMessage, Payload: json.RawMessage(`{"senderId":"bob","senderType":"user"}`)}))
	assert.False(t, ann(t).OtherWrote(event.Record{Type: event.TypeMessage, Payload: json.RawMessage(`{"senderId":"bob","senderType":"agent"}`)}))
}
