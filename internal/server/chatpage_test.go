package server_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/chat/agui"
	"github.com/threadmill/threadmill/internal/chat/aisdk"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store"
)

// busyThread stores turns at random in a thread: steered, with tools and requests, of environment events, failed ones that go
// on after others, and messages that hooks change when others have followed.
type busyThread struct {
	*world
	*rand.Rand
	count int
	turns []busyTurn
}

type busyTurn struct{ event, said, call string }

func (b *busyThread) id() string {
	b.count++
	return fmt.Sprintf("e%d", b.count)
}

func written(id, content string) event.Message {
	return event.Message{ID: id, ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: content}
}

// begin stores the first records of a turn.
func (b *busyThread) begin() {
	t := busyTurn{event: b.id()}
	switch b.IntN(6) {
	case 0: // an environment event
		b.put("t1", record(event.TypeEnv, event.EnvEvent{ID: t.event, Type: "door"}).In(t.event))
	case 1: // an event that viewers see nothing of
		b.put("t1", record("custom", object{}).In(t.event))
	default:
		t.said = t.event
		b.put("t1", record(event.TypeMessage, written(t.event, "question "+t.event)).In(t.event))
	}
	b.turns = append(b.turns, t)
	for range b.IntN(6) {
		b.goOn(&b.turns[len(b.turns)-1])
	}
}

// goOn stores a record of a turn.
func (b *busyThread) goOn(t *busyTurn) {
	id := b.id()
	switch b.IntN(8) {
	case 0: // a message joins it
		t.said = id
		b.put("t1", record(event.TypeMessage, written(id, "steer "+id)).In(t.event))
	case 1:
		reply := replied(id, "reply "+id+strings.Repeat(" word", b.IntN(50)))
		b.put("t1", reply.In(t.event))
	case 2:
		t.call = "call_" + id
		calls := record(event.TypeToolCall, event.ToolCallEvent{AgentName: "bot", ToolCalls: []event.ToolCall{{ID: t.call, Function: event.Function{Name: "note", Arguments: "{}"}}}})
		calls.ID = id + ".calls"
		b.put("t1", calls.In(t.event))
	case 3:
		if t.call != "" {
			b.put("t1", record(event.TypeMessage, event.Message{ID: id, SenderType: event.CreatedByTool, Role: event.RoleTool, ToolCallID: t.call, Content: "result"}).In(t.event))
		}
	case 4:
		if t.call != "" {
			b.put("t1", record(event.TypeApprovalRequest, event.ApprovalRequest{ToolCallID: t.call, ToolName: "note", Agent: "bot", Arguments: "{}"}).In(t.event))
		}
	case 5: // a hook changes the last message of a person
		if t.said != "" {
			changed := written(t.said, "changed by "+id)
			b.put("t1", record(event.TypeHook, event.Interception{EventID: t.said, EventType: event.TypeMessage, Outcome: event.OutcomeReplaced, Hooks: []event.HookOutcome{}, Message: &changed}).In(t.event))
		}
	case 6:
		b.put("t1", record(event.TypeTurnEnded, event.TurnEnded{EventID: t.event, Status: "failed", Error: "no"}).In(t.event))
	case 7: // a record outside turns
		b.put("t1", record(event.TypeStatus, event.StatusChange{Status: event.StatusRetrying}))
	}
}

func (b *busyThread) step() {
	if len(b.turns) == 0 || b.IntN(3) > 0 {
		b.begin()
		return
	}
	b.goOn(&b.turns[b.IntN(len(b.turns))])
}

// whole returns the messages of all events in their order, in both protocols.
func (b *busyThread) whole() (sdk, run []json.RawMessage) {
	b.t.Helper()
	key := store.Key{Namespace: "default", ThreadID: "t1"}
	f, err := feed.New(feed.Config{Store: b.store, Stream: b.stream})
	require.NoError(b.t, err)
	var all chat.Chat
	for at := (feed.Cursor{}); ; {
		items, next, err := f.Page(b.ctx, key, at, 100)
		require.NoError(b.t, err)
		for _, item := range items {
			all.Apply(item.Event)
		}
		if next == nil {
			break
		}
		at = *next
	}
	thread, err := b.store.Thread(b.ctx, key)
	require.NoError(b.t, err)
	messages, _ := agui.Snapshot(&all)
	return raws(b.t, aisdk.Messages(aisdk.Config{ThreadID: "t1"}, &all, feed.Cursor{Seq: thread.Head}.String())), raws(b.t, messages)
}

