package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/tool/mcp"
	"github.com/threadmill/threadmill/tool/tooltest"
)

// rich is a server with results of all kinds, resources and prompts.
func rich() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "rich", Version: "1"}, nil)
	size := int64(2048)
	results := map[string]*sdk.CallToolResult{
		"text":       {Content: []sdk.Content{&sdk.TextContent{Text: "a\x1b[2J"}, &sdk.TextContent{Text: "b"}}},
		"image":      {Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: []byte("png")}, &sdk.AudioContent{MIMEType: "audio/wav", Data: make([]byte, 3<<10)}}},
		"link":       {Content: []sdk.Content{&sdk.ResourceLink{URI: "file:///a", Name: "a", MIMEType: "text/plain", Size: &size, Description: "The file."}}},
		"embedded":   {Content: []sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///a", Text: "inside"}}, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b", Blob: []byte("blob")}}}},
		"structured": {StructuredContent: map[string]any{"n": 1}},
		"both":       {Content: []sdk.Content{&sdk.TextContent{Text: "one"}}, StructuredContent: map[string]any{"n": 1}},
		"failed":     {IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no disk"}}},
		"empty":      {Content: []sdk.Content{}},
		"long":       {Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("é", 5000)}}},
	}
	for name, result := range results {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return result, nil
		})
	}
	s.AddResource(&sdk.Resource{URI: "memo://one", Name: "one", Description: "The \u202efirst.", MIMEType: "text/plain"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "memo://one", Text: "content\x07"}, {URI: "memo://one", MIMEType: "image/png", Blob: []byte("png")}}}, nil
	})
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "memo://{name}", Name: "any"}, func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	})
	s.AddPrompt(&sdk.Prompt{Name: "greet", Title: "Greet", Arguments: []*sdk.PromptArgument{{Name: "name", Required: true}}}, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Greet " + req.Params.Arguments["name"]}}}}, nil
	})
	return s
}

func richManager(t *testing.T) *mcp.Manager {
	t.Helper()
	remote := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return rich() }, nil))
	t.Cleanup(remote.Close)
	m := run(t, mcp.Config{Servers: []mcp.Server{{Name: "rich", URL: remote.URL, Trusted: true, MaxResult: 2 << 10}, {
		Name: "few", URL: remote.URL, Tools: []string{"t*", "read_*"},
	}}})
	ready(t, m, "rich")
	ready(t, m, "few")
	return m
}

func TestResults(t *testing.T) {
	m := richManager(t)
	for name, want := range map[string]string{
		"text":       "a\\u001b[2J\nb",
		"image":      "[image (image/png), 3 bytes; shown to people only]\n[audio (audio/wav), 3.0 KiB; shown to people only]",
		"link":       "[link to a resource: a file:///a (text/plain), 2.0 KiB] The file.",
		"embedded":   "[resource file:///a]\ninside\n[data file:///b, 4 bytes; shown to people only]",
		"structured": `{"n":1}`, "both": "one\n{\"n\":1}", "failed": "no disk", "empty": "The tool returned nothing.",
	} {
		out := tooltest.Run(t, find(t, m, "rich__"+name), `{}`)
		require.NoError(t, out.Err)
		require.Equal(t, want, out.Result.Output, name)
		require.Equal(t, name == "failed", out.Result.IsError)
		raw, err := json.Marshal(out.Result.Details)
		require.NoError(t, err)
		switch name {
		case "image":
			require.Equal(t, `{"content":[{"bytes":3,"data":"cG5n","mimeType":"image/png","type":"image"},{"bytes":3072,"mimeType":"audio/wav","type":"audio"}]}`, string(raw))
		case "both", "structured":
			require.Equal(t, `{"structuredContent":{"n":1}}`, string(raw))
		}
	}
	long := tooltest.Run(t, find(t, m, "rich__long"), `{}`).Result.Output
	require.LessOrEqual(t, len(long), 2<<10)
	require.True(t, strings.HasSuffix(long, "é\n[… cut: this is only the beginning of 10000 bytes …]"), long[len(long)-100:])
	require.Greater(t, len(long), 2<<10-4)

	wrong := tooltest.Run(t, find(t, m, "rich__text"), `[]`)
	require.NoError(t, wrong.Err)
	require.Contains(t, wrong.Result.Output, "Tool parameter validation failed for rich__text")
}

