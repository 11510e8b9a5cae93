package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
)

// generations are the newest versions of both generations of MCP.
var generations = []string{"2025-11-25", "2026-07-28"}

// mcpClient is a client of /mcp that notes the progress of its calls.
type mcpClient struct {
	t *testing.T
	*mcp.ClientSession

	mu    sync.Mutex
	lines []string
}

// roundTripper adds headers to requests.
type roundTripper map[string]string

func (h roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (w *world) mcpClient(t *testing.T, version, who string) *mcpClient {
	t.Helper()
	header := roundTripper{}
	if who != "" {
		header["Authorization"] = "Bearer " + who
	}
	c := &mcpClient{t: t}
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.lines = append(c.lines, req.Params.Message)
		},
	})
	session, err := client.Connect(w.ctx, &mcp.StreamableClientTransport{
		Endpoint: w.url + "/mcp", HTTPClient: &http.Client{Transport: header},
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	require.Equal(t, version, session.InitializeResult().ProtocolVersion)
	c.ClientSession = session
	return c
}

// toolResult is what a tool returned.
type toolResult struct {
	t     *testing.T
	body  object
	error string
}

func (c *mcpClient) call(name string, args object) toolResult {
	c.t.Helper()
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	params.SetProgressToken("p")
	got, err := c.CallTool(c.t.Context(), params)
	require.NoError(c.t, err)
	require.Len(c.t, got.Content, 1)
	text := got.Content[0].(*mcp.TextContent).Text
	if got.IsError {
		return toolResult{t: c.t, error: text}
	}
	out := toolResult{t: c.t, body: got.StructuredContent.(object)}
	var same object
	require.NoError(c.t, json.Unmarshal([]byte(text), &same))
	require.Equal(c.t, out.body, same, "the text of clients that read no structured content")
	return out
}

func (r toolResult) ok() object {
	r.t.Helper()
	require.Empty(r.t, r.error)
	return r.body
}

func (r toolResult) fails(says string) {
	r.t.Helper()
	require.Contains(r.t, r.error, says)
	require.Nil(r.t, r.body)
}

// in puts a record into the turn of an event.
func in(eventID string, r event.Record, id string) event.Record {
	r.ID = id
	return r.In(eventID)
}

// asks makes the agent of a world answer each message with "re: " and the message.
func (w *world) answers() {
	w.threads.posted = func(id string, p signals.Post) { w.answer(id, p) }
}

func (w *world) question(id string, p signals.Post) string {
	var m event.NewMessage
	require.NoError(w.t, json.Unmarshal(p.Payload, &m))
	w.put(id, in(p.ID, record(event.TypeMessage, event.Message{
		ID: p.ID, ThreadID: id, SenderID: m.SenderID, SenderType: event.CreatedByUser, Role: event.RoleUser, Content: m.Content,
	}), p.ID))
	return m.Content
}

func (w *world) answer(id string, p signals.Post) {
	w.reply(id, p.ID, "re: "+w.question(id, p))
}

// reply ends the turn of an event with a reply.
func (w *world) reply(id, eventID, text string) {
	reply := recordid.Reply(eventID, 0, 1)
	w.put(id,
		in(eventID, record(event.TypeMessage, event.Message{ID: reply, ThreadID: id, SenderID: "bot", AgentID: "bot", SenderType: event.CreatedByAgent, Role: event.RoleAssistant, Content: text}), reply),
		in(eventID, record(event.TypeFinal, event.Final{Agent: "bot", MessageID: reply}), recordid.Final(reply)),
		in(eventID, record(event.TypeTurnEnded, event.TurnEnded{EventID: eventID, Status: "completed"}), recordid.TurnEnded(eventID)),
	)
}

// eachGeneration runs a test with a client of each generation of the protocol.
func eachGeneration(t *testing.T, test func(t *testing.T, version string)) {
	for _, version := range generations {
		t.Run(version, func(t *testing.T) { test(t, version) })
	}
}

func TestMCPAsk(t *testing.T) {
	eachGeneration(t, func(t *testing.T, version string) {
		w := newWorld(t, withBadges)
		w.answers()
		c := w.mcpClient(t, version, "ann read post")
		got := c.call("ask_agent", object{"message": "hello", "agent": "bot"}).ok()
		require.Equal(t, "completed", got["status"])
		require.Equal(t, "re: hello", got["text"])
		thread, eventID := got["thread"].(string), got["event"].(string)
		require.Contains(t, string(w.threads.opens[0].First.Payload), `"senderId":"ann"`, "the sender is the API key")
		require.Equal(t, []string{"bot"}, w.threads.opens[0].Agents)

		again := c.call("wait_for_turn", object{"thread": thread, "event": eventID}).ok()
		require.Equal(t, got, again)

		got = c.call("ask_agent", object{"message": "more", "thread": thread, "agent": "bot"}).ok()
		require.Equal(t, "re: more", got["text"])
		require.Equal(t, thread, got["thread"])
		require.Equal(t, []string{"bot"}, w.threads.posts[0].Agents)

		posted := c.call("post_message", object{"message": "third", "thread": thread, "requestId": "request-3"}).ok()
		require.Equal(t, "request-3", posted["event"])
		require.Equal(t, "re: third", c.call("wait_for_turn", object{"thread": thread, "event": "request-3"}).ok()["text"])

		opened := c.call("open_thread", object{"thread": "mine", "message": "hi", "title": "The harbour"}).ok()
		require.Equal(t, "The harbour", w.threads.opens[len(w.threads.opens)-1].Title)
		require.Equal(t, "mine", opened["thread"])
		require.Equal(t, "re: hi", c.call("wait_for_turn", object{"thread": "mine", "event": opened["event"]}).ok()["text"])

		page := c.call("read_thread", object{"thread": thread, "limit": 3}).ok()
		require.Len(t, page["messages"], 3)
		first := page["messages"].([]any)[0].(object)
		require.Equal(t, "hello", first["text"])
		require.Equal(t, "ann", first["sender"])
		page = c.call("read_thread", object{"thread": thread, "cursor": page["next"]}).ok()
		require.Equal(t, "re: more", page["messages"].([]any)[0].(object)["text"])
		require.Len(t, c.call("list_threads", object{"search": "mine"}).ok()["threads"], 1)
		require.Equal(t, "bot", c.call("list_agents", nil).ok()["agents"].([]any)[0].(object)["name"])
	})
}

func TestMCPRequestIDs(t *testing.T) {
	w := newWorld(t)
	w.answers()
	c := w.mcpClient(t, generations[1], "")
	args := object{"message": "hello", "requestId": "11111111-2222"}
	first := c.call("ask_agent", args).ok()
	w.threads.duplicate = true // as the thread finds
	require.Equal(t, first, c.call("ask_agent", args).ok())
	require.Len(t, w.threads.opens, 1)
	w.threads.duplicate = false

	open := object{"requestId": "33333333-4444"}
	opened := c.call("open_thread", open).ok()
	require.Equal(t, opened, c.call("open_thread", open).ok())
	require.NotEqual(t, first["thread"], opened["thread"])
}

// TestMCPProgress: a long call tells what happens, survives the time of the wait, and is picked up by
// thread and event.
func TestMCPProgress(t *testing.T) {
	eachGeneration(t, func(t *testing.T, version string) {
		w := newWorld(t)
		w.threads.posted = func(id string, p signals.Post) {
			w.question(id, p)
			w.put(id,
				in(p.ID, record(event.TypeToolCall, event.ToolCallEvent{ThreadID: id, AgentName: "bot", ToolCalls: []event.ToolCall{{ID: "c1", Function: event.Function{Name: "shell", Arguments: "{}"}}}}), "r1.calls"),
				in(p.ID, record(event.TypeMessage, event.Message{ID: "c1.result", ThreadID: id, SenderID: "shell", SenderType: event.CreatedByTool, Role: event.RoleTool, ToolCallID: "c1", ToolName: "shell", Content: "done"}), "c1.result"),
			)
		}
		c := w.mcpClient(t, version, "")
		got := c.call("ask_agent", object{"message": "hello", "waitSeconds": 1}).ok()
		require.Equal(t, "running", got["status"])
		require.Contains(t, got["next"], "wait_for_turn")
		c.mu.Lock()
		require.Equal(t, []string{"bot calls shell", "shell has ended"}, c.lines)
		c.mu.Unlock()
		time.AfterFunc(10*time.Millisecond, func() { w.reply(got["thread"].(string), got["event"].(string), "done") })
		got = c.call("wait_for_turn", object{"thread": got["thread"], "event": got["event"]}).ok()
		require.Equal(t, "completed", got["status"])
		require.Equal(t, "done", got["text"])
	})
}

func TestMCPApprovals(t *testing.T) {
	eachGeneration(t, func(t *testing.T, version string) {
		w := newWorld(t, withBadges)
		w.threads.approvals.outcome = signals.DecideAccepted
		request := event.ApprovalRequest{ToolCallID: "c1", ToolName: "shell_cmd", Arguments: `{"command":"ls"}`, Agent: "bot", RequestedAt: asked, Digest: "sha256:1"}
		w.threads.posted = func(id string, p signals.Post) {
			w.question(id, p)
			w.put(id, in(p.ID, record(event.TypeApprovalRequest, request), "c1.request"))
			w.threads.approvals.waiting.Approvals = []event.ApprovalRequest{request}
		}
		c := w.mcpClient(t, version, "ann read post approve")
		got := c.call("ask_agent", object{"message": "hello"}).ok()
		require.Equal(t, "waiting_for_approval", got["status"])
		waiting := got["approvals"].([]any)[0].(object)
		require.Equal(t, object{"thread": got["thread"], "toolCallId": "c1", "tool": "shell_cmd", "agent": "bot", "arguments": `{"command":"ls"}`, "digest": "sha256:1"}, waiting)
		require.Equal(t, []any{waiting}, c.call("list_approvals", object{"thread": got["thread"]}).ok()["approvals"])

		decided := c.call("decide_approval", object{"thread": got["thread"], "toolCallId": "c1", "decision": "approve", "digest": "sha256:1"}).ok()
		require.Equal(t, "accepted", decided["result"])
		require.Equal(t, "ann", w.threads.approvals.decided[0].By)
		require.Equal(t, "sha256:1", w.threads.approvals.decided[0].Digest)
		// The request is in the past, and does not wait any more.
		w.threads.approvals.waiting = signals.Approvals{}
		w.put(got["thread"].(string), in(got["event"].(string), record(event.TypeApproval, event.Approval{ToolCallID: "c1", Decision: event.DecisionApprove, By: "ann"}), "c1.approval"))
		time.AfterFunc(300*time.Millisecond, func() { w.reply(got["thread"].(string), got["event"].(string), "done") })
		require.Equal(t, "done", c.call("wait_for_turn", object{"thread": got["thread"], "event": got["event"]}).ok()["text"])
	})
	t.Run("without a name nobody decides", func(t *testing.T) {
		w := newWorld(t)
		w.open("t1")
		c := w.mcpClient(t, generations[0], "")
		c.call("decide_approval", object{"thread": "t1", "toolCallId": "c1", "decision": "approve"}).fails("by: is required")
		c.call("decide_approval", object{"thread": "t1", "toolCallId": "c1", "decision": "approve", "by": "user"}).fails("by: ")
		require.Empty(t, w.threads.approvals.decided)
	})
}

// TestMCPInputs: a call that waits for a person's input is answered by a client.
func TestMCPInputs(t *testing.T) {
	w := newWorld(t, withBadges)
	w.threads.approvals.outcome = signals.DecideAccepted
	request := event.InputRequest{ToolCallID: "c1", ToolName: "book", Agent: "bot", Round: 1, Questions: []event.InputQuestion{
		{ID: "q1", Kind: event.InputForm, Message: "How many?", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)},
	}}
	w.threads.posted = func(id string, p signals.Post) {
		w.question(id, p)
		w.put(id, in(p.ID, record(event.TypeInputRequest, request), "c1.input"))
		w.threads.approvals.waiting.Inputs = []event.InputRequest{request}
	}
	c := w.mcpClient(t, generations[0], "ann read post")
	got := c.call("ask_agent", object{"message": "hello"}).ok()
	require.Equal(t, "waiting_for_input", got["status"])
	waiting := got["inputs"].([]any)
	require.Equal(t, "How many?", waiting[0].(object)["questions"].([]any)[0].(object)["message"])
	require.Equal(t, waiting, c.call("list_approvals", object{"thread": got["thread"]}).ok()["inputs"])
	answer := func(n any) toolResult {
		return c.call("answer_input", object{"thread": got["thread"], "toolCallId": "c1", "answers": object{"q1": object{"action": "accept", "content": object{"n": n}}}})
	}
	answer("three").fails("answers.q1.content")
	require.Equal(t, "accepted", answer(3).ok()["result"])
	require.Equal(t, "ann", w.threads.approvals.inputs[0].By)
}

