package aisdk_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/chat/aisdk"
	"github.com/threadmill/threadmill/internal/chat/chattest"
)

// stream is a stream of the answer to the message "e".
type stream struct {
	*testing.T
	*aisdk.Encoder
	chat *chat.Chat
}

func newStream(t *testing.T, version int) *stream {
	cfg := aisdk.Config{ThreadID: "t", EventID: "e", MessageID: "e", Static: []string{"known"}, Version: version}
	return &stream{t, aisdk.New(cfg), chattest.Read(chattest.Asked("e"))}
}

func (s *stream) answer() *chat.Message { return s.chat.Answer("e") }

// follow returns the chunks of events that arrive one by one, one a line.
func (s *stream) follow(events ...event.AgentEvent) string {
	s.Helper()
	var lines []string
	for _, e := range events {
		chattest.Apply(s.chat, e)
		lines = append(lines, s.lines(s.Sync(s.answer()))...)
		lines = append(lines, s.lines(s.Progress(e))...)
	}
	return strings.Join(lines, "\n")
}

func (s *stream) lines(chunks []aisdk.Chunk) []string {
	var out []string
	for _, c := range chunks {
		data, err := json.Marshal(c)
		require.NoError(s, err)
		out = append(out, string(data))
	}
	return out
}

func piece(content string, attempt int) event.AgentEvent {
	return chattest.Piece("r", "bot", content, attempt)
}

func said(content string) event.AgentEvent { return chattest.Said("r", "bot", content) }

func TestTextArrivesOnce(t *testing.T) {
	const begins = `{"type":"start-step"}` + "\n" + `{"type":"data-agent","data":{"name":"bot"}}` + "\n" + `{"type":"text-start","id":"r"}` + "\n"
	const a, b, end = `{"type":"text-delta","id":"r","delta":"a"}` + "\n", `{"type":"text-delta","id":"r","delta":"b"}` + "\n", `{"type":"text-end","id":"r"}`
	for name, c := range map[string]struct {
		events []event.AgentEvent
		want   string
	}{
		"whole":       {[]event.AgentEvent{said("ab")}, `{"type":"text-delta","id":"r","delta":"ab"}` + "\n" + end},
		"in pieces":   {[]event.AgentEvent{piece("", 1), piece("a", 1), piece("b", 1), said("ab")}, a + b + end},
		"with a rest": {[]event.AgentEvent{piece("a", 1), said("ab")}, a + b + end},
		"late pieces": {[]event.AgentEvent{said("ab"), piece("b", 1)}, `{"type":"text-delta","id":"r","delta":"ab"}` + "\n" + end},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, begins+c.want, newStream(t, 6).follow(c.events...)) })
	}
}

func TestTextThatIsVoid(t *testing.T) {
	s := newStream(t, 6)
	s.follow(piece("a", 1))
	assert.Equal(t, `{"type":"text-end","id":"r"}
{"type":"data-reset","id":"r","data":{"messageId":"r"}}
{"type":"text-start","id":"r"}
{"type":"text-delta","id":"r","delta":"b"}
{"type":"text-end","id":"r"}`, s.follow(chattest.Reset("r", "bot", 2), piece("old", 1), piece("b", 2), said("b")))
	assert.JSONEq(t, `{"type":"data-changed","id":"r","data":{"messageId":"r","text":"changed by a hook"}}`, s.follow(said("changed by a hook")))
	s = newStream(t, 6)
	s.follow(piece("a", 1))
	assert.Contains(t, s.follow(said("b")), `data-reset`, "a hook has changed what was streamed")
}

