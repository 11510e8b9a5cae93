package scripted

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/script"
)

// CodeMismatch is the Code of the [llm.Error] of a request for which the script has no reply.
const CodeMismatch = "no_scripted_reply"

// Model is a model that follows a script. It is safe for concurrent use.
type Model struct {
	mu         sync.Mutex
	replies    []Reply
	requests   []llm.Request
	mismatched func(error)
}

var _ llm.Provider = (*Model)(nil)

// New returns a model with a script.
func New(replies ...Reply) *Model { return &Model{replies: slices.Clone(replies)} }

// Add adds replies at the end of the script.
func (m *Model) Add(replies ...Reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replies = append(m.replies, replies...)
}

// OnMismatch sets a function that is called with the error of each request for which the script has
// no reply, such as one that fails the test.
func (m *Model) OnMismatch(f func(error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mismatched = f
}

// Requests returns all requests so far, in the order of their arrival.
func (m *Model) Requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Left describes the replies that nobody has asked for, a line each, without those that are for any
// number of requests.
func (m *Model) Left() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []string
	for _, r := range m.replies {
		if !r.Always {
			left = append(left, r.String())
		}
	}
	return left
}

// Generate implements [llm.Provider].
func (m *Model) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if err := ctx.Err(); err != nil {
		return llm.Response{}, err
	}
	r, err := m.next(req)
	if err != nil {
		return llm.Response{}, err
	}
	if r.Func != nil {
		said := r.Func(req)
		r.Thought, r.Text, r.Calls, r.Err = said.Thought, said.Text, said.Calls, said.Err
	}
	if onDelta == nil {
		onDelta = func(llm.Delta) {}
	}
	return r.play(ctx, req, onDelta)
}

// next returns the reply to a request and removes it from the script.
func (m *Model) next(req llm.Request) (Reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, req)
	i := slices.IndexFunc(m.replies, func(r Reply) bool { return r.fits(req) })
	if i < 0 {
		err := m.mismatch(req)
		if m.mismatched != nil {
			m.mismatched(err)
		}
		return Reply{}, err
	}
	r := m.replies[i]
	if !r.Always {
		m.replies = slices.Delete(m.replies, i, i+1)
	}
	return r, nil
}

// mismatch says what was asked, and what the script expects.
func (m *Model) mismatch(req llm.Request) *llm.Error {
	expects := "the script is at its end"
	if len(m.replies) > 0 {
		var left []string
		for _, r := range m.replies[:min(len(m.replies), 5)] {
			left = append(left, r.String())
		}
		expects = "the script expects: " + strings.Join(left, "; ")
		if more := len(m.replies) - len(left); more > 0 {
			expects += fmt.Sprintf("; and %d more", more)
		}
	}
	last := lastOf(req)
	return &llm.Error{Provider: provider, Code: CodeMismatch, Message: fmt.Sprintf(
		"no reply fits: model %q was asked by %s %q; %s", req.Model, last.Role, brief(last.Content), expects)}
}

// word is a word with the space before it.
var word = regexp.MustCompile(`\s*\S+|\s+$`)

// play streams the reply.
func (r Reply) play(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	out := llm.Response{Type: llm.TypeText, Model: req.Model, FinishReason: llm.FinishStop}
	if err := r.Hold.pass(ctx); err != nil {
		return out, err
	}
	for _, w := range word.FindAllString(r.Thought, -1) {
		out.Thought += w
		onDelta(llm.Delta{Thought: w})
	}
	for _, w := range word.FindAllString(r.Text, -1) {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		out.Content += w
		onDelta(llm.Delta{Text: w})
	}
	if err := r.HoldEnd.pass(ctx); err != nil {
		return out, err
	}
	if r.Err != nil {
		return out, r.Err
	}
	for _, c := range r.Calls {
		out.ToolCalls = append(out.ToolCalls, c.event())
	}
	if len(out.ToolCalls) > 0 {
		out.Type, out.FinishReason = llm.TypeToolCalls, llm.FinishToolCalls
		script.Identify(out.ToolCalls, req)
	}
	for _, m := range req.Messages {
		out.Usage.InputTokens += len(strings.Fields(m.Content))
	}
	out.Usage.ReasoningTokens = len(strings.Fields(r.Thought))
	out.Usage.OutputTokens = out.Usage.ReasoningTokens + len(strings.Fields(r.Text))
	return out, nil
}
