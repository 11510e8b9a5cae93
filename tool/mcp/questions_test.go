package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
)

// booking is a server whose tool asks for a day: within the call in the old protocol, and with a result of
// its own in the new one.
func booking() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "booking", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"day":{"type":"string"}},"required":["day"]}`)
	s.AddTool(&sdk.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if a, ok := req.Params.InputResponses["when"].(*sdk.ElicitResult); ok {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(a.Action, " ", a.Content["day"], " ", req.Params.RequestState)}}}, nil
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"when": &sdk.ElicitParams{Message: "When?", RequestedSchema: schema}}, RequestState: "s1"}, nil
	})
	s.AddTool(&sdk.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var said []string
		for _, message := range []string{"When?", "Sure?"} {
			a, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: message, RequestedSchema: schema})
			if err != nil {
				return nil, err
			}
			said = append(said, fmt.Sprint(a.Action, " ", a.Content["day"]))
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(said, ", ")}}}, nil
	})
	return s
}

// answering answers the questions of a call until it has a result, and returns it with the questions.
func answering(t *testing.T, one tool.Tool, answers ...event.InputAnswer) (out tool.Result, asked []string) {
	t.Helper()
	var input *tool.Input
	for {
		res, err := one.Call(t.Context(), tool.Call{ID: "c1", Arguments: "{}", Namespace: "default", Input: input, OnProgress: func(any) {}})
		need, asks := errors.AsType[*tool.InputRequired](err)
		if !asks {
			require.NoError(t, err)
			return res, asked
		}
		require.Less(t, len(asked), len(answers), "it asks again: %+v", need.Questions)
		require.Len(t, need.Questions, 1)
		q := need.Questions[0]
		require.Equal(t, event.InputForm, q.Kind)
		require.NoError(t, tool.CheckQuestion(q))
		input = &tool.Input{State: need.State, Answers: map[string]event.InputAnswer{q.ID: answers[len(asked)]}}
		asked = append(asked, q.Message)
	}
}

// TestQuestions answers what servers ask, in both protocols. Each answer comes with a call of its own, as
// after a wait of a week.
func TestQuestions(t *testing.T) {
	stateless := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return booking() }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(stateless.Close)
	sessions := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return booking() }, nil))
	t.Cleanup(sessions.Close)
	m := run(t, mcp.Config{Servers: []mcp.Server{
		program("local", "booking"), {Name: "remote", URL: stateless.URL, Trusted: true}, {Name: "old", URL: sessions.URL, Trusted: true},
	}})
	day := func(s string) event.InputAnswer {
		return event.InputAnswer{Action: event.InputAccept, Content: json.RawMessage(`{"day":"` + s + `"}`)}
	}
	for _, name := range []string{"local", "remote"} {
		t.Run(name, func(t *testing.T) {
			ready(t, m, name)
			out, asked := answering(t, find(t, m, name+"__book"), day("monday"))
			require.Equal(t, []string{"When?"}, asked)
			require.Equal(t, "accept monday s1", out.Output)
			out, _ = answering(t, find(t, m, name+"__book"), event.InputAnswer{Action: event.InputDecline})
			require.Contains(t, out.Output, "decline")
		})
	}
	t.Run("in the middle of a call", func(t *testing.T) {
		require.Less(t, ready(t, m, "old").ProtocolVersion, "2026")
		out, asked := answering(t, find(t, m, "old__ask"), day("monday"), event.InputAnswer{Action: event.InputDecline})
		require.Equal(t, []string{"When?", "Sure?"}, asked)
		require.Equal(t, "accept monday, decline <nil>", out.Output)
	})
}