// TestMCPTurns: how turns end.
func TestMCPTurns(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	c := w.mcpClient(t, generations[0], "")
	for name, test := range map[string]struct {
		ended  event.TurnEnded
		status string
		error  string
	}{
		"failed":      {event.TurnEnded{Status: "failed", Error: "the model is down"}, "failed", "the model is down"},
		"interrupted": {event.TurnEnded{Status: "interrupted"}, "failed", "the turn was interrupted"},
		"unanswered":  {event.TurnEnded{Status: "unanswered"}, "failed", "no agent answers"},
	} {
		t.Run(name, func(t *testing.T) {
			w.put("t1",
				in(name, record(event.TypeMessage, event.Message{ID: name, ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: "go"}), name),
				in(name, record(event.TypeTurnEnded, test.ended), recordid.TurnEnded(name)))
			got := c.call("wait_for_turn", object{"thread": "t1", "event": name}).ok()
			require.Equal(t, test.status, got["status"])
			require.Contains(t, got["error"], test.error)
			require.Equal(t, name, got["outcome"])
		})
	}
	t.Run("closed", func(t *testing.T) {
		w.put("t1", in("cut", record(event.TypeMessage, event.Message{ID: "cut", ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: "go"}), "cut"))
		w.append("t1", closedBatch())
		got := c.call("wait_for_turn", object{"thread": "t1", "event": "cut"}).ok()
		require.Equal(t, "failed", got["status"])
		require.Contains(t, got["error"], "closed")
	})
	t.Run("a text that is too long", func(t *testing.T) {
		w.open("t2")
		w.threads.posted = func(id string, p signals.Post) {
			w.question(id, p)
			w.reply(id, p.ID, strings.Repeat("ä", 100_000))
		}
		got := c.call("ask_agent", object{"thread": "t2", "message": "go"}).ok()
		require.Equal(t, true, got["truncated"])
		require.Less(t, len(got["text"].(string)), 70_000)
		page := c.call("read_thread", object{"thread": "t2"}).ok()
		require.Contains(t, page["messages"].([]any)[1].(object)["text"], "more bytes)")
	})
}

