// Package demo is an offline model that needs no network and no API key, for trying Threadmill and
// for testing agents and tools.
//
// The last user message is a script, which the model runs line by line. Mentions at the start of
// the message (@name) are skipped.
//
//	use <tool> <json>             calls the tool, by default with {}. All such lines make one
//	                              reply. Arguments are sent unchanged, valid or not, and so
//	                              are names of unknown tools.
//	think <text>                  reasons, word by word, before the reply
//	count <n> [every <duration>]  streams "1", " 2", … up to n, at most 100000
//	cache <read> <written> <hour> counts so many tokens of the request as read from the cache, as
//	                              written to it, and as written to it for an hour
//	then                          begins a step, see below
//	any other text                is repeated, word by word
//
// After the tools have returned, the model reports each result on a separate line:
//
//	shell_cmd returned: 3 files
//	shell_cmd failed: no such command
//
// and continues with the lines after the next "then". With this script the model replies three
// times in one turn, with tool calls in the first two replies:
//
//	use read_file {"path": "a.txt"}
//	use read_file {"path": "b.txt"}
//	then
//	use write_file {"path": "c.txt", "content": "hello"}
//	then
//	all done
//
// For a request for a title ([llm.TitleInstructions]), it returns the first six words of the first
// line of the conversation.
//
// A step without "use" continues with the next step, in the same reply.
//
// As with every provider, markup for tool calls in repeated text becomes tool calls.
//
// The first reply in a thread begins with a sentence that introduces the model. Replies are
// deterministic, including the ids of tool calls. Token usage counts words. Only "every" takes
// time.
package demo

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/script"
)

// Config configures the offline model. The zero value is the default.
type Config struct {
	// Quiet omits the sentence at the start of the first reply in a thread.
	Quiet bool
}

// Provider is the offline model. It accepts any model name.
type Provider struct{ config Config }

var _ llm.Provider = (*Provider)(nil)

// New returns the offline model.
func New(config Config) *Provider { return &Provider{config} }

// Generate runs the script in the last user message. It fails when ctx ends, and for requests with a ResponseFormat.
//
// A choice of tools is obeyed: calls of others are left out, and a tool that must be called gets an empty object.
func (p *Provider) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	err := req.Check()
	if err == nil && req.ResponseFormat != nil {
		err = errors.New("the offline model repeats its script, and cannot reply in the form of a schema")
	}
	if err != nil {
		return llm.Response{Type: llm.TypeText}, &llm.Error{Provider: "demo", Message: err.Error()}
	}
	if onDelta == nil {
		onDelta = func(llm.Delta) {}
	}
	r := script.Run(req, p.config.Quiet)
	var (
		cleaner       llm.Cleaner
		text, thought strings.Builder
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