func TestVersion7TakesTextBack(t *testing.T) {
	reset := chattest.Reset("r", "bot", 2)
	s := newStream(t, 7)
	s.follow(chattest.Thought("r", "bot", "hm", 1), piece("a", 1))
	assert.Equal(t, `{"type":"text-end","id":"r"}
{"type":"reset-step"}
{"type":"data-agent","data":{"name":"bot"}}
{"type":"text-start","id":"r"}
{"type":"text-delta","id":"r","delta":"b"}`, s.follow(reset, piece("b", 2)))
	for name, more := range map[string]event.AgentEvent{
		"a later step of another agent": chattest.Piece("other", "other", "x", 1),
		"an event of the world":         {Type: event.EventEnvironment, Env: &event.EnvEvent{ID: "w"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStream(t, 7)
			s.follow(piece("a", 1), more)
			assert.Contains(t, s.follow(reset), "data-reset", "the step has more than the reply")
		})
	}
}

func TestAgentsAreNamedWhereTheirPartsBegin(t *testing.T) {
	assert.Equal(t, `{"type":"start-step"}
{"type":"data-agent","data":{"name":"bot"}}
{"type":"text-start","id":"r"}
{"type":"text-delta","id":"r","delta":"a"}
{"type":"start-step"}
{"type":"data-agent","data":{"name":"other"}}
{"type":"text-start","id":"o"}
{"type":"text-delta","id":"o","delta":"x"}
{"type":"text-delta","id":"r","delta":"b"}
{"type":"text-end","id":"o"}
{"type":"text-end","id":"r"}`, newStream(t, 6).follow(piece("a", 1), chattest.Piece("o", "other", "x", 1), piece("b", 1), chattest.Said("o", "other", "x"), said("ab")))
}

// TestSubAgentsCalls: what a sub-agent asks has its name and a step of its own, and is settled by the decision.
func TestSubAgentsCalls(t *testing.T) {
	s := newStream(t, 6)
	s.follow(said(""), chattest.Call("r", "c", "call_agent"))
	ask := chattest.Request("s", 0)
	ask.Request.Agent = "second"
	assert.Equal(t, `{"type":"finish-step"}
{"type":"start-step"}
{"type":"data-agent","data":{"name":"second"}}
{"type":"tool-input-available","toolCallId":"s","toolName":"f","dynamic":true,"input":{}}
{"type":"tool-approval-request","toolCallId":"s","approvalId":"s"}`, strings.Join(strings.Split(s.follow(ask), "\n")[:5], "\n"))
	assert.Contains(t, s.follow(chattest.Decision("s", event.DecisionApprove, 0)), `"output":"Approved by ann. The sub-agent has the result."`)
}

// TestSubAgentsQuestions: a sub-agent's question has its name, and a step of its own like each question.
func TestSubAgentsQuestions(t *testing.T) {
	s := newStream(t, 6)
	s.follow(said(""), chattest.Call("r", "c", "call_agent"))
	ask := chattest.Question("s", 1)
	ask.Input.Agent = "second"
	got := strings.Split(s.follow(ask), "\n")
	require.Len(t, got, 5)
	assert.Equal(t, []string{`{"type":"finish-step"}`, `{"type":"start-step"}`, `{"type":"data-agent","data":{"name":"second"}}`}, got[:3])
	assert.Contains(t, got[3], `{"type":"data-input","id":"s.input.1","data":{`)
	assert.Contains(t, got[4], `{"type":"tool-input-available","toolCallId":"s.input.1","toolName":"request_input","dynamic":true,"input":{`)
	assert.Contains(t, s.follow(chattest.Withdrawal("s", 1)), `"errorText":"The question was withdrawn: the call has ended."`)
}

// TestLateStreams: a stream that begins late asks for nothing that was decided.
func TestLateStreams(t *testing.T) {
	events := []event.AgentEvent{said(""), chattest.Call("r", "c", "known"), chattest.Request("c", 0), chattest.Decision("c", event.DecisionApprove, 0)}
	for version, want := range map[int]string{
		6: `{"type":"tool-input-available","toolCallId":"c","toolName":"known","input":{}}
{"type":"tool-approval-request","toolCallId":"c","approvalId":"c"}
{"type":"tool-input-available","toolCallId":"c","toolName":"known","input":{}}`,
		7: `{"type":"tool-input-available","toolCallId":"c","toolName":"known","input":{}}
{"type":"tool-approval-request","toolCallId":"c","approvalId":"c"}
{"type":"tool-approval-response","toolCallId":"c","approvalId":"c","approved":true}`,
	} {
		s := newStream(t, version)
		for _, e := range events {
			chattest.Apply(s.chat, e)
		}
		assert.Contains(t, strings.Join(s.lines(s.Sync(s.answer())), "\n"), want)
		assert.Empty(t, s.Sync(s.answer()), "once")
	}
}