func TestMCPBadInput(t *testing.T) {
	eachGeneration(t, func(t *testing.T, version string) {
		w := newWorld(t)
		w.open("t1")
		w.threads.known["gone"] = false
		c := w.mcpClient(t, version, "")
		large := strings.Repeat("x", signals.MaxPayload)
		for name, test := range map[string]struct {
			tool string
			args object
			says string
		}{
			"no message":          {"ask_agent", object{}, "message: is required"},
			"empty message":       {"ask_agent", object{"message": ""}, "message: is required"},
			"blank message":       {"ask_agent", object{"message": " "}, "message: is required"},
			"a number":            {"ask_agent", object{"message": 5}, "message"},
			"an unknown argument": {"ask_agent", object{"message": "x", "thraed": "t1"}, "thraed"},
			"a wrong case":        {"ask_agent", object{"message": "x", "Thread": "t1"}, "Thread"},
			"unknown agent":       {"ask_agent", object{"message": "x", "agent": "bat"}, `agent: `},
			"which one is meant":  {"ask_agent", object{"message": "x", "agent": "bat"}, `bot`},
			"unknown thread":      {"ask_agent", object{"message": "x", "thread": "nobody"}, `there is no thread "nobody"`},
			"no such thread name": {"ask_agent", object{"message": "x", "thread": "a/b"}, `there is no thread "a/b"`},
			"closed thread":       {"post_message", object{"message": "x", "thread": "gone"}, `thread "gone" is closed`},
			"too large":           {"ask_agent", object{"message": large}, "message: is too large"},
			"too large a post":    {"post_message", object{"thread": "t1", "message": large}, "message: is too large"},
			"bad request id":      {"post_message", object{"thread": "t1", "message": "x", "requestId": "a.b.c.d.e"}, "requestId: "},
			"short request id":    {"post_message", object{"thread": "t1", "message": "x", "requestId": "1"}, "requestId: is 1 characters long"},
			"no time":             {"ask_agent", object{"message": "x", "waitSeconds": 0}, "waitSeconds: "},
			"unknown event":       {"wait_for_turn", object{"thread": "t1", "event": "none"}, `none`},
			"event of no thread":  {"wait_for_turn", object{"thread": "nobody", "event": "none"}, `there is no thread "nobody"`},
			"bad cursor":          {"read_thread", object{"thread": "t1", "cursor": "x"}, "cursor: "},
			"bad limit":           {"read_thread", object{"thread": "t1", "limit": 1000}, "limit: "},
			"bad status":          {"list_threads", object{"status": "gone"}, `status: "gone" is not one of open, closed`},
			"bad thread id":       {"open_thread", object{"thread": "a/b"}, "thread: "},
			"known thread":        {"open_thread", object{"thread": "t1"}, `already exists`},
			"no decision":         {"decide_approval", object{"thread": "t1", "toolCallId": "c1"}, "decision: is required"},
			"unknown decision":    {"decide_approval", object{"thread": "t1", "toolCallId": "c1", "decision": "maybe"}, "decision: "},
		} {
			t.Run(name, func(t *testing.T) {
				c.t = t
				got := c.call(test.tool, test.args)
				got.fails(test.says)
				require.NotContains(t, got.error, "body.")
				require.Less(t, len(got.error), 5000)
			})
		}
		_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "rm"})
		require.ErrorContains(t, err, "rm")
		_, err = c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "threadmill://threads/nobody"})
		require.ErrorContains(t, err, "not found")
	})
	t.Run("requests", func(t *testing.T) {
		w := newWorld(t)
		post := func(body string, header ...string) answer {
			return w.call("POST", "/mcp", body, append([]string{"Accept", "application/json, text/event-stream"}, header...)...)
		}
		require.Equal(t, http.StatusBadRequest, post(`{"jsonrpc":`).status)
		require.Equal(t, http.StatusBadRequest, post(`[]`).status)
		require.Equal(t, http.StatusUnsupportedMediaType, post(`{}`, "Content-Type", "text/plain").status)
		require.Equal(t, http.StatusNotFound, post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", "none").status)
		large := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", server.DefaultMaxBody) + `"}}`
		require.Equal(t, http.StatusRequestEntityTooLarge, post(large).status)
		require.Equal(t, http.StatusMethodNotAllowed, w.call("GET", "/mcp", nil, "Mcp-Protocol-Version", generations[1]).status)
		w.call("GET", "/mcp", nil, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Host", "evil.example").problem(t, http.StatusMisdirectedRequest)
		w.call("POST", "/mcp", "{}", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site").problem(t, http.StatusForbidden)
	})
}

// toolsOf are the tools that a principal with these roles sees.
func (c *mcpClient) toolsOf() []string {
	list, err := c.ListTools(c.t.Context(), nil)
	require.NoError(c.t, err)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

func TestMCPRoles(t *testing.T) {
	reading := []string{"list_agents", "list_approvals", "list_threads", "read_thread", "wait_for_turn"}
	posting := []string{"answer_input", "open_thread", "post_message"}
	calls := map[string]object{
		"ask_agent": {"message": "x"}, "open_thread": {}, "post_message": {"thread": "t1", "message": "x"}, "read_thread": {"thread": "t1"},
		"list_threads": {}, "list_agents": {}, "list_approvals": {}, "wait_for_turn": {"thread": "t1", "event": "e1"},
		"decide_approval": {"thread": "t1", "toolCallId": "c1", "decision": "deny"},
		"answer_input":    {"thread": "t1", "toolCallId": "c1", "answers": object{"q1": object{"action": "accept", "content": object{}}}},
	}
	eachGeneration(t, func(t *testing.T, version string) {
		for roles, want := range map[string][]string{
			"read": reading, "post": posting, "approve": {"decide_approval"}, "operate": nil, "send-as": nil,
			"read post":  append(append([]string{"ask_agent"}, reading...), posting...),
			"read admin": append(append([]string{"ask_agent", "decide_approval"}, reading...), posting...),
		} {
			t.Run(roles, func(t *testing.T) {
				w := newWorld(t, withBadges)
				w.threads.known["t1"] = true
				w.answers()
				c := w.mcpClient(t, version, "ann "+roles)
				slices.Sort(want)
				require.Equal(t, want, c.toolsOf())
				for name, args := range calls {
					if got := c.call(name, args); slices.Contains(want, name) {
						require.NotContains(t, got.error, "not permitted", name)
					} else {
						got.fails("not permitted: this needs the role")
					}
				}
				if !slices.Contains(want, "post_message") {
					require.Empty(t, append(w.threads.posts, w.threads.opened()...))
				}
				resources, err := c.ListResources(t.Context(), nil)
				require.NoError(t, err)
				templates, err := c.ListResourceTemplates(t.Context(), nil)
				require.NoError(t, err)
				_, err = c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "threadmill://threads"})
				if strings.Contains(roles, "read") {
					require.NoError(t, err)
					require.Len(t, resources.Resources, 2)
					require.Len(t, templates.ResourceTemplates, 2)
				} else {
					require.ErrorContains(t, err, "not permitted")
					require.Empty(t, resources.Resources)
					require.Empty(t, templates.ResourceTemplates)
				}
			})
		}
	})
	t.Run("without a key", func(t *testing.T) {
		w := newWorld(t, withBadges)
		for _, header := range [][]string{nil, {"Authorization", "Basic YW5uOnNlY3JldA=="}} {
			got := w.call("POST", "/mcp", "{}", header...)
			got.problem(t, http.StatusUnauthorized)
			require.Equal(t, "Bearer", got.header.Get("WWW-Authenticate"))
		}
		w.call("POST", "/mcp", "{}", bearer("elsewhere")...).problem(t, http.StatusForbidden)
		w.call("POST", "/mcp", "{}", bearer("broken")...).problem(t, http.StatusServiceUnavailable)
		w.call("GET", "/mcp", nil).problem(t, http.StatusUnauthorized)
		w.call("DELETE", "/mcp", nil).problem(t, http.StatusUnauthorized)
	})
	t.Run("the session of somebody else", func(t *testing.T) {
		w := newWorld(t, withBadges)
		id := w.mcpClient(t, generations[0], "ann read").ID()
		for _, method := range []string{"GET", "DELETE", "POST"} {
			header := append(bearer("eve admin"), "Mcp-Session-Id", id, "Accept", "application/json, text/event-stream")
			require.Equal(t, http.StatusForbidden, w.call(method, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header...).status, method)
		}
	})
	t.Run("a key that ends", func(t *testing.T) {
		var over bool
		var mu sync.Mutex
		w := newWorld(t, func(c *server.Config) {
			c.AuthCheckInterval = time.Millisecond
			c.Authenticator = auth.Func(func(r *http.Request) (auth.Principal, error) {
				mu.Lock()
				defer mu.Unlock()
				if over {
					return auth.Principal{}, auth.ErrUnauthenticated
				}
				return badge(r)
			})
		})
		w.threads.posted = func(id string, p signals.Post) {
			w.question(id, p)
			mu.Lock()
			defer mu.Unlock()
			over = true
		}
		c := w.mcpClient(t, generations[0], "ann read post")
		// The response itself ends with the key, or has the error of the tool.
		got, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask_agent", Arguments: object{"message": "x"}})
		require.True(t, err != nil || got.IsError)
	})
}

func (f *threads) opened() []signals.Post {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []signals.Post
	for _, start := range f.opens {
		out = append(out, *start.First)
	}
	return out
}

// TestMCPHints: what the tools say about themselves.
func TestMCPHints(t *testing.T) {
	w := newWorld(t)
	eachGeneration(t, func(t *testing.T, version string) {
		list, err := w.mcpClient(t, version, "").ListTools(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, list.Tools, 10)
		for _, tool := range list.Tools {
			hints := tool.Annotations
			assert.NotEmpty(t, tool.Title, tool.Name)
			assert.NotEmpty(t, tool.Description, tool.Name)
			assert.Equal(t, slices.Contains([]string{"list_agents", "list_approvals", "list_threads", "read_thread", "wait_for_turn"}, tool.Name), hints.ReadOnlyHint, tool.Name)
			assert.Equal(t, tool.Name == "decide_approval", *hints.DestructiveHint, tool.Name)
			assert.Equal(t, hints.ReadOnlyHint || slices.Contains([]string{"decide_approval", "answer_input"}, tool.Name), hints.IdempotentHint, tool.Name)
			input := tool.InputSchema.(object)
			assert.Equal(t, false, input["additionalProperties"], tool.Name)
			output := tool.OutputSchema.(object)
			assert.Equal(t, "object", output["type"], tool.Name)
			assert.NotContains(t, output, "additionalProperties", "results may gain fields")
			properties, _ := input["properties"].(object)
			for name, p := range properties {
				assert.NotEmpty(t, p.(object)["description"], "%s.%s", tool.Name, name)
			}
		}
	})
}

// TestMCPReconnect: a client of a session that is cut in the middle of a call gets the rest with its last
// event.
func TestMCPReconnect(t *testing.T) {
	w := newWorld(t)
	asked := make(chan signals.Post, 1)
	w.threads.posted = func(id string, p signals.Post) {
		w.question(id, p)
		asked <- p
	}
	session := w.mcpClient(t, generations[0], "").ID()
	header := map[string]string{"Mcp-Session-Id": session, "Mcp-Protocol-Version": generations[0], "Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
	request := func(ctx context.Context, method, body, last string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, method, w.url+"/mcp", strings.NewReader(body))
		require.NoError(t, err)
		for name, value := range header {
			req.Header.Set(name, value)
		}
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	ctx, cut := context.WithCancel(t.Context())
	defer cut()
	res := request(ctx, "POST", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask_agent","arguments":{"message":"hello","thread":"","agent":"bot"},"_meta":{"progressToken":"p"}}}`, "")
	require.Equal(t, http.StatusOK, res.StatusCode)
	last := ""
	lines := bufio.NewScanner(res.Body)
	for last == "" && lines.Scan() {
		last, _ = strings.CutPrefix(lines.Text(), "id: ")
		if !strings.HasPrefix(lines.Text(), "id: ") {
			last = ""
		}
	}
	require.NotEmpty(t, last)
	post := <-asked
	cut()
	w.reply(w.threads.opened0(), post.ID, "done")
	// Until the server has seen the cut, the stream belongs to the connection before.
	require.Eventually(t, func() bool {
		res = request(t.Context(), "GET", "", last)
		return res.StatusCode != http.StatusConflict
	}, testenv.Patience, 10*time.Millisecond)
	require.Equal(t, http.StatusOK, res.StatusCode)
	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(rest), `"id":7`)
	require.Contains(t, string(rest), `done`)
}

