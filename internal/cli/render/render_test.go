package render

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/text/term"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestTranscripts(t *testing.T) {
	for _, c := range []struct {
		name, events, golden string
		opts                 Options
	}{
		{"S1-09 thought shown, S1-10 indicator, S1-11 progress in the card, S1-12 result, S1-13 stream appended, S1-14 final", "turn", "turn", Options{}},
		{"S1-09 thought collapsed to a line", "turn", "turn.collapse", Options{Thoughts: Collapse}},
		{"S1-09 thought hidden", "turn", "turn.hide", Options{Thoughts: Hide}},
		{"colours, and hints for watchers", "turn", "turn.color", Options{Hints: true, ThreadID: "t1"}},
		{"S1-13 S1-14 the base protocol alone", "base", "base", Options{}},
		{"S1-12 a long result is collapsed, S1-15 the error is shown", "error", "error", Options{}},
		{"a reset discards the pieces, a message supersedes them, a gap is shown", "reset", "reset", Options{}},
		{"S1-11 parallel replies and calls are told apart", "parallel", "parallel", Options{}},
		{"an interrupted reply is not written twice", "interrupted", "interrupted", Options{}},
		{"what hooks have changed is written anew, with what they did", "hooks", "hooks", Options{}},
		{"what hooks have changed, in colours", "hooks", "hooks.color", Options{}},
		{"S4-77 S4-95 reminders, votes, grants, rounds, the end of an approval, and calls for clients", "approvals", "approvals", Options{Location: time.UTC}},
		{"approvals with hints for watchers", "approvals", "approvals.hints", Options{Location: time.UTC, Hints: true, ThreadID: "t1"}},
		{"what models and tools write cannot control the terminal", "hostile", "hostile", Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := shown(strings.HasSuffix(c.golden, ".color"), replay(New(c.opts), readEvents(t, c.events)))
			golden(t, c.golden, got)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// read decodes a file of testdata.
func read[T any](t *testing.T, name string) (v T) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &v))
	return v
}

func transcript(r *Renderer, events []event.AgentEvent) string {
	return shown(false, replay(r, events))
}

func replay(r *Renderer, events []event.AgentEvent) (text term.Text) {
	for _, e := range events {
		text = append(text, r.Event(e)...)
	}
	return text
}

// shown returns text as it reaches a terminal.
func shown(color bool, text term.Text) string {
	var out strings.Builder
	// Writing to memory does not fail.
	_ = term.New(&out, color).Print(text)
	return out.String()
}

func readEvents(t *testing.T, name string) []event.AgentEvent {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".jsonl"))
	require.NoError(t, err)
	defer f.Close()
	var events []event.AgentEvent
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e event.AgentEvent
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e), lines.Text())
		events = append(events, e)
	}
	return events
}

// Repeated records, as after a reconnect, are written once.
func TestTwiceIsOnce(t *testing.T) {
	events := readEvents(t, "turn")[1:16]
	r := New(Options{})
	first := transcript(r, events)
	require.Contains(t, first, "Two files.")
	require.Empty(t, transcript(r, events))

	events = readEvents(t, "approvals")
	require.NotEmpty(t, transcript(r, events[1:]))
	require.Empty(t, transcript(r, events[1:]), "each reminder, vote and round once")
}

// Both forms of a changed message have been written: neither is written again.
func TestChangedTwiceIsOnce(t *testing.T) {
	events := readEvents(t, "hooks")
	r := New(Options{})
	require.Contains(t, transcript(r, events), "↻ ")
	for _, e := range events {
		if e.Type != event.EventStatus && e.Type != event.EventToolProgress {
			require.Empty(t, r.Event(e), "%s", e.Type)
		}
	}
}

