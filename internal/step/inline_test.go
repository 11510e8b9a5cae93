package step

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// inlineSet are inline hooks that do what their names say.
func inlineSet(t *testing.T, change func(*hook.Hook), names ...string) *hook.Set {
	t.Helper()
	var hooks []hook.Hook
	for _, name := range names {
		h := hook.Inline(name, func(c hook.Context, e event.Event) (hook.Result, error) {
			m := e.(event.MessageEvent)
			switch strings.TrimRight(c.Hook, "0123456789") {
			case "fail":
				return hook.Result{}, errors.New(strings.Repeat("no ", 5000))
			case "panic":
				panic("oh")
			case "respond":
				return hook.Respond(hook.Response{Content: c.Hook}, hook.Response{Content: "again"}), nil
			case "replace":
				m.Message.Content += " " + c.Hook
				return hook.Replace(m), nil
			}
			return hook.Pass(), nil
		})
		if change != nil {
			change(&h)
		}
		hooks = append(hooks, h)
	}
	set, err := hook.NewSet(hook.Config{Hooks: hooks})
	require.NoError(t, err)
	return set
}

func TestInline(t *testing.T) {
	open := func(h *hook.Hook) { h.OnFailure = hook.FailOpen }
	for _, tc := range []struct {
		names   []string
		change  func(*hook.Hook)
		outcome event.Outcome
		by      string
		silent  bool
		asked   int
		content string
	}{
		{[]string{"pass", "pass2"}, nil, event.OutcomePassed, "", true, 2, ""},
		{[]string{"replace1", "replace2"}, nil, event.OutcomeReplaced, "", false, 2, "hello replace1 replace2"},
		{[]string{"replace", "respond", "replace2"}, nil, event.OutcomeResponded, "respond", false, 2, ""},
		{[]string{"replace", "fail", "replace2"}, nil, event.OutcomeFailed, "fail", false, 2, ""},
		{[]string{"panic", "pass"}, nil, event.OutcomeFailed, "panic", false, 1, ""},
		{[]string{"fail", "panic", "replace"}, open, event.OutcomeReplaced, "", false, 3, "hello replace"},
		{[]string{"fail", "pass"}, open, event.OutcomePassed, "", false, 2, ""},
	} {
		t.Run(strings.Join(tc.names, " "), func(t *testing.T) {
			set := inlineSet(t, tc.change, tc.names...)
			seen := event.MessageEvent{CreatedBy: event.CreatedByUser, ThreadID: "t1", Message: event.NewMessage{SenderID: "ann", SenderType: event.CreatedByUser, Content: "hello"}}
			d := Inline(set, set.Specs(), hook.Context{ThreadID: "t1"}, seen)
			require.Equal(t, tc.outcome, d.Outcome)
			require.Equal(t, tc.by, d.By)
			require.Equal(t, tc.silent, d.Silent, "S0-11 what passes leaves no record")
			require.Len(t, d.Hooks, tc.asked)
			raw, err := json.Marshal(d)
			require.NoError(t, err)
			require.Less(t, len(raw), 20<<10)
			if tc.content == "" {
				require.Nil(t, d.Event)
			} else {
				require.Equal(t, tc.content, replaced(t, d).Message.Content, "S2-33 each sees what the one before it has returned")
			}
			if tc.outcome == event.OutcomeResponded {
				require.Equal(t, []hook.Response{{Content: "respond"}, {Content: "again"}}, d.Responses, "S0-17 S0-20 a response wins over what is returned")
			} else {
				require.Empty(t, d.Responses)
			}
			require.Equal(t, tc.outcome == event.OutcomeFailed, d.Error != "")
			require.Equal(t, "hello", seen.Message.Content, "what was seen stays as it is")
			require.Equal(t, d, Inline(set, set.Specs(), hook.Context{ThreadID: "t1"}, seen), "S0-36 the same each time")
		})
	}
}

// TestInlineThatIsNotThere: another worker had it.
func TestInlineThatIsNotThere(t *testing.T) {
	for mode, want := range map[hook.FailureMode]event.Outcome{hook.FailClosed: event.OutcomeFailed, hook.FailOpen: event.OutcomePassed} {
		specs := []hook.Spec{{Name: "gone", Kind: hook.KindInline, OnFailure: mode}}
		for _, set := range []*hook.Set{nil, inlineSet(t, nil, "other")} {
			d := Inline(set, specs, hook.Context{}, event.MessageEvent{CreatedBy: event.CreatedByUser, ThreadID: "t1", Message: event.NewMessage{SenderID: "ann", SenderType: event.CreatedByUser, Content: "hello"}})
			require.Equal(t, want, d.Outcome, "S0-23")
			require.Contains(t, d.Hooks[0].Error, "this worker does not have it")
		}
	}
}

// replaced returns the message that the hooks put in the place of another.
func replaced(t *testing.T, d HookDecision) event.MessageEvent {
	t.Helper()
	e, err := event.Unmarshal(d.Event)
	require.NoError(t, err)
	return e.(event.MessageEvent)
}