func raws[T any](t testing.TB, list []T) (out []json.RawMessage) {
	for _, one := range list {
		raw, err := json.Marshal(one)
		require.NoError(t, err)
		out = append(out, raw)
	}
	return out
}

// pages reads all pages and joins them. Between two pages, it calls meanwhile.
func (b *busyThread) pages(path string, limit int, meanwhile func()) (joined []json.RawMessage) {
	b.t.Helper()
	for cursor := ""; ; {
		got := b.call("GET", fmt.Sprintf("%s?limit=%d&cursor=%s", path, limit, cursor), nil)
		require.Equal(b.t, http.StatusOK, got.status, got.text)
		var page struct {
			Messages []json.RawMessage `json:"messages"`
			Previous string            `json:"previous"`
		}
		require.NoError(b.t, json.Unmarshal([]byte(got.text), &page))
		if strings.HasPrefix(path, "/v1/chat/") {
			assert.LessOrEqual(b.t, len(page.Messages), limit+1)
		}
		joined = slices.Concat(page.Messages, joined)
		if cursor = page.Previous; cursor == "" {
			return joined
		}
		meanwhile()
	}
}

func ids(t testing.TB, messages []json.RawMessage) (out []string) {
	for _, raw := range messages {
		var m struct {
			ID string `json:"id"`
		}
		require.NoError(t, json.Unmarshal(raw, &m))
		out = append(out, m.ID)
	}
	return out
}

// TestChatPages: pages joined together are the whole, whatever lies between the records of a turn.
func TestChatPages(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			b := &busyThread{world: newWorld(t), Rand: rand.New(rand.NewPCG(seed, 1))}
			b.open("t1")
			for range 60 {
				b.step()
			}
			sdk, run := b.whole()
			require.Greater(t, len(sdk), 20)
			for _, limit := range []int{1, 3, 50} {
				for path, want := range map[string][]json.RawMessage{"/v1/chat/t1/messages": sdk, "/v1/ag-ui/t1/messages": run} {
					got := b.pages(path, limit, func() {})
					require.Equal(t, ids(t, want), ids(t, got), "%s by %d", path, limit)
					for i := range want {
						require.JSONEq(t, string(want[i]), string(got[i]), "%s by %d", path, limit)
					}
				}
			}

			// Messages that are new, and those that got their first part meanwhile, are on a newer page.
			before := ids(t, sdk)
			grown := ids(t, b.pages("/v1/chat/t1/messages", 2, b.step))
			assert.Len(t, slices.Compact(slices.Sorted(slices.Values(grown))), len(grown), "nothing twice")
			assert.Subset(t, grown, before, "nothing missing")
			now, _ := b.whole()
			order := slices.DeleteFunc(ids(t, now), func(id string) bool { return !slices.Contains(grown, id) })
			assert.Equal(t, order, grown)
		})
	}
}

// TestChatPageBounds: large messages make short pages, and each page has one.
func TestChatPageBounds(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	for i := range 6 {
		id := fmt.Sprint("m", i)
		w.put("t1", record(event.TypeMessage, written(id, strings.Repeat("x", feed.PageBytes/2+1))).In(id))
	}
	got := w.call("GET", "/v1/chat/t1/messages", nil).ok(t, http.StatusOK)
	assert.Len(t, got.body["messages"], 2)
	assert.Equal(t, "5", got.body["previous"])
	assert.Equal(t, []string{"query.cursor"}, w.call("GET", "/v1/chat/t1/messages?cursor=x", nil).problem(t, http.StatusUnprocessableEntity))
	assert.Equal(t, []string{"query.cursor"}, w.call("GET", "/v1/chat/t1/messages?cursor=0", nil).problem(t, http.StatusUnprocessableEntity))
	assert.Equal(t, []string{"query.limit"}, w.call("GET", "/v1/ag-ui/t1/messages?limit=201", nil).problem(t, http.StatusUnprocessableEntity))
	assert.Empty(t, w.call("GET", "/v1/chat/t1/messages?cursor=1", nil).ok(t, http.StatusOK).body["messages"])
	w.call("GET", "/v1/ag-ui/nobody/messages", nil).problem(t, http.StatusNotFound)
	refused := w.call("POST", "/v1/ag-ui/connect", object{"threadId": "t1", "runId": "r", "forwardedProps": object{"limit": 201}})
	assert.Equal(t, http.StatusUnprocessableEntity, refused.status)
	assert.Contains(t, refused.text, "forwardedProps.limit")
}
