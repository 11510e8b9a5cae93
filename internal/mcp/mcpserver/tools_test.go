package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/signals"
)

// TestTools: a client's model sees what each tool does, and what each argument and each field means.
func TestTools(t *testing.T) {
	var names []string
	changing := map[string]bool{}
	for _, one := range newServer(t, &httpAPI{}).tools() {
		names = append(names, one.Name)
		require.NotEmpty(t, one.roles, one.Name)
		in, out := one.InputSchema.(*jsonschema.Schema), one.OutputSchema.(*jsonschema.Schema)
		require.NotNil(t, in.AdditionalProperties, "%s: an unknown argument is a mistake", one.Name)
		require.Nil(t, out.AdditionalProperties, "%s: a later version may add fields", one.Name)
		describes(t, one.Name, in)
		describes(t, one.Name, out)
		if !one.Annotations.ReadOnlyHint {
			changing[one.Name] = *one.Annotations.DestructiveHint
			require.False(t, one.roles[0] == auth.RoleRead, one.Name)
		}
	}
	require.Equal(t, []string{
		"ask_agent", "wait_for_turn", "list_agents", "list_threads", "open_thread", "post_message", "read_thread", "list_approvals", "decide_approval", "answer_input",
	}, names, "in the order of their use")
	require.Equal(t, map[string]bool{"ask_agent": false, "open_thread": false, "post_message": false, "answer_input": false, "decide_approval": true}, changing)
}

func describes(t *testing.T, name string, s *jsonschema.Schema) {
	t.Helper()
	for field, p := range s.Properties {
		require.NotEmpty(t, p.Description, "%s: %s", name, field)
		require.NotContains(t, p.Types, "array", "%s: %s is never null", name, field)
		describes(t, name, p)
		if p.Items != nil {
			describes(t, name, p.Items)
		}
	}
}

// TestArguments: an argument is refused before anything happens, and the error names it.
func TestArguments(t *testing.T) {
	h := &httpAPI{}
	s := newServer(t, h)
	for _, tt := range []struct{ tool, arguments, want string }{
		{"ask_agent", ``, "message: is required"},
		{"ask_agent", ` null `, "message: is required"},
		{"ask_agent", `{"message":""}`, "message: is required"},
		{"ask_agent", `{"message":null}`, "message: is required"},
		{"ask_agent", `[]`, "input: cannot be of type array"},
		{"ask_agent", `{"message":5}`, "message: "},
		{"ask_agent", `{"message":"x","mesage":"y"}`, "mesage: "},
		{"ask_agent", `{"message":"x","waitSeconds":3601}`, "waitSeconds: 3601 must be from 1 to 3600"},
		{"ask_agent", `{"message":"x","waitSeconds":0}`, "waitSeconds: 0 must be from 1 to 3600"},
		{"ask_agent", `{"message":"x","requestId":"short"}`, "requestId: is 5 characters long, must be at least 8"},
		{"ask_agent", `{"message":"x","requestId":""}`, "requestId: is 0 characters long, must be at least 8"},
		{"ask_agent", `{"message":"x","agent":"` + strings.Repeat("ä", 129) + `"}`, "agent: is 129 characters long, must be at most 128"},
		{"decide_approval", `{"thread":"t","toolCallId":"c","decision":"maybe"}`, `decision: "maybe" is not one of approve, deny`},
		{"decide_approval", `{"thread":"t","toolCallId":"c","decision":""}`, "decision: is required"},
		{"decide_approval", `{"thread":"t","decision":"approve"}`, "toolCallId: is required"},
		{"list_threads", `{"limit":101}`, "limit: 101 must be from 1 to 100"},
		{"read_thread", `{"thread":"t","cursor":"123456789012345678901"}`, "cursor: is 21 characters long, must be at most 20"},
	} {
		got, failed := s.use(t, tt.tool, tt.arguments)
		require.True(t, failed, tt.arguments)
		require.Contains(t, got, tt.want, tt.arguments)
	}
	require.Empty(t, h.asked)
	t.Run("bounds belong to what is allowed", func(t *testing.T) {
		schema := inputSchema[askArgs]()
		for _, arguments := range []string{
			`{"message":"x","waitSeconds":1}`, `{"message":"x","waitSeconds":3600}`, `{"message":"x","requestId":"12345678"}`, `{"message":"x","agent":"` + strings.Repeat("ä", 128) + `"}`,
		} {
			require.NoError(t, decode(schema, []byte(arguments), &askArgs{}), arguments)
		}
		require.NoError(t, decode(inputSchema[listArgs](), []byte(`{"status":""}`), &listArgs{}), "an empty choice is none")
	})
}

