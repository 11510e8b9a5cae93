package redaction

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/signals"
)

const card = "4111111111111111"

// kept are the fields that have ids, types and names.
var kept = regexp.MustCompile(`^(first|(posts|decisions|results|inputs|tasks|interrupts|subAgents)\[\]|message|event)?\.?(id|known\[\]|type|threadId|toolCallId|taskId|eventId|traceId|traceparent|parentEventId|by|agent|toolName|digest|workingDirectory|` +
	`agents\[\]|addAgents\[\]|removeAgents\[\]|onBusy|onWaiting|action|status|decision|scope|cron\[\]|timezone|missed|senderId|senderType|isEnv|` +
	`answers\.x\.action|metadata\.(trigger_session_id|trigger_agent_id|trigger_agent_name|env_name|source)|toolCalls\[\]\.id|toolCalls\[\]\.function\.name|` +
	`payload\.(threadId|senderId))$`)

// Whoever adds a field to a payload decides whether it is redacted.
func TestPayload(t *testing.T) {
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}})
	require.NoError(t, err)
	for _, payload := range []any{
		signals.Post{},
		signals.PostBatch{},
		signals.Start{},
		signals.ThreadChange{},
		signals.Control{},
		signals.SetStatus{},
		signals.Decide{},
		signals.Revoke{},
		signals.ToolResult{},
		signals.InputAnswers{},
		signals.CompleteTask{},
		signals.CancelTask{},
		signals.Schedule{},
		signals.Restore{},
	} {
		t.Run(reflect.TypeOf(payload).Name(), func(t *testing.T) {
			filled := reflect.New(reflect.TypeOf(payload)).Elem()
			fill(filled)
			clean := payloadOf(r, filled.Interface())
			assert.NotEmpty(t, found(t, filled.Interface()))
			for _, path := range found(t, clean) {
				assert.Regexp(t, kept, path, "has a card number")
			}
			assert.Equal(t, clean, payloadOf(r, clean), "redacted twice")
			assert.IsType(t, payload, clean)
		})
	}
}

func TestPayloadOfOthers(t *testing.T) {
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}})
	require.NoError(t, err)
	assert.Equal(t, 3, Payload(r, 3))
	assert.Equal(t, signals.Control{Reason: card}, Payload[signals.Control](nil, signals.Control{Reason: card}))
	assert.Equal(t, signals.Control{Reason: "[card]"}, Payload(r, signals.Control{Reason: card}))
}

// fill sets each field to a text with a card number.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes([]byte(`{"text":"` + card + `","number":` + card + `,"threadId":"` + card + `","senderId":"` + card + `"}`))
		return
	case map[string]any:
		v.Set(reflect.ValueOf(map[string]any{"text": card}))
		return
	case event.EnvMetadata:
		v.Set(reflect.ValueOf(event.EnvMetadata{
			TriggerSessionID: card, TriggerAgentID: card, TriggerAgentName: card, EnvName: card, Source: card,
			Extra: map[string]json.RawMessage{"x": json.RawMessage(`"` + card + `"`)},
		}))
		return
	case time.Time:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(card)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one)
		v.SetMapIndex(reflect.ValueOf("x"), one)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// found returns the paths of the fields that have a card number.
func found(t *testing.T, payload any) (paths []string) {
	t.Helper()
	raw, err := json.Marshal(payload)
	require.NoError(t, err)
	var value any
	require.NoError(t, json.Unmarshal(raw, &value))
	var look func(path string, v any)
	look = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, one := range v {
				look(path+"."+key, one)
			}
		case []any:
			for _, one := range v {
				look(path+"[]", one)
			}
		case string:
			if v == card {
				paths = append(paths, path[1:])
			}
		case float64:
			if v > 1e15 {
				paths = append(paths, path[1:])
			}
		}
	}
	look("", value)
	slices.Sort(paths)
	return paths
}
