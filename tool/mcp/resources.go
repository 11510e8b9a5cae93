package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/internal/text/excerpt"
	"github.com/threadmill/threadmill/tool"
)

// The methods of the protocol that are offered as tools.
const (
	methodListResources = "resources/list"
	methodReadResource  = "resources/read"
)

type (
	// Resource is [tool.ServerResource].
	Resource = tool.ServerResource
	// Content is [tool.ServerContent].
	Content = tool.ServerContent
	// Prompt is [tool.ServerPrompt].
	Prompt = tool.ServerPrompt
	// PromptText is [tool.ServerPromptText].
	PromptText = tool.ServerPromptText
	// PromptMessage is [tool.ServerPromptMessage].
	PromptMessage = tool.ServerPromptMessage
)

// resourceTools returns the tools that read the resources of a server, next to its own tools.
func resourceTools(own []Tool, server Server) []Tool {
	named := newNames(server.Name)
	for _, t := range own {
		named.take(t.Name)
	}
	out := []Tool{
		{
			OwnName: "list_resources", Method: methodListResources, Title: "List resources",
			Description: fmt.Sprintf("Lists the resources of the MCP server %s: their URIs, names and descriptions.", server.Name),
			Parameters:  json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		},
		{
			OwnName: "read_resource", Method: methodReadResource, Title: "Read a resource",
			Description: fmt.Sprintf("Reads a resource of the MCP server %s.", server.Name),
			Parameters:  json.RawMessage(`{"type":"object","properties":{"uri":{"type":"string","description":"the URI of the resource; a template must be filled in","maxLength":2048}},"required":["uri"],"additionalProperties":false}`),
		},
	}
	kept := out[:0]
	for _, t := range out {
		if !wanted(server.Tools, t.OwnName) {
			continue
		}
		t.Name, t.Hints = named.of(t.OwnName), Hints{ReadOnly: true, OpenWorld: true}
		t.Digest = definition(server, t).Digest()
		kept = append(kept, t)
	}
	return kept
}

// method runs a tool that stands for a method of the protocol.
func (r *toolCall) method(ctx context.Context, s *session) (tool.Result, error) {
	if r.tool.Method == methodListResources {
		l := &lists{}
		resources, err := s.resources(ctx, l)
		if err != nil {
			return tool.Result{}, err
		}
		text, err := strictjson.Encode(map[string]any{"resources": resources, "problems": l.problems})
		if err != nil {
			return tool.Result{}, err
		}
		return tool.Result{Output: excerpt.Text(string(text), r.server.MaxResult)}, nil
	}
	var in struct {
		URI string `json:"uri"`
	}
	if err := json.Unmarshal([]byte(r.call.Arguments), &in); err != nil {
		return tool.Result{}, err
	}
	contents, err := s.read(ctx, in.URI)
	if err != nil {
		return tool.Result{}, err
	}
	out := &rendering{limit: r.server.MaxResult}
	for _, c := range contents {
		out.resource(c)
	}
	result := tool.Result{Output: out.String()}
	if len(out.parts) > 0 {
		result.Details = map[string]any{"content": out.parts}
	}
	return result, nil
}

// resources returns the resources of the server, and the templates of their URIs.
func (s *session) resources(ctx context.Context, l *lists) ([]Resource, error) {
	listed, err := pages(ctx, l, "resources/list", maxListed, func(ctx context.Context, cursor string) ([]*sdk.Resource, string, error) {
		res, err := captured[*sdk.ListResourcesResult](ctx, func(ctx context.Context) error {
			_, err := s.client.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
			return err
		})
		if err != nil {
			return nil, "", err
		}
		l.valid(res.TTLMs)
		return res.Resources, res.NextCursor, nil
	})
	if err != nil {
		return nil, err
	}
	out := []Resource{}
	for _, r := range listed {
		if usableURI(l, r.URI) {
			out = append(out, Resource{
				URI: r.URI, Name: l.line(r.Name, maxTitle), Title: l.line(r.Title, maxTitle), Description: l.clean(r.Description, maxDescription),
				MIMEType: l.line(r.MIMEType, maxTitle), Size: r.Size,
			})
		}
	}
	templates, err := pages(ctx, l, "resources/templates/list", maxListed, func(ctx context.Context, cursor string) ([]*sdk.ResourceTemplate, string, error) {
		res, err := captured[*sdk.ListResourceTemplatesResult](ctx, func(ctx context.Context) error {
			_, err := s.client.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
			return err
		})
		if err != nil {
			return nil, "", err
		}
		return res.ResourceTemplates, res.NextCursor, nil
	})
	if err != nil {
		l.problem("resources/templates/list", "%s", err) // many servers have resources and no templates
	}
	for _, t := range templates {
		if usableURI(l, t.URITemplate) {
			out = append(out, Resource{
				URI: t.URITemplate, Template: true, Name: l.line(t.Name, maxTitle), Title: l.line(t.Title, maxTitle),
				Description: l.clean(t.Description, maxDescription), MIMEType: l.line(t.MIMEType, maxTitle),
			})
		}
	}
	return out, nil
}

func usableURI(l *lists, uri string) bool {
	if uri == "" || len(uri) > maxURI || hides(uri) || strings.ContainsAny(uri, "\n\t") {
		l.problem(line(uri, maxTitle), "the resource is left out: its URI is empty, too long or has control characters")
		return false
	}
	return true
}