// TestAskRepeats: a request that is repeated opens no second thread, and posts nothing again.
func TestAskRepeats(t *testing.T) {
	const id = "request-1"
	thread := threadOf(id, "bot")
	opened := func() *httpAPI {
		return &httpAPI{answers: map[string]any{"POST /threads": api.OpenedThread{EventID: "e"}, "POST /threads/" + thread + "/messages": signals.TurnResult{EventID: "e2"}, "POST /threads/t/messages": signals.TurnResult{EventID: "e3"}}}
	}
	t.Run("the thread depends on the request and on the agent, and is an id", func(t *testing.T) {
		require.Equal(t, thread, threadOf(id, "bot"))
		require.NotEqual(t, thread, threadOf(id, ""))
		require.NotEqual(t, threadOf("ab", "c"), threadOf("a", "bc"))
		require.Empty(t, threadOf("", "bot"))
		require.NoError(t, signals.ValidateID("thread", thread))
	})
	t.Run("the first", func(t *testing.T) {
		h := opened()
		_, eventID, err := newServer(t, h).say(t.Context(), askArgs{Message: "hi", Agent: "bot", RequestID: id})
		require.NoError(t, err)
		require.Equal(t, "e", eventID)
		require.Equal(t, []string{`POST /threads {"id":"` + thread + `","agent":"bot","message":{"content":"hi","id":"` + id + `"}}`}, h.asked)
	})
	t.Run("the second posts with the same id", func(t *testing.T) {
		h := opened()
		h.answers["POST /threads"] = refused{http.StatusConflict, "it exists"}
		got, eventID, err := newServer(t, h).say(t.Context(), askArgs{Message: "hi", Agent: "bot", RequestID: id})
		require.NoError(t, err)
		require.Equal(t, []string{thread, "e2"}, []string{got, eventID})
		require.Equal(t, `POST /threads/`+thread+`/messages {"content":"hi","id":"`+id+`","agents":["bot"]}`, h.asked[1])
	})
	t.Run("a conflict without an id is an error", func(t *testing.T) {
		h := opened()
		h.answers["POST /threads"] = refused{http.StatusConflict, "it exists"}
		_, _, err := newServer(t, h).say(t.Context(), askArgs{Message: "hi"})
		require.EqualError(t, err, "it exists")
		require.Len(t, h.asked, 1)
	})
	t.Run("any other error is one too", func(t *testing.T) {
		h := opened()
		h.answers["POST /threads"] = refused{http.StatusBadRequest, "no"}
		_, _, err := newServer(t, h).say(t.Context(), askArgs{Message: "hi", RequestID: id})
		require.EqualError(t, err, "no")
		require.Len(t, h.asked, 1)
	})
	t.Run("in a thread", func(t *testing.T) {
		h := opened()
		got, eventID, err := newServer(t, h).say(t.Context(), askArgs{Message: "hi", Thread: "t"})
		require.NoError(t, err)
		require.Equal(t, []string{"t", "e3"}, []string{got, eventID})
		require.Equal(t, []string{`POST /threads/t/messages {"content":"hi"}`}, h.asked)
	})
	t.Run("a thread that was opened is opened again", func(t *testing.T) {
		h := opened()
		h.answers["POST /threads"] = refused{http.StatusConflict, "it exists"}
		s := newServer(t, h)
		got, failed := s.use(t, "open_thread", `{"agent":"bot","requestId":"`+id+`","message":"hi"}`)
		require.False(t, failed, got)
		require.JSONEq(t, `{"thread":"`+thread+`","event":"e2","next":"The turn runs. wait_for_turn waits for its result."}`, got)
		got, failed = s.use(t, "open_thread", `{"agent":"bot","requestId":"`+id+`"}`)
		require.False(t, failed, got)
		require.JSONEq(t, `{"thread":"`+thread+`"}`, got)
		got, failed = s.use(t, "open_thread", `{"thread":"t"}`)
		require.True(t, failed)
		require.Equal(t, "it exists", got)
	})
	t.Run("who cannot read the answer posts nothing", func(t *testing.T) {
		h := opened()
		s := newServer(t, h)
		s.roles = func(context.Context) auth.Roles { return auth.Roles{auth.RolePost} }
		got, failed := s.use(t, "ask_agent", `{"message":"hi"}`)
		require.True(t, failed)
		require.Equal(t, "not permitted: this needs the role read", got)
		require.Empty(t, h.asked)
	})
	t.Run("what is posted is said, whatever follows", func(t *testing.T) {
		h := opened()
		h.answers["GET /threads/t/events"] = refused{http.StatusForbidden, "no"}
		got, failed := newServer(t, h).use(t, "ask_agent", `{"message":"hi","thread":"t"}`)
		require.True(t, failed)
		require.Equal(t, `the message is posted, but not permitted: no. Call wait_for_turn with thread "t" and event "e3" for the answer`, got)
	})
}