func TestEnds(t *testing.T) {
	for turn, want := range map[string]string{
		"completed":   `{"type":"finish","finishReason":"stop","messageMetadata":{"turn":"completed"}}`,
		"failed":      `{"type":"error","errorText":"why"}` + "\n" + `{"type":"finish","finishReason":"error","messageMetadata":{"turn":"failed"}}`,
		"interrupted": `{"type":"abort","reason":"why"}` + "\n" + `{"type":"finish","finishReason":"other","messageMetadata":{"turn":"interrupted"}}`,
	} {
		s := newStream(t, 6)
		s.follow(chattest.Ended(turn, "why"))
		assert.Equal(t, want, strings.Join(s.lines(s.End(s.answer())), "\n"))
		assert.Equal(t, turn, aisdk.Snapshot(aisdk.Config{}, s.answer()).Metadata.Turn)
	}
	s := newStream(t, 6)
	s.follow(said("a"), chattest.Call("r", "c", "f"), chattest.Result("c", "x"), chattest.Ended("completed", ""))
	assert.Equal(t, []string{`{"type":"finish-step"}`, `{"type":"start-step"}`, `{"type":"finish-step"}`}, s.lines(s.End(s.answer()))[:3],
		"the last step has no tools, whose outputs the client would send")
}

func TestSources(t *testing.T) {
	given := func(reply string, passages ...string) event.AgentEvent {
		r := &event.Retrieval{Agent: "bot", MessageID: reply}
		for _, id := range passages {
			r.Passages = append(r.Passages, event.Passage{ID: id, Source: id + ".md", Path: []string{"A"}})
		}
		return event.AgentEvent{Type: event.EventRetrieval, MessageID: reply, Retrieval: r}
	}
	types := func(out string) (all []string) {
		for line := range strings.SplitSeq(out, "\n") {
			var c aisdk.Chunk
			if json.Unmarshal([]byte(line), &c) == nil {
				all = append(all, strings.TrimSpace(c.Type+" "+c.SourceID))
			}
		}
		return all
	}
	after := []string{"start-step", "data-agent", "text-start", "text-delta", "text-end", "data-retrieval", "source-document p", "source-document q"}
	assert.Equal(t, after, types(newStream(t, 6).follow(given("r", "p", "q"), said("a"))))
	assert.Empty(t, newStream(t, 6).follow(given("r", "p")), "a reply that has not come")
	assert.Contains(t, newStream(t, 6).follow(given("r", "p"), said("a")),
		`{"type":"source-document","sourceId":"p","mediaType":"text/plain","title":"p.md","filename":"p.md","providerMetadata":{"threadmill":{"number":1,"document":"","index":0,"section":"A"}}}`)
	s := newStream(t, 6)
	s.follow(given("r", "p"), said("a"))
	assert.Equal(t, []string{"data-retrieval", "source-document q"}, types(s.follow(given("s", "p", "q"), chattest.Said("s", "bot", "x")))[5:], "a passage is one source of a message")
	for _, found := range []event.Retrieval{{Facts: []event.Fact{{Name: "Sarah"}}}, {Warning: "the embedder failed"}} {
		e := given("r")
		found.MessageID = "r"
		e.Retrieval = &found
		assert.Equal(t, []string{"data-retrieval"}, types(newStream(t, 6).follow(e, said(""))), "facts and warnings are no sources")
	}
	assert.NotContains(t, newStream(t, 6).follow(given("r"), said("a")), "data-retrieval", "nothing was found")
}