// read reads a resource.
func (s *session) read(ctx context.Context, uri string) ([]*sdk.ResourceContents, error) {
	res, err := captured[*sdk.ReadResourceResult](ctx, func(ctx context.Context) error {
		_, err := s.client.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case res.NeedsInput():
		return nil, errors.New("the server asks for a person's input, which only its tools can do")
	case len(res.Contents) > maxParts:
		return res.Contents[:maxParts], nil
	}
	return res.Contents, nil
}

// prompts returns the prompts of the server.
func (s *session) prompts(ctx context.Context, l *lists) ([]Prompt, error) {
	listed, err := pages(ctx, l, "prompts/list", maxListed, func(ctx context.Context, cursor string) ([]*sdk.Prompt, string, error) {
		res, err := captured[*sdk.ListPromptsResult](ctx, func(ctx context.Context) error {
			_, err := s.client.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
			return err
		})
		if err != nil {
			return nil, "", err
		}
		l.valid(res.TTLMs)
		return res.Prompts, res.NextCursor, nil
	})
	if err != nil {
		return nil, err
	}
	out := []Prompt{}
	for _, p := range listed {
		if p.Name == "" || len(p.Name) > maxOwnName || hides(p.Name) {
			l.problem(p.Name, "the prompt is left out: its name is empty, too long or has control characters")
			continue
		}
		one := Prompt{Name: p.Name, Title: l.line(p.Title, maxTitle), Description: l.clean(p.Description, maxDescription)}
		for i, a := range p.Arguments {
			if a != nil && i < maxQuestions {
				one.Arguments = append(one.Arguments, tool.ServerPromptArgument{
					Name: line(a.Name, maxTitle), Title: l.line(a.Title, maxTitle), Description: l.clean(a.Description, maxDescription), Required: a.Required,
				})
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// ErrNotLocal means that another process runs the server.
var ErrNotLocal = errors.New("the MCP server does not run in this process")

// with calls a function with the session of a server.
func (m *Manager) with(ctx context.Context, namespace, server string, do func(context.Context, *connection, *session) error) error {
	d, err := m.find(ctx, namespace, server)
	if err != nil {
		return err
	}
	if d.server.personal() {
		return fmt.Errorf("MCP server %q: people log in to it, and only calls of agents say for whom they are", server)
	}
	c := m.connection(account{key: d.key})
	if c == nil {
		return fmt.Errorf("%w: %s", ErrNotLocal, server)
	}
	s, err := c.acquire(ctx, connectWait)
	if err != nil {
		return err
	}
	defer s.release()
	ctx, cancel := context.WithTimeout(ctx, c.server.Timeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err := do(ctx, c, s); err != nil {
		return fmt.Errorf("MCP server %q: %s", server, c.text(err.Error(), maxError))
	}
	return nil
}

// Resources returns the resources of a server, and the templates of their URIs. Only the process that runs
// the server can; others return [ErrNotLocal].
func (m *Manager) Resources(ctx context.Context, namespace, server string) ([]Resource, error) {
	var out []Resource
	err := m.with(ctx, namespace, server, func(ctx context.Context, c *connection, s *session) (err error) {
		if s.capabilities().Resources != nil {
			out, err = s.resources(ctx, &lists{redact: c.cfg.Redact})
		}
		return err
	})
	return out, err
}

// ReadResource reads a resource of a server. Parts beyond its MaxResult are cut. Only the process that runs the
// server can; others return [ErrNotLocal].
func (m *Manager) ReadResource(ctx context.Context, namespace, server, uri string) ([]Content, error) {
	var out []Content
	err := m.with(ctx, namespace, server, func(ctx context.Context, c *connection, s *session) error {
		contents, err := s.read(ctx, uri)
		left := c.server.MaxResult
		for _, part := range contents {
			if part == nil {
				continue
			}
			one := Content{URI: line(part.URI, maxURI), MIMEType: line(part.MIMEType, maxTitle)}
			if len(part.Blob) > 0 {
				if len(part.Blob) > left {
					return fmt.Errorf("the resource has more than %s (maxResult)", bytesText(c.server.MaxResult))
				}
				one.Data = part.Blob
			} else {
				one.Text = excerpt.Text(clean(part.Text, len(part.Text)*2), max(left, minResult))
			}
			left -= len(one.Data) + len(one.Text)
			out = append(out, one)
		}
		return err
	})
	return out, err
}

// Prompts returns the prompts of a server. Only the process that runs the server can; others return
// [ErrNotLocal].
func (m *Manager) Prompts(ctx context.Context, namespace, server string) ([]Prompt, error) {
	var out []Prompt
	err := m.with(ctx, namespace, server, func(ctx context.Context, c *connection, s *session) (err error) {
		if s.capabilities().Prompts != nil {
			out, err = s.prompts(ctx, &lists{redact: c.cfg.Redact})
		}
		return err
	})
	return out, err
}

// Prompt fills in a prompt of a server. Only the process that runs the server can; others return
// [ErrNotLocal].
func (m *Manager) Prompt(ctx context.Context, namespace, server, name string, arguments map[string]string) (PromptText, error) {
	out := PromptText{Messages: []PromptMessage{}}
	err := m.with(ctx, namespace, server, func(ctx context.Context, c *connection, s *session) error {
		res, err := bounded(ctx, func() (*sdk.GetPromptResult, error) {
			return s.client.GetPrompt(ctx, &sdk.GetPromptParams{Name: name, Arguments: arguments})
		})
		switch {
		case err != nil:
			return err
		case res.NeedsInput():
			return errors.New("the prompt asks for a person's input, which only tools can do")
		}
		out.Description = clean(res.Description, maxDescription)
		left := c.server.MaxResult
		for i, msg := range res.Messages {
			if msg == nil || i >= maxParts {
				continue
			}
			r := &rendering{limit: max(left, minResult)}
			r.content(msg.Content)
			text := r.String()
			left -= len(text)
			role := "user"
			if msg.Role == "assistant" {
				role = "assistant"
			}
			out.Messages = append(out.Messages, PromptMessage{Role: role, Text: text})
		}
		return nil
	})
	return out, err
}
