package scripted_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
)

func asked(model, text string) llm.Request {
	return llm.Request{Model: model, Messages: []llm.Message{{Role: event.RoleUser, Content: text}}}
}

func says(t *testing.T, m *scripted.Model, req llm.Request) string {
	t.Helper()
	var streamed strings.Builder
	out, err := m.Generate(t.Context(), req, func(d llm.Delta) { streamed.WriteString(d.Text) })
	require.NoError(t, err)
	require.Equal(t, out.Content, streamed.String(), "the stream is the reply")
	return out.Content
}

func TestRepliesInOrder(t *testing.T) {
	m := scripted.New(scripted.Say("one"), scripted.Say(" two  words\n"))
	m.Add(scripted.Say("three"))
	require.Equal(t, "one", says(t, m, asked("a", "x")))
	require.Equal(t, " two  words\n", says(t, m, asked("b", "y")))
	require.Equal(t, []string{`say "three"`}, m.Left())
	require.Equal(t, "three", says(t, m, asked("a", "z")))
	require.Empty(t, m.Left())
	require.Len(t, m.Requests(), 3)
	require.Equal(t, "y", m.Requests()[1].Messages[0].Content)
}

func TestRepliesByRequest(t *testing.T) {
	m := scripted.New(
		scripted.Say("the depot").For("depot"),
		scripted.Say("about money").For("clerk").On("euros"),
		scripted.Say("opened").OnEvent("shop.opened"),
		scripted.Say("the clerk").For("clerk"),
	)
	require.Equal(t, "the clerk", says(t, m, asked("clerk", "where is it?")))
	require.Equal(t, "opened", says(t, m, asked("clerk", "Process event: shop.opened")))
	require.Equal(t, "about money", says(t, m, asked("clerk", "5 euros back?")))
	require.Equal(t, "the depot", says(t, m, asked("depot", "5 euros")))
}

func TestCalls(t *testing.T) {
	m := scripted.New(scripted.Call("refund", map[string]any{"order": "A-1"}).And("look", `not json`).And("now", nil))
	out, err := m.Generate(t.Context(), asked("clerk", "x"), nil)
	require.NoError(t, err)
	require.Equal(t, llm.TypeToolCalls, out.Type)
	require.Equal(t, llm.FinishToolCalls, out.FinishReason)
	var calls []event.Function
	ids := map[string]bool{}
	for _, c := range out.ToolCalls {
		calls, ids[c.ID] = append(calls, c.Function), true
	}
	require.Equal(t, []event.Function{{Name: "refund", Arguments: `{"order":"A-1"}`}, {Name: "look", Arguments: "not json"}, {Name: "now", Arguments: "{}"}}, calls)
	require.Len(t, ids, 3)
}

func TestAndKeepsTheReplyBefore(t *testing.T) {
	one := scripted.Call("a", nil)
	two, other := one.And("b", nil), one.And("c", nil)
	require.Len(t, one.Calls, 1)
	require.Equal(t, "b", two.Calls[1].Tool)
	require.Equal(t, "c", other.Calls[1].Tool)
}

// TestMismatch: the error says what was asked and what was expected, and is reported once.
func TestMismatch(t *testing.T) {
	m := scripted.New(scripted.Say("hello").For("depot"), scripted.Call("refund", map[string]int{"euros": 5}).On("refund"), scripted.Say("x").OnEvent("opened"))
	var reported []error
	m.OnMismatch(func(err error) { reported = append(reported, err) })
	_, err := m.Generate(t.Context(), asked("clerk", "Where is it?"), nil)
	require.EqualError(t, err, `scripted: no reply fits: model "clerk" was asked by user "Where is it?"; the script expects: `+
		`for "depot" say "hello"; on "refund" call refund {"euros":5}; on event "opened" say "x"`)
	var e *llm.Error
	require.ErrorAs(t, err, &e)
	require.False(t, e.Retryable)
	require.Equal(t, scripted.CodeMismatch, e.Code)
	require.Equal(t, []error{err}, reported)

	_, err = scripted.New().Generate(t.Context(), asked("clerk", "x"), nil)
	require.EqualError(t, err, `scripted: no reply fits: model "clerk" was asked by user "x"; the script is at its end`)

	var many []scripted.Reply
	for i := range 7 {
		many = append(many, scripted.Say(fmt.Sprint(i)).For("other"))
	}
	_, err = scripted.New(many...).Generate(t.Context(), llm.Request{}, nil)
	require.ErrorContains(t, err, `for "other" say "4"; and 2 more`)
}

func TestFailures(t *testing.T) {
	cause := errors.New("on fire")
	for _, tt := range []struct {
		reply     scripted.Reply
		class     string
		retryable bool
	}{
		{scripted.RateLimited(time.Minute), llm.ClassRateLimit, true},
		{scripted.Overloaded(), llm.ClassServerError, true},
		{scripted.ContextOverflow(), llm.ClassContextOverflow, false},
		{scripted.Say("Let me").BreakOff(), llm.ClassUnreachable, true},
		{scripted.Fail(&llm.Error{StatusCode: 401, Cause: cause}), llm.ClassRefused, false},
	} {
		out, err := scripted.New(tt.reply).Generate(t.Context(), asked("a", "x"), nil)
		var e *llm.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, tt.class, e.Class())
		require.Equal(t, tt.retryable, e.Retryable)
		require.Equal(t, tt.reply.Text, out.Content, "what was streamed before")
	}
}

func TestAnswers(t *testing.T) {
	m := scripted.New(scripted.Answer(func(req llm.Request) scripted.Reply {
		return scripted.Say("you said " + req.Messages[0].Content)
	}))
	require.Equal(t, "you said a", says(t, m, asked("x", "a")))
	require.Equal(t, "you said b", says(t, m, asked("x", "b")))
	require.Empty(t, m.Left())
}

// TestGate: the test decides how long a reply takes, before its first word and after its last one.
func TestGate(t *testing.T) {
	begin, end := scripted.NewGate(), scripted.NewGate()
	m := scripted.New(scripted.Reply{Text: "hello", Hold: begin, HoldEnd: end})
	words, done := make(chan string, 10), make(chan error, 1)
	go func() {
		_, err := m.Generate(t.Context(), asked("a", "x"), func(d llm.Delta) { words <- d.Text })
		done <- err
	}()
	<-begin.Reached()
	require.Empty(t, words)
	begin.Open()
	<-end.Reached()
	require.Equal(t, "hello", <-words)
	require.Empty(t, done)
	end.Open()
	end.Open()
	require.NoError(t, <-done)

	ctx, cancel := context.WithCancel(t.Context())
	held := scripted.NewGate()
	go func() {
		<-held.Reached()
		cancel()
	}()
	_, err := scripted.New(scripted.Reply{Hold: held}).Generate(ctx, asked("a", "x"), nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestReadPayload(t *testing.T) {
	req := llm.Request{Messages: []llm.Message{
		{Role: event.RoleTool, Content: `{"type":"file.changed","payload":{"path":"a.txt"}}`}, {Role: event.RoleUser, Content: "Process event: file.changed"},
	}}
	var changed struct{ Path string }
	require.NoError(t, scripted.ReadPayload(req, &changed))
	require.Equal(t, "a.txt", changed.Path)
	require.ErrorContains(t, scripted.ReadPayload(asked("a", "hello"), &changed), "an event that it was told nothing of")
	require.Error(t, scripted.ReadPayload(req, new(int)), "another type")
}
