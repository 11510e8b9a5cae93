package mcp

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/tool"
)

const (
	// maxPages is the maximum number of pages of a list that are read.
	maxPages = 100

	// maxListed is the maximum number of resources or prompts that are read.
	maxListed = 1000

	maxProblems = 50

	// Servers may say for how long a list is valid.
	minTTL, maxTTL = 10 * time.Second, time.Hour
)

// lists is what a server offers.
type lists struct {
	tools     []Tool
	resources int
	prompts   int
	problems  []Problem

	// ttl is the time for which the lists are valid; 0 = until the server says that they changed.
	ttl time.Duration

	// redact redacts their texts.
	redact *redact.Redactor
}

// clean is [clean] for a text of the lists, and line is [line].
func (l *lists) clean(text string, limit int) string { return clean(l.redact.Text(text), limit) }
func (l *lists) line(text string, limit int) string  { return line(l.redact.Text(text), limit) }

func (l *lists) problem(subject, format string, args ...any) {
	switch n := len(l.problems); {
	case n < maxProblems:
		l.problems = append(l.problems, Problem{Subject: l.line(subject, maxTitle), Reason: l.line(fmt.Sprintf(format, args...), maxReason)})
	case n == maxProblems:
		l.problems = append(l.problems, Problem{Subject: "…", Reason: "there are more problems"})
	}
}

func (l *lists) valid(ttlMs int) {
	if ttl := time.Duration(ttlMs) * time.Millisecond; ttl > 0 {
		ttl = min(max(ttl, minTTL), maxTTL)
		if l.ttl == 0 || ttl < l.ttl {
			l.ttl = ttl
		}
	}
}

// list reads what a server offers. The error is about tools; other lists that cannot be read are problems.
func (s *session) list(ctx context.Context, server Server, r *redact.Redactor) (*lists, error) {
	l := &lists{redact: r}
	if s.capabilities().Tools != nil {
		if err := s.listTools(ctx, server, l); err != nil {
			return nil, fmt.Errorf("reading the list of its tools: %w", err)
		}
	}
	if s.capabilities().Resources != nil {
		resources, err := s.resources(ctx, l)
		if l.resources = len(resources); err != nil {
			l.problem("resources/list", "%s", err)
		}
	}
	if s.capabilities().Prompts != nil {
		prompts, err := s.prompts(ctx, l)
		if l.prompts = len(prompts); err != nil {
			l.problem("prompts/list", "%s", err)
		}
	}
	if l.resources > 0 {
		l.tools = append(l.tools, resourceTools(l.tools, server)...)
	}
	slices.SortFunc(l.tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	return l, nil
}

func (s *session) listTools(ctx context.Context, server Server, l *lists) error {
	found, err := pages(ctx, l, "tools/list", server.MaxTools+maxListed, func(ctx context.Context, cursor string) ([]*sdk.Tool, string, error) {
		valid := map[string]bool{}
		res, err := captured[*sdk.ListToolsResult](ctx, func(ctx context.Context) error {
			res, err := s.client.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
			if err == nil {
				for _, t := range res.Tools {
					valid[t.Name] = true
				}
			}
			return err
		})
		if err != nil {
			return nil, "", err
		}
		l.valid(res.TTLMs)
		tools := slices.DeleteFunc(res.Tools, func(t *sdk.Tool) bool {
			wrong := annotated(t) && !valid[t.Name]
			if wrong {
				l.problem(t.Name, "the tool is left out: its x-mcp-header annotations are not valid")
			}
			return wrong
		})
		return tools, res.NextCursor, nil
	})
	if err != nil {
		return err
	}
	// The order of a list must not decide which of two names gets a hash.
	slices.SortStableFunc(found, func(a, b *sdk.Tool) int { return strings.Compare(a.Name, b.Name) })
	named, size, left := newNames(server.Name), 0, 0
	for i, t := range found {
		if !wanted(server.Tools, t.Name) {
			continue
		}
		if i > 0 && t.Name == found[i-1].Name {
			l.problem(t.Name, "a second tool has the same name; it is left out")
			continue
		}
		if len(l.tools) >= server.MaxTools {
			left++
			continue
		}
		offered, err := l.offer(server, named, t)
		if err != nil {
			l.problem(t.Name, "the tool is left out: %s", err)
			continue
		}
		if size += len(offered.Description) + len(offered.Parameters); size > server.MaxCatalog {
			l.problem("tools", "the descriptions and schemas of all tools have more than %s (maxCatalog): the tools from %q on are left out", bytesText(server.MaxCatalog), line(t.Name, maxTitle))
			return nil
		}
		l.tools = append(l.tools, offered)
	}
	if left > 0 {
		l.problem("tools", "more than %d tools (maxTools): %d are left out; name those to offer in tools", server.MaxTools, left)
	}
	return nil
}

// pages reads a list with at most limit items.
func pages[T any](ctx context.Context, l *lists, subject string, limit int, get func(context.Context, string) ([]*T, string, error)) ([]*T, error) {
	var all []*T
	cursor := ""
	for n := 1; ; n++ {
		items, next, err := get(ctx, cursor)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if item == nil {
				continue
			}
			if len(all) == limit {
				l.problem(subject, "more than %d items: the rest is left out", limit)
				return all, nil
			}
			all = append(all, item)
		}
		switch {
		case next == "":
			return all, nil
		case next == cursor || n == maxPages:
			l.problem(subject, "the list does not end after %d pages: the rest is left out", n)
			return all, nil
		}
		cursor = next
	}
}