// structuredResults are results with structured content, and what the model sees.
var structuredResults = map[string]struct{ result, want string }{
	"only":          {`{"content":[],"structuredContent":{"id":1915883588174806058,"small":1.50}}`, `{"id":1915883588174806058,"small":1.50}`},
	"a summary":     {`{"content":[{"type":"text","text":"2 items."}],"structuredContent":{"items":["<a>","b"]}}`, "2 items.\n" + `{"items":["<a>","b"]}`},
	"the same":      {`{"content":[{"type":"text","text":"{\"b\": [1915883588174806058], \"a\": \"\\u00e9\"}"}],"structuredContent":{"a":"é","b":[1915883588174806058]}}`, `{"b": [1915883588174806058], "a": "\u00e9"}`},
	"other digits":  {`{"content":[{"type":"text","text":"{\"id\":1915883588174806000}"}],"structuredContent":{"id":1915883588174806058}}`, `{"id":1915883588174806000}` + "\n" + `{"id":1915883588174806058}`},
	"wrapped":       {`{"content":[{"type":"text","text":"it rains"}],"structuredContent":{"result":"it rains"}}`, "it rains"},
	"another field": {`{"content":[{"type":"text","text":"it rains"}],"structuredContent":{"content":"it rains"}}`, "it rains"},
	"wrapped list":  {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"{\"n\": 2}"}],"structuredContent":{"result":["a",{"n":2}]}}`, "a\n" + `{"n": 2}`},
	"wrapped other": {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"structuredContent":{"result":["a","c"]}}`, "a\nb\n" + `{"result":["a","c"]}`},
	"a text":        {`{"content":[],"structuredContent":"7"}`, `"7"`},
	"nothing":       {`{"content":[{"type":"text","text":"ok"}],"structuredContent":null}`, "ok"},
	"hidden":        {`{"content":[],"structuredContent":{"a":"x\u202e"}}`, `{"a":"x\u202e"}`},
	"a secret":      {`{"content":[{"type":"text","text":"ok"}],"structuredContent":{"pem":"the key:\nsk-very-\u0073ecret"}}`, "ok\n" + `{"pem":"[it]"}`},
	"a huge number": {`{"content":[],"structuredContent":{"n":1e999}}`, `{"n":1e999}`},
}

// TestStructured: the model sees structured content exactly, and once.
func TestStructured(t *testing.T) {
	stream := false
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var msg struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Arguments json.RawMessage `json:"arguments"`
			} `json:"params"`
		}
		_ = json.NewDecoder(r.Body).Decode(&msg)
		var result string
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case len(msg.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
			return
		case msg.Method == "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
		case msg.Method == "tools/list":
			result = `{"tools":` + oneTool + `}`
		case msg.Method == "tools/call":
			result = resultIn(msg.Params.Arguments)
		default:
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		before, after := "\ufeff", "\n"
		w.Header().Set("Content-Type", "application/json")
		if stream {
			before, after = ": hi\r\nevent: message\ndata:", "\n\n"
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = io.WriteString(w, before+`{"jsonrpc":"2.0","id":`+string(msg.ID)+`,"result":`+result+`}`+after)
	}))
	t.Cleanup(remote.Close)
	redactor, err := redact.New(redact.Config{Func: func(text string) string {
		if strings.Contains(text, "key:\nsk-very-secret") {
			return "[it]"
		}
		return text
	}})
	require.NoError(t, err)
	stdio := program("raw", "structured")
	m := run(t, mcp.Config{Redact: redactor, Servers: []mcp.Server{stdio, {Name: "remote", URL: remote.URL}}})
	for name, tc := range structuredResults {
		arguments, err := json.Marshal(map[string]string{"result": tc.result})
		require.NoError(t, err)
		for _, server := range []string{"raw", "remote", "remote"} {
			ready(t, m, server)
			stream = server == "remote" && !stream
			out := tooltest.Run(t, find(t, m, server+"__do"), string(arguments))
			require.NoError(t, out.Err, "%s of %s", name, server)
			require.Equal(t, tc.want, out.Result.Output, "%s of %s, stream: %t", name, server, stream)
			details, err := json.Marshal(out.Result.Details)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(details, new(any)), "later readers can read them")
			if name == "only" {
				require.JSONEq(t, `{"structuredContent":{"id":1915883588174806058,"small":1.50}}`, string(details))
				require.Contains(t, string(details), "1915883588174806058")
			}
		}
		stream = false
	}
}

func TestResources(t *testing.T) {
	m := richManager(t)
	require.Len(t, m.Tools(t.Context(), "default", []string{"few__*"}), 2, "tools restricts them, too")
	out := tooltest.Run(t, find(t, m, "rich__list_resources"), `{}`)
	require.NoError(t, out.Err)
	require.Contains(t, out.Result.Output, `{"uri":"memo://one","name":"one","description":"The \\u202efirst.","mimeType":"text/plain"}`)
	require.Contains(t, out.Result.Output, `{"uri":"memo://{name}","template":true,"name":"any"}`)
	read := find(t, m, "rich__read_resource")
	require.True(t, read.Definition().Idempotent)
	require.False(t, read.Definition().NeedsApproval)
	out = tooltest.Run(t, read, `{"uri":"memo://one"}`)
	require.NoError(t, out.Err)
	require.Equal(t, "[resource memo://one (text/plain)]\ncontent\\u0007\n[data memo://one (image/png), 3 bytes; shown to people only]", out.Result.Output)
	require.ErrorContains(t, tooltest.Run(t, read, `{"uri":"memo://two"}`).Err, `rich__read_resource of the MCP server "rich": the server answered with an error: `)

	listed, err := m.Resources(t.Context(), "default", "rich")
	require.NoError(t, err)
	require.Len(t, listed, 2)
	contents, err := m.ReadResource(t.Context(), "default", "rich", "memo://one")
	require.NoError(t, err)
	require.Equal(t, []mcp.Content{{URI: "memo://one", MIMEType: "text/plain", Text: `content\u0007`}, {URI: "memo://one", MIMEType: "image/png", Data: []byte("png")}}, contents)
	_, err = m.ReadResource(t.Context(), "default", "rich", "memo://two")
	require.ErrorContains(t, err, `MCP server "rich": `)
}