// opened0 is the id of the only open thread.
func (f *threads) opened0() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.known {
		return id
	}
	return ""
}

// TestMCPCloses: the end of the server ends waits, with a result.
func TestMCPCloses(t *testing.T) {
	eachGeneration(t, func(t *testing.T, version string) {
		closing, stop := context.WithCancel(t.Context())
		w := newWorld(t, func(c *server.Config) { c.Closing = closing })
		w.threads.posted = func(id string, p signals.Post) {
			w.question(id, p)
			stop()
		}
		got := w.mcpClient(t, version, "").call("ask_agent", object{"message": "hello"}).ok()
		require.Equal(t, "running", got["status"])
	})
}

// TestMCPBatch: a request with very many calls makes no more than a few of them at once.
func TestMCPBatch(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.WaitLimit = time.Second })
	w.open("t1")
	w.put("t1", in("e1", said("question"), "e1"))
	var calls []object
	for i := range 200 {
		calls = append(calls, object{"jsonrpc": "2.0", "id": i + 1, "method": "tools/call", "params": object{"name": "wait_for_turn", "arguments": object{"thread": "t1", "event": "e1"}}})
	}
	body, err := json.Marshal(calls)
	require.NoError(t, err)
	id := w.mcpClient(t, "2025-03-26", "").ID()
	got := w.call("POST", "/mcp", string(body), "Mcp-Session-Id", id, "Accept", "application/json, text/event-stream")
	require.Equal(t, http.StatusOK, got.status, got.text)
	require.Equal(t, 200, strings.Count(got.text, `"jsonrpc"`))
	waited, rejected := strings.Count(got.text, `"next":"The turn goes on`), strings.Count(got.text, "32 calls are in progress")
	require.Equal(t, 200, waited+rejected, got.text)
	require.GreaterOrEqual(t, waited, 32)
	require.NotZero(t, rejected)
}