func wanted(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}

// offer returns a tool as agents get it, or the reason why they do not.
func (l *lists) offer(server Server, named *names, t *sdk.Tool) (Tool, error) {
	switch {
	case t.Name == "":
		return Tool{}, fmt.Errorf("it has no name")
	case len(t.Name) > maxOwnName:
		return Tool{}, fmt.Errorf("its name has %d bytes, must have at most %d", len(t.Name), maxOwnName)
	case hides(t.Name) || strings.ContainsAny(t.Name, "\n\t"):
		return Tool{}, fmt.Errorf("its name has control characters")
	}
	schema, err := parameters(t.InputSchema, l.redact)
	if err != nil {
		return Tool{}, err
	}
	name := named.of(t.Name)
	if name == "" {
		return Tool{}, fmt.Errorf("another tool has the same name")
	}
	out := Tool{Name: name, OwnName: t.Name, Title: l.line(t.Title, maxTitle), Description: l.clean(t.Description, maxDescription), Parameters: schema}
	// What the protocol says if a hint is missing.
	out.Hints = Hints{Destructive: true, OpenWorld: true}
	if a := t.Annotations; a != nil {
		out.Hints.ReadOnly = a.ReadOnlyHint
		out.Hints.Idempotent = a.IdempotentHint
		out.Hints.Destructive = a.DestructiveHint == nil || *a.DestructiveHint
		out.Hints.OpenWorld = a.OpenWorldHint == nil || *a.OpenWorldHint
		if out.Title == "" {
			out.Title = l.line(a.Title, maxTitle)
		}
	}
	if out.Hints.ReadOnly {
		out.Hints.Destructive = false
	}
	out.Digest = definition(server, out).Digest()
	return out, nil
}

// definition returns the definition of a tool for agents.
func definition(server Server, t Tool) tool.Definition {
	d := tool.Definition{
		Name: t.Name, Description: t.Description, Parameters: t.Parameters,
		Timeout: server.Timeout + connectWait + slack, TaskQueue: server.TaskQueue,
	}
	if d.Description == "" {
		d.Description = t.Title
	}
	switch {
	case !server.Trusted:
		d.NeedsApproval = true
		d.ApprovalReason = fmt.Sprintf("runs %s of the MCP server %s, which is not trusted", line(t.OwnName, maxTitle), server.Name)
	case t.Hints.ReadOnly:
		d.Idempotent = true
		// Part of the description, so that approvers are asked again when a hint changes.
		d.Description = appended(d.Description, "It changes nothing.")
	case t.Hints.Destructive:
		d.Idempotent, d.NeedsApproval = t.Hints.Idempotent, true
		d.ApprovalReason = fmt.Sprintf("the MCP server %s says that %s may change or delete what exists", server.Name, line(t.OwnName, maxTitle))
		d.Description = appended(d.Description, "It may change or delete what exists.")
	default:
		d.Idempotent = t.Hints.Idempotent
		d.Description = appended(d.Description, "It only adds.")
	}
	if server.Trusted && d.Idempotent && !t.Hints.ReadOnly {
		d.Description = appended(d.Description, "A repeated call has no further effect.")
	}
	return d
}

func appended(text, sentence string) string {
	if text == "" {
		return sentence
	}
	return strings.TrimRight(text, "\n ") + "\n" + sentence
}

// history sets when tools were seen first and changed last.
func history(now time.Time, before, after []Tool) {
	known := make(map[string]Tool, len(before))
	for _, t := range before {
		known[t.OwnName+"\x00"+t.Name] = t
	}
	for i := range after {
		t := &after[i]
		old, seen := known[t.OwnName+"\x00"+t.Name]
		switch {
		case !seen:
			t.FirstSeen = now
		case old.Digest != t.Digest:
			t.FirstSeen, t.ChangedAt = old.FirstSeen, &now
		default:
			t.FirstSeen, t.ChangedAt = old.FirstSeen, old.ChangedAt
		}
	}
}
