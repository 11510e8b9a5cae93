package main

import (
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
)

// offline answers as real models would from their prompts.
func offline() llm.Provider {
	return scripted.New(
		scripted.Answer(combine).For("researcher"),
		scripted.Answer(lookUpAndReport),
	)
}

// combine asks the others what the researcher is asked, and then makes one answer of theirs.
func combine(req llm.Request) scripted.Reply {
	last := req.Messages[len(req.Messages)-1]
	if last.Role != event.RoleUser {
		return scripted.Say(strings.Join(answers(req.Messages), "; ") + ".")
	}
	var all scripted.Reply
	for _, name := range []string{"papers", "news", "code"} {
		all = all.And("call_agent", question{Agent: name, Message: last.Content})
	}
	return all
}

// question is the input of call_agent.
type question struct {
	Agent   string `json:"agent"`
	Message string `json:"message"`
}

// lookUpAndReport looks a topic up on the shelf that the model is named after, and says what it has found.
func lookUpAndReport(req llm.Request) scripted.Reply {
	last := req.Messages[len(req.Messages)-1]
	if last.Role == event.RoleUser {
		return scripted.Call("look_up", lookup{Shelf: req.Model, Topic: last.Content})
	}
	return scripted.Say("in " + req.Model + ": " + last.Content)
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