func TestPrompts(t *testing.T) {
	m := richManager(t)
	prompts, err := m.Prompts(t.Context(), "default", "rich")
	require.NoError(t, err)
	require.Len(t, prompts, 1)
	require.Equal(t, "Greet", prompts[0].Title)
	require.True(t, prompts[0].Arguments[0].Required)
	text, err := m.Prompt(t.Context(), "default", "rich", "greet", map[string]string{"name": "Ann"})
	require.NoError(t, err)
	require.Equal(t, mcp.PromptText{Messages: []mcp.PromptMessage{{Role: "user", Text: "Greet Ann"}}}, text)
	_, err = m.Prompt(t.Context(), "default", "rich", "nobody", nil)
	require.Error(t, err)
	_, err = m.Prompts(t.Context(), "default", "nobody")
	require.ErrorIs(t, err, mcp.ErrNoServer)
	s := state(t, m, "rich")
	require.Equal(t, []int{2, 1}, []int{s.Resources, s.Prompts})
}

// TestEnvironment: a program sees what it is given, and nothing else of the worker.
func TestEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-worker")
	s := program("raw", "environment")
	s.Env = map[string]mcp.Secret{"TOKEN": "very-secret-token"}
	m := run(t, mcp.Config{Servers: []mcp.Server{s}})
	ready(t, m, "raw")
	out := tooltest.Run(t, find(t, m, "raw__do"), `{}`)
	require.NoError(t, out.Err)
	require.Contains(t, out.Result.Output, "TOKEN=very-secret-token")
	require.Contains(t, out.Result.Output, "PATH="+os.Getenv("PATH"))
	require.NotContains(t, out.Result.Output, "sk-of-the-worker")
	require.NotContains(t, state(t, m, "raw").Log, "very-secret")
	require.Contains(t, state(t, m, "raw").Log, "token: [hidden]")
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "very-secret")
}

func TestValidate(t *testing.T) {
	for want, s := range map[string]mcp.Server{
		`MCP server name "a_b": use 1 to 24`:                            {Name: "a_b", URL: "http://x"},
		`MCP server "a": either command or url is required`:             {Name: "a"},
		`MCP server "a": command and url exclude each other`:            {Name: "a", URL: "http://x", Command: []string{"x"}},
		`MCP server "a": url must be an address`:                        {Name: "a", URL: "ftp://x"},
		`MCP server "a": env and dir belong to command`:                 {Name: "a", URL: "http://x", Dir: "x"},
		`MCP server "a": headers belong to url`:                         {Name: "a", Command: []string{"x"}, Headers: map[string]mcp.Secret{"A": "b"}},
		`MCP server "a": header "a b" is not valid`:                     {Name: "a", URL: "http://x", Headers: map[string]mcp.Secret{"a b": "b"}},
		`MCP server "a": header "A" is not valid`:                       {Name: "a", URL: "http://x", Headers: map[string]mcp.Secret{"A": "b\r\nC: d"}},
		`MCP server "a": timeout is -1ns`:                               {Name: "a", URL: "http://x", Timeout: -1},
		`MCP server "a": maxTools is 1001, must be 1 to 1000`:           {Name: "a", URL: "http://x", MaxTools: 1001},
		`MCP server "a": maxResult is 5, must be 1024 to 8388608 bytes`: {Name: "a", URL: "http://x", MaxResult: 5},
		`MCP server "a": tools: "[" is not a glob pattern`:              {Name: "a", URL: "http://x", Tools: []string{"["}},
		`MCP server "a": env "A=b" must be the name of a variable`:      {Name: "a", Command: []string{"x"}, Env: map[string]mcp.Secret{"A=b": ""}},
	} {
		require.ErrorContains(t, s.Validate(), want)
	}
	_, err := mcp.New(mcp.Config{Servers: []mcp.Server{{Name: "a", URL: "http://x"}, {Name: "a", URL: "http://x"}}})
	require.ErrorContains(t, err, `MCP server "a": the name is used twice`)
}