func TestSeen(t *testing.T) {
	whole := event.Message{ID: "m", SenderID: "demo", SenderType: event.CreatedByAgent, Content: "a long text"}
	short, changed := whole, whole
	short.Content, short.Truncated = "a long", true
	changed.Content = "another text"
	show := func(r *Renderer, m event.Message) string {
		return shown(false, r.Event(event.AgentEvent{Type: event.EventMessage, Message: &m}))
	}

	r := New(Options{})
	require.False(t, r.Begun("m"))
	require.False(t, r.Seen(whole))
	require.NotEmpty(t, show(r, whole))
	require.True(t, r.Begun("m"))
	require.True(t, r.Seen(whole))
	require.True(t, r.Seen(short), "of a shortened copy it counts that it was written at all")
	require.False(t, r.Seen(changed))
	require.True(t, r.Changes(changed))
	require.False(t, r.Changes(whole))
	require.Empty(t, show(r, short))
	require.Equal(t, "↻ demo › another text\n", show(r, changed))
	require.True(t, r.Seen(changed))

	r = New(Options{})
	require.Contains(t, show(r, short), "a long")
	require.False(t, r.Changes(whole))
	require.Empty(t, show(r, whole), "the whole of what was shortened is no other message")
	require.Equal(t, "↻ demo › another text\n", show(r, changed))

	r = New(Options{})
	r.MarkSeen(whole)
	require.Empty(t, show(r, whole))
	require.Equal(t, "↻ demo › another text\n", show(r, changed))
	result := event.Message{ID: "c1.result", SenderType: event.CreatedByTool, ToolCallID: "c1", ToolName: "sh", Content: "out"}
	r.MarkSeen(result)
	require.Empty(t, r.Event(event.AgentEvent{Type: event.EventToolResult, ToolName: "sh", ToolCallID: "c1", Output: "out"}))
	require.Equal(t, "↻ ✓ sh\n  another\n", r.Event(event.AgentEvent{Type: event.EventToolResult, ToolName: "sh", ToolCallID: "c1", Output: "another"}).String())
}

// The text does not depend on how a stream is cut into pieces.
func TestPiecesDoNotMatter(t *testing.T) {
	const text = "The quick brown fox,\nand the lazy dog.\n\nEnd"
	whole := func(size int) string {
		r := New(Options{})
		var events []event.AgentEvent
		for i := 0; i < len(text); i += size {
			events = append(events, event.AgentEvent{
				Type: event.EventStream, Agent: "demo", MessageID: "m", Attempt: 1, Content: text[i:min(i+size, len(text))],
			})
		}
		return transcript(r, append(events, event.AgentEvent{Type: event.EventMessage, Message: &event.Message{
			ID: "m", SenderID: "demo", SenderType: event.CreatedByAgent, Content: text,
		}}))
	}
	for size := 1; size <= len(text); size++ {
		require.Equal(t, "demo › "+text+"\n", whole(size), "pieces of %d", size)
	}
}

func TestQuestion(t *testing.T) {
	r := New(Options{})
	req := event.ApprovalRequest{ToolCallID: "c1", ToolName: "shell_cmd", Arguments: `{"command":"ls"}`}
	require.Equal(t, `shell_cmd {"command":"ls"} wants to run. Allow? [y]es once / [s]ession / [n]o / reason`+"\n", r.Question(req).String())
	require.Empty(t, r.Event(event.AgentEvent{Type: event.EventApprovalRequest, Request: &req}))
}

// TestThoughtAlone: a reply with thoughts only ends with its turn.
func TestThoughtAlone(t *testing.T) {
	r := New(Options{})
	piece := event.AgentEvent{Type: event.EventThought, Agent: "demo", MessageID: "m", Content: "hm"}
	require.Equal(t, "demo thinks › hm", r.Event(piece).String())
	require.Equal(t, "\n", r.Event(event.AgentEvent{Type: event.EventFinal, Agent: "demo", MessageID: "m"}).String())
	require.True(t, r.AtLineStart())
	reply := event.Message{ID: "m", SenderID: "demo", SenderType: event.CreatedByAgent, Content: "yes"}
	require.Equal(t, "demo › yes\n", r.Event(event.AgentEvent{Type: event.EventMessage, Message: &reply}).String())
}

func TestNotesBreakLines(t *testing.T) {
	r := New(Options{})
	piece := event.AgentEvent{Type: event.EventStream, Agent: "demo", MessageID: "m", Content: "half"}
	require.Equal(t, "demo › half", r.Event(piece).String())
	require.Equal(t, "\nconnection lost\n", r.Warn("connection lost").String())
	require.Equal(t, "demo › half", r.Event(piece).String())
	require.Equal(t, "\n", r.Break().String())
	require.Empty(t, r.Break())
}

// TestFallback: one line says which model failed, and which one replies instead.
func TestFallback(t *testing.T) {
	got := shown(false, New(Options{}).Event(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{
		Status: event.StatusRetrying, Detail: "a/b failed (overloaded); c/d is called instead", Retry: &event.Retry{Next: "c/d"},
	}}))
	require.Equal(t, "· another model is called: a/b failed (overloaded); c/d is called instead\n", got)
}
