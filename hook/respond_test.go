package hook_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

func TestResponseValidate(t *testing.T) {
	for _, tc := range []struct {
		field    string // "" = none
		response hook.Response
	}{
		{"", hook.Response{Content: "no"}},
		{"", hook.Response{Content: "no", SenderID: "guard", SenderType: event.CreatedBySystem, EnqueueAfter: hook.EnqueueImmediately, Metadata: map[string]any{"a": 1}}},
		{"", hook.Response{Content: "no", SenderType: event.CreatedByTool, EnqueueAfter: hook.EnqueueAfterToolResults}},
		{"", hook.Response{Content: "no", EnqueueAfter: "tool_results"}},
		{"content", hook.Response{SenderID: "guard", SenderType: event.CreatedBySystem}},
		{"senderType", hook.Response{Content: "no", SenderType: "robot"}},
		{"enqueueAfter", hook.Response{Content: "no", EnqueueAfter: "later"}},
	} {
		err := tc.response.Validate()
		if tc.field == "" {
			require.NoError(t, err, "S0-07 S0-21")
			continue
		}
		require.ErrorIs(t, err, event.ErrInvalid)
		var field *event.FieldError
		require.ErrorAs(t, err, &field)
		require.Equal(t, tc.field, field.Field)
	}
}

// TestContract pins the JSON for hook workflows in other languages.
func TestContract(t *testing.T) {
	request, err := json.Marshal(hook.Request{
		Context: hook.Context{Hook: "approve", Namespace: "default", ThreadID: "t1", EventID: "e1", TraceID: "e1", ParentEventID: "e0", Agent: "bot", Attempt: 1},
		Event:   json.RawMessage(`{"type":"message"}`),
	})
	require.NoError(t, err)
	require.Equal(t, `{"hook":"approve","namespace":"default","threadId":"t1","eventId":"e1","traceId":"e1","parentEventId":"e0","agent":"bot","attempt":1,"event":{"type":"message"}}`, string(request))

	for raw, want := range map[string]hook.Verdict{
		`null`:           {},
		`{}`:             {},
		`{"event":null}`: {Event: json.RawMessage("null")},
		`{"responses":[{"content":"no","senderId":"guard","senderType":"system","enqueueAfter":"immediately","metadata":{"a":1}}]}`: {
			Responses: []hook.Response{{Content: "no", SenderID: "guard", SenderType: event.CreatedBySystem, EnqueueAfter: hook.EnqueueImmediately, Metadata: event.Metadata{"a": json.Number("1")}}},
		},
	} {
		var got hook.Verdict
		require.NoError(t, json.Unmarshal([]byte(raw), &got))
		require.Equal(t, want, got)
	}
	for raw, unknown := range map[string]string{
		`{"response":[{"content":"no"}]}`:             "response",
		`{"evnt":null}`:                               "evnt",
		`{"dropped":true}`:                            "dropped",
		`{"produced":[{"typ":"a"}]}`:                  "typ",
		`{"responses":[{"content":"no","sender":1}]}`: "sender",
	} {
		var got hook.Verdict
		require.ErrorContains(t, json.Unmarshal([]byte(raw), &got), unknown+": is not known", "S0-23 what is misspelled lets nothing pass")
	}
}

