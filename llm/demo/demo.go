// Package demo is a model that needs no network, no key and no money: a stand-in
// to try Threadmill with, and to test agents and tools against.
//
// It does what the last user message says, line by line. Mentions that open the
// message (@name) are skipped.
//
//	use <tool> <json>             calls the tool; without json with {}. All such lines
//	                              make one reply. The arguments go out as written,
//	                              valid or not, and so do names of unknown tools.
//	think <text>                  reasons, word by word, before the reply
//	count <n> [every <duration>]  streams "1", " 2", … up to n, at most 100000
//	then                          begins a step, see below
//	anything else                 is repeated, word by word
//
// When the tools have answered, it reports each result on a line of its own:
//
//	shell_cmd returned: 3 files
//	shell_cmd failed: no such command
//
// and goes on with the lines after the next "then". So this script makes the model
// answer three times in one turn, with a round of tools between:
//
//	use read_file {"path": "a.txt"}
//	use read_file {"path": "b.txt"}
//	then
//	use write_file {"path": "c.txt", "content": "hello"}
//	then
//	all done
//
// Asked for the title of a conversation ([llm.TitleInstructions]), it takes the first six
// words of its first line.
//
// A step without "use" runs on into the next, in the same reply.
//
// Markup for tool calls in repeated text becomes tool calls, as with every provider.
//
// The first reply in a thread begins with a sentence that says what this is. The
// same request always gets the same reply, including the ids of its tool calls.
// Words count as tokens. It only ever waits for "every".
package demo

import (
	"context"
	"strings"
	"time"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/script"
)

// Config of the offline model. The zero value is the default.
type Config struct {
	// Quiet leaves out the sentence that opens the first reply in a thread.
	Quiet bool
}

// Provider is the offline model. It takes any model name.
type Provider struct{ config Config }

var _ llm.Provider = (*Provider)(nil)

// New returns the offline model.
func New(config Config) *Provider { return &Provider{config} }

// Generate answers with what the last user message says. It fails only when ctx ends.
func (p *Provider) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if onDelta == nil {
		onDelta = func(llm.Delta) {}
	}
	r := script.Run(req, p.config.Quiet)
	var (
		cleaner       llm.Cleaner
		text, thought strings.Builder
		err           error
	)
	say := func(s string) {
		if s != "" {
			text.WriteString(s)
			onDelta(llm.Delta{Text: s})
		}
	}
	for _, piece := range r.Pieces {
		if err = wait(ctx, piece.Wait); err != nil {
			break
		}
		if piece.Thought != "" {
			thought.WriteString(piece.Thought)
			onDelta(llm.Delta{Thought: piece.Thought})
			continue
		}
		say(cleaner.Feed(piece.Text))
	}
	if err == nil {
		err = ctx.Err()
	}
	rest, written := cleaner.Close()
	say(rest)
	resp := llm.Response{Type: llm.TypeText, Content: text.String(), Thought: thought.String(), Model: req.Model}
	if err != nil {
		return resp, err
	}
	resp.Usage, resp.FinishReason = r.Usage, "stop"
	if resp.ToolCalls = append(r.Calls, written...); len(resp.ToolCalls) > 0 {
		script.Identify(resp.ToolCalls, req)
		resp.Type, resp.FinishReason = llm.TypeToolCalls, "tool_calls"
	}
	return resp, nil
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