// TestProblem: errors of the API name the arguments of the tool, and say what to do.
func TestProblem(t *testing.T) {
	status := func(code int, detail string) error {
		return fmt.Errorf("posting: %w", &api.StatusError{Code: code, Detail: detail})
	}
	other := errors.New("other")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{status(http.StatusUnprocessableEntity, "validation failed; body.message.content: is too long; body.message.id: is taken"), "message: is too long; requestId: is taken"},
		{status(http.StatusBadRequest, "body.agents[0]: unknown; body.agents[0]: unknown"), "agent: unknown"},
		{status(http.StatusBadRequest, "body.id: is taken"), "thread: is taken"},
		{status(http.StatusBadRequest, "query.q: is too long; path.threadId: is no id"), "search: is too long; threadId: is no id"},
		{status(http.StatusUnauthorized, "no key"), "the API key is missing or not valid: no key"},
		{status(http.StatusForbidden, "no role"), "not permitted: no role"},
		{status(http.StatusNotFound, ""), "not found"},
		{status(http.StatusServiceUnavailable, "busy"), "try again later: busy"},
		{status(http.StatusTooManyRequests, ""), "try again later: too many requests"},
		{status(http.StatusInternalServerError, "broken"), "broken"},
		{fmt.Errorf("%w: refused", api.ErrUnreachable), "the Threadmill server cannot be reached; call again when it runs: the API does not answer: refused"},
		{other, "other"},
	} {
		require.EqualError(t, problem(tt.err, "thread"), tt.want)
	}
	require.NoError(t, problem(nil, "thread"))
	require.ErrorAs(t, problem(status(http.StatusNotFound, ""), "x"), new(*notFoundError))
	require.Equal(t, other, problem(other, "x"))
}

func TestCut(t *testing.T) {
	require.Equal(t, "abcd", cut("abcd", 4))
	require.Equal(t, "abc… (2 more bytes)", cut("abcde", 3))
	got := cut("aä", 2)
	require.Equal(t, "a… (2 more bytes)", got, "no half of a character, and all of it counts")
	require.True(t, utf8.ValidString(got))
	require.Equal(t, "… (2 more bytes)", cut("ä", 1))
}

