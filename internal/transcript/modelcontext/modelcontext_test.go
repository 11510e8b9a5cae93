package modelcontext_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/internal/transcript/modelcontext"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

var key = store.Key{Namespace: "ns", ThreadID: "t1"}

// thread is a thread with the messages of a long conversation.
type thread struct {
	t *testing.T
	teststore.Store
	head int64
}

func newThread(t *testing.T) *thread {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &thread{t: t, Store: db}
}

func (th *thread) put(records ...event.Record) {
	th.t.Helper()
	done, err := th.Append(th.t.Context(), key, store.Batch{Records: records})
	require.NoError(th.t, err)
	th.head = done.Head
}

func message(m event.Message) event.Record {
	return event.NewRecord(m.ID, event.TypeMessage, "", "", time.Now(), m)
}

func said(id, content string) event.Record {
	return message(event.Message{ID: id, SenderID: "ann", SenderType: event.CreatedByUser, Content: content})
}

func replied(id, content string) event.Record {
	return message(event.Message{ID: id, SenderID: "bot", SenderType: event.CreatedByAgent, AgentID: "bot", Content: content})
}

func decided(id string, d event.Interception) event.Record {
	d.EventID, d.EventType = id, event.TypeMessage
	return event.NewRecord(recordid.Interception(id), event.TypeHook, "", id, time.Now(), d)
}

// ask describes a request of bot with the transcript, after change.
func (th *thread) ask(limit int, change func([]llm.Message) []llm.Message) (event.LLMCall, llm.Request) {
	th.t.Helper()
	at := event.ModelContext{Head: th.head, Limit: limit}
	newest, err := transcript.Read(th.t.Context(), th, key, modelcontext.Window(at))
	require.NoError(th.t, err)
	req := llm.Request{Model: "small", Tools: []llm.Tool{{Name: "sum", Description: "Adds.", Parameters: []byte(`{"type":"object"}`)}}}
	for i := len(newest) - 1; i >= 0; i-- {
		if m, ok := modelcontext.SeenBy("bot", newest[i].Message); ok {
			req.Messages = append(req.Messages, m)
		}
	}
	req.Messages = append([]llm.Message{{Role: "system", Content: "Be brief."}}, change(req.Messages)...)
	saw, common := modelcontext.Describe("bot", req, newest, at)
	th.put(event.NewRecord(saw.Prompt, event.TypePrompt, "", "", time.Now(), common))
	return event.LLMCall{Agent: "bot", MessageID: "r1", Context: saw}, req
}

func (th *thread) reproduces(call event.LLMCall, want llm.Request) {
	th.t.Helper()
	got, exact, err := modelcontext.Reproduce(th.t.Context(), th, key, call)
	require.NoError(th.t, err)
	require.True(th.t, exact)
	require.Equal(th.t, want, got)
}

func unchanged(all []llm.Message) []llm.Message { return all }

// TestContextIsSmall: an undisturbed conversation is one range, however long, and what calls have in
// common is stored once.
func TestContextIsSmall(t *testing.T) {
	th := newThread(t)
	for i := range 50 {
		th.put(said(fmt.Sprintf("u%d", i), "the same question"), replied(fmt.Sprintf("a%d", i), fmt.Sprintf("answer %d", i)))
	}
	first, req := th.ask(40, unchanged)
	require.Len(t, first.Context.Parts, 1)
	th.reproduces(first, req)
	head := th.head
	second, req := th.ask(100, unchanged)
	require.Len(t, second.Context.Parts, 1)
	th.reproduces(second, req)
	require.Equal(t, head, th.head, "nothing more was stored")
}

// TestContextAsItWas: what is posted, decided or changed later does not change what the model saw.
func TestContextAsItWas(t *testing.T) {
	th := newThread(t)
	changed := event.Message{ID: "u2", SenderID: "ann", SenderType: event.CreatedByUser, Content: "changed"}
	th.put(said("u1", "one"), said("u2", "two").WithUndecided(event.TypeMessage), said("u3", "three"))
	before, saw := th.ask(10, unchanged)
	require.Len(t, saw.Messages, 3, "the instructions, and what was decided")
	th.put(decided("u2", event.Interception{Outcome: event.OutcomeReplaced, Message: &changed}), said("u4", "four"))
	withdrawn := event.Interception{EventID: "u1", EventType: event.TypeMessage, Outcome: event.OutcomeWithdrawn}
	after, sawLater := th.ask(10, unchanged)
	th.put(event.NewRecord(recordid.Withdrawal("u1"), event.TypeHook, "", "u1", time.Now(), withdrawn))
	th.reproduces(before, saw)
	th.reproduces(after, sawLater)
	_, now := th.ask(10, unchanged)
	require.Len(t, now.Messages, 4)
	require.Equal(t, []string{"one", "three", "changed", "four"}, contents(sawLater.Messages[1:]))
	require.Equal(t, []string{"three", "changed", "four"}, contents(now.Messages[1:]))
}

func contents(messages []llm.Message) (out []string) {
	for _, m := range messages {
		out = append(out, m.Content)
	}
	return out
}

// TestContextOfAnyOrder: a conversation that leaves out, moves, repeats and adds messages is
// reproduced.
func TestContextOfAnyOrder(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			th := newThread(t)
			for i := range 12 {
				text := strings.Repeat("<é&>", rng.IntN(3))
				if rng.IntN(2) == 0 {
					th.put(said(fmt.Sprintf("u%d", i), text))
				} else {
					th.put(replied(fmt.Sprintf("a%d", i), text+fmt.Sprint(i)))
				}
			}
			call, req := th.ask(1+rng.IntN(12), func(all []llm.Message) []llm.Message {
				out := []llm.Message{}
				for i := range all {
					switch rng.IntN(6) {
					case 0:
						out = append(out, all[rng.IntN(len(all))])
					case 1:
						out = append(out, llm.Message{Role: "tool", ToolCallID: "c1", Content: "not done", IsError: true})
					case 2:
					default:
						out = append(out, all[i])
					}
				}
				return out
			})
			th.put(said("later", "later"))
			th.reproduces(call, req)
		})
	}
}

func TestContextThatCannotBeReproduced(t *testing.T) {
	th := newThread(t)
	th.put(said("u1", "one"), said("u2", "two"))
	call, _ := th.ask(10, unchanged)

	_, _, err := modelcontext.Reproduce(t.Context(), th, key, event.LLMCall{MessageID: "old"})
	require.ErrorIs(t, err, store.ErrNotFound, "the record does not tell")

	other := call
	saw := *call.Context
	other.Context = &saw
	saw.Parts = []event.ContextPart{{First: 1, Last: 99}}
	req, exact, err := modelcontext.Reproduce(t.Context(), th, key, other)
	require.NoError(t, err)
	require.False(t, exact, "it says that it is not what the model saw")
	require.Len(t, req.Messages, 1)

	saw.Prompt = "prompt.none"
	_, _, err = modelcontext.Reproduce(t.Context(), th, key, other)
	require.ErrorIs(t, err, store.ErrNotFound)
}
