package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
)

// offline is the demo model. It only follows the last message, so it gets the instructions that
// real models would derive from their prompts.
type offline struct{ *demo.Provider }

// Generate implements [llm.Provider].
func (m offline) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	req.Messages = []llm.Message{{Role: event.RoleUser, Content: script(req)}}
	return m.Provider.Generate(ctx, req, onDelta)
}

func script(req llm.Request) string {
	last := req.Messages[len(req.Messages)-1]
	asked := last.Role == event.RoleUser
	switch {
	case asked && req.Model == "researcher":
		var calls []string
		for _, name := range []string{"papers", "news", "code"} {
			calls = append(calls, fmt.Sprintf(`use call_agent {"agent":%q,"message":%q}`, name, last.Content))
		}
		return strings.Join(calls, "\n")
	case asked:
		return fmt.Sprintf(`use look_up {"shelf":%q,"topic":%q}`, req.Model, last.Content)
	case req.Model == "researcher":
		return strings.Join(answers(req.Messages), "; ") + "."
	}
	return "in " + req.Model + ": " + last.Content
}

// answers are the results of the last calls, in the order of the calls: concurrent agents may
// answer in another order.
func answers(messages []llm.Message) (texts []string) {
	results := map[string]string{}
	for i := len(messages) - 1; ; i-- {
		if len(messages[i].ToolCalls) == 0 {
			results[messages[i].ToolCallID] = messages[i].Content
			continue
		}
		for _, call := range messages[i].ToolCalls {
			texts = append(texts, results[call.ID])
		}
		return texts
	}
}
