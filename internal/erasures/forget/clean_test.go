package forget

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/thread"
)

const word = "zephyr"

func ann(t *testing.T, terms ...string) *Person {
	t.Helper()
	p, err := New("ann", "erased-1", terms)
	require.NoError(t, err)
	return p
}

func TestClean(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		said           bool
	}{
		{
			"a message of the person", `{"id":"m1","senderId":"ann","senderType":"user","content":"my secret", "metadata":{"a":"b"}}`,
			`{"id":"m1","senderId":"erased-1","senderType":"user","content":"[erased]", "metadata":{}}`, false,
		},
		{
			"one of another person", `{"id":"m1","senderId":"bob","senderType":"user","content":"ask Ann  Smith, or annie"}`,
			`{"id":"m1","senderId":"bob","senderType":"user","content":"ask [erased], or annie"}`, false,
		},
		{"an agent of the same name", `{"senderId":"ann","senderType":"agent","content":"hello"}`, `{"senderId":"ann","senderType":"agent","content":"hello"}`, false},
		{
			"a reply in a turn of the person", `{"senderId":"bot","senderType":"agent","content":"a <b>","toolCalls":[{"id":"c1","function":{"name":"note","arguments":"{\"text\":\"a\"}"}}]}`,
			`{"senderId":"bot","senderType":"agent","content":"[erased]","toolCalls":[{"id":"c1","function":{"name":"note","arguments":"{}"}}]}`, true,
		},
		{
			"a vote among others", `{"by":"bob","reason":"fine","votes":[{"by":"ann","reason":"hm"},{"by":"bob","reason":"fine"}],"approvers":["ann","bob"]}`,
			`{"by":"bob","reason":"fine","votes":[{"by":"erased-1","reason":"[erased]"},{"by":"bob","reason":"fine"}],"approvers":["erased-1","bob"]}`, false,
		},
		{
			"a user query", `{"type":"user_query","payload":{"content":"hm","userId":"ann"},"metadata":{"source":"user","repo":"ann smith"}}`,
			`{"type":"user_query","payload":{"content":"[erased]","userId":"erased-1"},"metadata":{"source":"user","repo":"[erased]"}}`, false,
		},
		{
			"a queued message", `{"id":"e1","payload":{"threadId":"t1","senderId":"ann","senderType":"user","content":"hm"}}`,
			`{"id":"e1","payload":{"threadId":"t1","senderId":"erased-1","senderType":"user","content":"[erased]"}}`, false,
		},
		{"thoughts that only the model can read", `{"messageId":"m","opaque":{"origin":{"provider":"x"},"data":[{"thinking":"Ann Smith"}]}}`, `{"messageId":"m","opaque":null}`, false},
		{"an id is no text", `{"eventId":"ann smith","text":"ann smith"}`, `{"eventId":"ann smith","text":"[erased]"}`, false},
		{"an id in arguments is one", `{"payload":{"threadId":"t1","in":{"id":"ann smith"}}}`, `{"payload":{"threadId":"t1","in":{"id":"[erased]"}}}`, false},
		{
			"names of people and of fields in any JSON", `{"metadata":{"Ann Smith":"vip","person":"Ann Smith","source":"Ann Smith","user":"ann","n":1},"args":{"person":"Ann Smith","threadId":"Ann Smith"}}`,
			`{"metadata":{"[erased]":"vip","person":"[erased]","source":"[erased]","user":"erased-1","n":1},"args":{"person":"[erased]","threadId":"[erased]"}}`, false,
		},
		{
			"all of it", `{"metadata":{"threadId":"t1","source":"env","secret":"x","by":"ann","n":1},"args":{"source":"x","threadId":"y"}}`,
			`{"metadata":{"by":"erased-1","source":"env","threadId":"t1"},"args":{}}`, true,
		},
		{"no JSON", `{`, `{`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := ann(t, "Ann Smith")
			got := p.Clean(json.RawMessage(c.in), c.said)
			assert.Equal(t, c.want, string(got))
			assert.Equal(t, c.want, string(p.Clean(got, c.said)), "it is the same when it is cleaned again")
			assert.False(t, p.Concerns(got))
		})
	}
}