// TestRead: a page of a thread is bounded whatever the messages are, and its cursor continues behind the last one that it shows.
func TestRead(t *testing.T) {
	read := func(next string, messages ...event.StoredMessage) messageList {
		h := &httpAPI{answers: map[string]any{"GET /threads/t": api.Thread{}, "GET /threads/t/messages": map[string]any{"messages": messages, "next": next}}}
		out, err := newServer(t, h).read(t.Context(), readArgs{Thread: "t"})
		require.NoError(t, err)
		return out
	}
	sized := func(seq int64, size int) (m event.StoredMessage) {
		m.Seq, m.Content = seq, strings.Repeat("x", size)
		return m
	}
	full := maxPage / (maxMessage + 256) // this many messages of the maximum size fit
	var large []event.StoredMessage
	for i := range full + 3 {
		large = append(large, sized(int64(i+1), maxMessage))
	}
	out := read("more", large...)
	require.Less(t, len(out.Messages), len(large))
	require.Equal(t, fmt.Sprint(out.Messages[len(out.Messages)-1].Record), out.Next)
	out = read("more", sized(1, 1), sized(2, maxMessage+10))
	require.Len(t, out.Messages, 2)
	require.Equal(t, "more", out.Next)
	require.Contains(t, out.Messages[1].Text, "(10 more bytes)")

	var calls event.StoredMessage
	for range maxCalls + 1 {
		calls.ToolCalls = append(calls.ToolCalls, event.ToolCall{Function: event.Function{Arguments: strings.Repeat("x", 2*maxArguments)}})
	}
	calls.Seq = 7
	out = read("", calls, sized(8, maxPage))
	require.Len(t, out.Messages[0].ToolCalls, maxCalls)
	require.Greater(t, out.Messages[0].size(), maxCalls*maxArguments)
	require.Len(t, out.Messages, 2)
	require.LessOrEqual(t, out.Messages[0].size(), maxPage, "any message fits a page")
	t.Run("a thread that does not exist", func(t *testing.T) {
		_, err := newServer(t, &httpAPI{}).read(t.Context(), readArgs{Thread: "t"})
		require.ErrorAs(t, err, new(*notFoundError))
	})
}

// TestApprovalList: a list is bounded, and says so.
func TestApprovalList(t *testing.T) {
	var l approvalList
	for range maxApprovals {
		l.add("t", event.ApprovalRequest{})
		l.ask("t", event.InputRequest{})
	}
	require.False(t, l.More)
	l.add("t", event.ApprovalRequest{})
	require.True(t, l.More)
	require.Len(t, l.Approvals, maxApprovals)
	l.More = false
	l.ask("t", event.InputRequest{})
	require.True(t, l.More)
	require.Len(t, l.Inputs, maxApprovals)
	t.Run("a thread that did not answer is more", func(t *testing.T) {
		got, failed := newServer(t, &httpAPI{answers: map[string]any{"GET /approvals": map[string]any{"unanswered": []string{"t"}}}}).use(t, "list_approvals", `{}`)
		require.False(t, failed, got)
		require.JSONEq(t, `{"approvals":[],"more":true}`, got)
	})
	t.Run("a schema is shown whole or not at all", func(t *testing.T) {
		ask := func(schema string) map[string]any {
			return inputOf("t", event.InputRequest{Questions: []event.InputQuestion{{Schema: []byte(schema)}}}).Questions[0].Schema
		}
		require.Equal(t, map[string]any{"type": "object"}, ask(`{"type":"object"}`))
		require.Nil(t, ask(`{"title":"`+strings.Repeat("x", maxMessage)+`"}`))
		require.Nil(t, ask(""))
	})
}

// TestLimited: a session has a number of calls at once, whatever other sessions do.
func TestLimited(t *testing.T) {
	busy := true
	var handler mcp.MethodHandler
	inner := 0
	// Each call is made from within the one before it, so that all are in progress at once.
	handler = limited(func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		inner++
		if busy && inner <= maxInFlight {
			return handler(ctx, method, req)
		}
		return nil, nil //nolint:nilnil // what it returns does not matter
	})
	call := func(method string) (mcp.Result, error) {
		inner = 0
		return handler(t.Context(), method, &mcp.CallToolRequest{})
	}
	const text = "32 calls are in progress, which is the most at once: call again when some have ended"
	got, err := call("tools/call")
	require.NoError(t, err)
	require.Equal(t, maxInFlight, inner)
	require.Equal(t, failure(errors.New(text)), got, "an error of a tool, which a model reads")
	_, err = call("resources/read")
	require.EqualError(t, err, text)
	_, err = call("tools/list")
	require.NoError(t, err)
	require.Equal(t, maxInFlight+1, inner, "what is cheap is not limited")
	busy = false
	_, err = call("resources/read")
	require.NoError(t, err, "those that have ended do not count")

	f := &inFlight{calls: map[mcp.Session]int{}}
	one, other := &mcp.ServerSession{}, &mcp.ServerSession{}
	for range maxInFlight {
		require.True(t, f.enter(one))
	}
	require.False(t, f.enter(one))
	require.True(t, f.enter(other))
	f.leave(one)
	require.True(t, f.enter(one))
	for range maxInFlight {
		f.leave(one)
	}
	f.leave(other)
	require.Empty(t, f.calls, "sessions that have ended leave nothing")
}