// TestProducedJSON: produced events and posted events have the same field names.
func TestProducedJSON(t *testing.T) {
	nine := 9
	raw, err := json.Marshal(hook.Produced{Type: "order.placed", Payload: json.RawMessage(`1`), Priority: &nine, TTL: 7})
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"order.placed","payload":1,"priority":9,"ttl":7}`, string(raw), "X16")
}

func TestVerdictRead(t *testing.T) {
	changed := `{"type":"message","createdBy":"user","threadId":"t1","message":{"threadId":"t1","senderId":"ann","senderType":"user","content":"changed"}}`
	for _, tc := range []struct {
		name    string
		verdict string
		outcome event.Outcome
		problem string
	}{
		{"null lets it pass", `null`, event.OutcomePassed, ""},
		{"no event lets it pass", `{"event":null,"responses":[]}`, event.OutcomePassed, ""},
		{"S0-11 S0-12 an event", `{"event":` + changed + `}`, event.OutcomeReplaced, ""},
		{"S0-17 responses win", `{"event":` + changed + `,"responses":[{"content":"no"}]}`, event.OutcomeResponded, ""},
		{"no event at all", `{"event":7}`, "", "the event that it returned"},
		{"an event of another thread", `{"event":{"type":"order.created","threadId":"t2","payload":1}}`, "", `threadId: is "t2", but the event's is "t1"`},
		{"events", `{"produced":[{"payload":{"senderId":"ann","senderType":"user","content":"x"}},{"type":"order.placed","payload":1}]}`, event.OutcomeOverwritten, ""},
		{"nothing at all", `{"drop":true}`, event.OutcomeDropped, ""},
		{"not dropped after all", `{"drop":false}`, event.OutcomePassed, ""},
		{"no events", `{"produced":[]}`, "", "produced: is empty"},
		{"an event that is none", `{"produced":[{"type":"order.placed"},{"type":"status"}]}`, "", `produced[1].type: "status" events are created by the thread itself`},
		{"a message for another thread", `{"produced":[{"payload":{"threadId":"t2","senderId":"ann","senderType":"user","content":"x"}}]}`, "", `payload.threadId: is "t2"`},
		{"dropped and answered", `{"drop":true,"responses":[{"content":"no"}]}`, "", "drop: excludes every other decision"},
		{"dropped and replaced", `{"drop":true,"event":` + changed + `}`, "", "drop: excludes every other decision"},
		{"dropped and produced", `{"drop":true,"produced":[{"type":"a","payload":1}]}`, "", "drop: excludes every other decision"},
		{"produced and answered", `{"produced":[{"type":"a","payload":1}],"responses":[{"content":"no"}]}`, "", "produced: excludes every other decision"},
		{"produced and replaced", `{"produced":[{"type":"a","payload":1}],"event":` + changed + `}`, "", "produced: excludes every other decision"},
		{"a bad response", `{"responses":[{"content":"no"},{"content":""}]}`, "", "responses[1].content: is required"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var v hook.Verdict
			require.NoError(t, json.Unmarshal([]byte(tc.verdict), &v))
			got, err := v.Read(aMessage)
			if tc.problem != "" {
				require.ErrorContains(t, err, tc.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.outcome, got.Outcome)
			require.Equal(t, tc.outcome == event.OutcomeReplaced, got.Event != nil)
		})
	}
}

// TestFunctionsDropAndProduce: functions have the same choices as hook workflows.
func TestFunctionsDropAndProduce(t *testing.T) {
	order := hook.Produced{Type: "order.placed", Payload: json.RawMessage(`1`)}
	for name, tc := range map[string]struct {
		result  hook.Result
		outcome event.Outcome
		problem string
	}{
		"drop":                 {hook.Drop(), event.OutcomeDropped, ""},
		"produce":              {hook.Produce(order), event.OutcomeOverwritten, ""},
		"produce nothing":      {hook.Produce(), "", "produced: is empty: return hook.Pass() to let the event pass, or hook.Drop()"},
		"produce what is none": {hook.Produce(hook.Produced{Type: "status"}), "", "produced[0].type"},
		"respond nothing":      {hook.Respond(), "", "responses: is empty: return hook.Pass() to let the event pass, or hook.Drop()"},
		"replace by nothing":   {hook.Replace(nil), "", "event: is nil: return hook.Pass() to let the event pass, or hook.Drop()"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := asked(t, aMessage, decides(tc.result))
			if tc.problem != "" {
				require.ErrorContains(t, err, tc.problem)
				require.ErrorIs(t, err, event.ErrInvalid)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.outcome, got.Outcome)
			require.True(t, got.Settles())
			require.Equal(t, tc.outcome == event.OutcomeOverwritten, len(got.Produced) == 1)
		})
	}
}

func TestRequestDecode(t *testing.T) {
	raw, err := json.Marshal(aMessage)
	require.NoError(t, err)
	got, err := hook.Request{Event: raw}.Decode()
	require.NoError(t, err)
	require.Equal(t, aMessage, got)
	_, err = hook.Request{}.Decode()
	require.ErrorIs(t, err, event.ErrInvalid)
}