// TestFields: whoever adds a field that is stored or carried over decides whether it has text.
func TestFields(t *testing.T) {
	texts, others := map[string]bool{}, map[string]bool{}
	for _, v := range []any{
		event.Message{},
		event.LLMCall{},
		event.ToolCallEvent{},
		event.ApprovalRequest{},
		event.Approval{},
		event.StatusChange{},
		event.Final{},
		event.TurnEnded{},
		event.ClientCall{},
		event.InputRequest{},
		event.InputReceived{},
		event.Failure{},
		event.Rejected{},
		event.Unqueued{},
		event.Retrieval{},
		event.Task{},
		event.Interception{},
		event.EnvEvent{},
		event.CustomEvent{},
		thread.State{},
	} {
		filled := reflect.New(reflect.TypeOf(v)).Elem()
		fill(filled, 0)
		raw, err := json.Marshal(filled.Interface())
		require.NoError(t, err)
		clean := ann(t, word).Clean(raw, false)
		require.NoError(t, json.Unmarshal(clean, reflect.New(reflect.TypeOf(v)).Interface()))
		compare(t, "", raw, clean, texts, others)
	}
	assert.Equal(t, strings.Fields(wantTexts), slices.Sorted(maps.Keys(texts)))
	assert.Equal(t, strings.Fields(wantOthers), slices.Sorted(maps.Keys(others)))
}

const (
	wantTexts = `
		answer approvers arguments by context denied detail edited editedPrefix error input instructions lost message opaque output path person problem query
		reason refused source terms text title titles unhandled url user warning x`
	wantOthers = `
		abandonedHooks action agent agentId agentName agents answeredBy answers before calls class collection contains decision
		decisionId default definition deniedBy digest document duplicate endEventId enqueueAfter entity equals eventId eventType events field
		finishReason grant groups heldIds hooks id ids in joinOn joined joining kind lastRecord messageId model name namespace next not onBusy
		onWaiting outcome parent parentEventId passed phase plan postedIds prefix processor produced prompt pseudonym question record replies
		replyTo replyToMessageId rest role root rule scope senderId senderType server signal stage state status steered subAgent systemPrompt
		taskId taskQueue threadId tier tool toolCallId toolName tools traceId traceparent turn turnId turns type undecided voted workingDirectory`
)

func compare(t *testing.T, field string, before, after json.RawMessage, texts, others map[string]bool) {
	t.Helper()
	var object, then map[string]json.RawMessage
	var list, later []json.RawMessage
	switch {
	case string(after) == "null":
		texts[field] = true
	case json.Unmarshal(before, &object) == nil && object != nil:
		require.NoError(t, json.Unmarshal(after, &then))
		for name := range object {
			if free.MatchString(name) {
				assert.NotContains(t, string(then[name]), word, name)
				continue
			}
			compare(t, name, object[name], then[name], texts, others)
		}
	case json.Unmarshal(before, &list) == nil && list != nil:
		require.NoError(t, json.Unmarshal(after, &later))
		for i := range list {
			compare(t, field, list[i], later[i], texts, others)
		}
	case strings.Contains(string(before), word) && string(before) == string(after):
		others[field] = true
	case string(before) != string(after):
		texts[field] = true
	}
}

// fill sets each text to a word.
func fill(v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes([]byte(`{"text":"` + word + `"}`))
		return
	case event.EnvMetadata:
		v.Set(reflect.ValueOf(event.EnvMetadata{Extra: map[string]json.RawMessage{"x": json.RawMessage(`"` + word + `"`)}}))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
		return
	}
	if depth > 30 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(word)
	case reflect.Interface:
		v.Set(reflect.ValueOf(word))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one, depth+1)
		v.SetMapIndex(reflect.ValueOf("x"), one)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	}
}