// TestListed: what a client can never use is not listed, and without known roles everything is.
func TestListed(t *testing.T) {
	list := func(roles auth.Roles) (names []string, resources, templates int) {
		s := newServer(t, &httpAPI{})
		s.roles = func(context.Context) auth.Roles { return roles }
		lists := map[string]mcp.Result{
			"tools": &mcp.ListToolsResult{Tools: []*mcp.Tool{{Name: "read"}, {Name: "ask"}, {Name: "decide"}}}, "resources": &mcp.ListResourcesResult{Resources: []*mcp.Resource{{}}},
			"templates": &mcp.ListResourceTemplatesResult{ResourceTemplates: []*mcp.ResourceTemplate{{}}},
		}
		handler := s.listed(map[string][]auth.Role{"read": {auth.RoleRead}, "ask": askRoles, "decide": {auth.RoleApprove}})(func(_ context.Context, method string, _ mcp.Request) (mcp.Result, error) {
			return lists[method], nil
		})
		for method := range lists {
			_, err := handler(t.Context(), method, nil)
			require.NoError(t, err)
		}
		for _, one := range lists["tools"].(*mcp.ListToolsResult).Tools {
			names = append(names, one.Name)
		}
		return names, len(lists["resources"].(*mcp.ListResourcesResult).Resources), len(lists["templates"].(*mcp.ListResourceTemplatesResult).ResourceTemplates)
	}
	for _, tt := range []struct {
		roles auth.Roles
		tools []string
		reads int
	}{
		{nil, []string{"read", "ask", "decide"}, 1},
		{auth.Roles{auth.RoleRead}, []string{"read"}, 1},
		{auth.Roles{auth.RolePost}, nil, 0},
		{auth.Roles{auth.RoleRead, auth.RolePost}, []string{"read", "ask"}, 1},
		{auth.Roles{auth.RoleApprove}, []string{"decide"}, 0},
		{auth.Roles{}, nil, 0},
	} {
		names, resources, templates := list(tt.roles)
		require.Equal(t, tt.tools, names, "%v", tt.roles)
		require.Equal(t, []int{tt.reads, tt.reads}, []int{resources, templates}, "%v", tt.roles)
	}
}

// TestResource: an address that names nothing is not found, and any other error is one.
func TestResource(t *testing.T) {
	var asked string
	read := func(uri string, err error) (*mcp.ReadResourceResult, error) {
		return resource(func(_ context.Context, name string) (any, error) {
			asked = name
			return map[string]string{"name": name}, err
		})(t.Context(), &mcp.ReadResourceRequest{Params: &mcp.ReadResourceParams{URI: uri}})
	}
	got, err := read("threadmill://agents/a%20b", nil)
	require.NoError(t, err)
	require.Equal(t, "a b", asked)
	require.Equal(t, []*mcp.ResourceContents{{URI: "threadmill://agents/a%20b", MIMEType: typeJSON, Text: `{"name":"a b"}`}}, got.Contents)
	missing := mcp.ResourceNotFoundError("threadmill://agents/x")
	for _, no := range []error{&notFoundError{"no"}, fmt.Errorf("reading: %w", &api.StatusError{Code: http.StatusNotFound})} {
		_, err = read("threadmill://agents/x", no)
		require.Equal(t, missing, err)
	}
	_, err = read("threadmill://agents/%zz", nil)
	require.Equal(t, mcp.ResourceNotFoundError("threadmill://agents/%zz"), err)
	_, err = read("threadmill://agents/x", &api.StatusError{Code: http.StatusForbidden, Detail: "no"})
	require.EqualError(t, err, "not permitted: no")
}