// TestMCPCancel: cancelling a call ends the wait, and does nothing to the thread.
func TestMCPCancel(t *testing.T) {
	eachGeneration(t, func(t *testing.T, version string) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.threads.posted = func(id string, p signals.Post) {
			w.question(id, p)
			cancel()
		}
		c := w.mcpClient(t, version, "")
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "ask_agent", Arguments: object{"message": "hello"}})
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, c.toolsOf(), 10, "the session goes on")
		require.Empty(t, w.threads.ctls)
	})
}

// TestMCPInternalError: a failure within the server is an error of the tool without details.
func TestMCPInternalError(t *testing.T) {
	w := newWorld(t, func(c *server.Config) {
		c.Store = teststore.Before(c.Store, func(context.Context) error { panic("the store is broken") }, "threads")
	})
	w.mcpClient(t, generations[0], "").call("list_threads", nil).fails("internal error")
}

// TestEventsFromAnEvent: a stream begins with a posted event, wherever it is.
func TestEventsFromAnEvent(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.put("t1", said("before"), in("e1", said("question"), "e1"), said("after"))
	first := func(query string) string {
		t.Helper()
		return w.watch("t1", query, "").mustNext().data
	}
	require.Contains(t, first("?event=e1"), "question")
	require.Contains(t, first("?event=e1&lastEventId=0"), "before", "a cursor takes precedence")
	w.threads.queue.has.Items = []event.Item{{ID: "e2", Status: event.ItemPending}}
	queued := w.watch("t1", "?event=e2", "")
	w.put("t1", in("e2", said("from the queue"), "e2"))
	require.Contains(t, queued.mustNext().data, "from the queue")
	w.put("t1", in("e3", record(event.TypeTurnEnded, event.TurnEnded{EventID: "e3", Status: "expired"}), recordid.TurnEnded("e3")))
	require.Contains(t, first("?event=e3"), "expired", "it has left no other record")
	w.call("GET", "/v1/threads/t1/events?event=none", nil, "Accept", "text/event-stream").problem(t, http.StatusNotFound)

	page := w.call("GET", "/v1/threads/t1/events?event=e1&limit=1", nil)
	require.Contains(t, page.text, "question")
	require.NotContains(t, page.text, "before")
	require.Contains(t, w.call("GET", "/v1/threads/t1/events?event=e1&cursor=0&limit=1", nil).text, "before", "a cursor takes precedence")
	w.call("GET", "/v1/threads/t1/events?event=e1&before=end", nil).problem(t, http.StatusBadRequest)
	w.call("GET", "/v1/threads/t1/events?event=none", nil).problem(t, http.StatusNotFound)
}
