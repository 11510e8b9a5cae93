package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// input is a tool call that waits for a person's input.
type input struct {
	Thread     string     `json:"thread" jsonschema:"The thread: for answer_input"`
	ToolCallID string     `json:"toolCallId" jsonschema:"The call: for answer_input"`
	Tool       string     `json:"tool" jsonschema:"The tool that asks"`
	Agent      string     `json:"agent" jsonschema:"The agent that made the call"`
	Round      int        `json:"round" jsonschema:"The round of the request: for answer_input"`
	Questions  []question `json:"questions" jsonschema:"The questions. An answer answers all of them"`
}

type question struct {
	ID      string         `json:"id" jsonschema:"The id of the question"`
	Message string         `json:"message" jsonschema:"The question, as the tool asks it"`
	Schema  map[string]any `json:"schema,omitempty" jsonschema:"The JSON Schema of the values. Left out: the person visits the address, and then accepts"`
	URL     string         `json:"url,omitempty" jsonschema:"The address that the person visits"`
}

func inputOf(thread string, q event.InputRequest) input {
	out := input{Thread: thread, ToolCallID: q.ToolCallID, Tool: q.ToolName, Agent: q.Agent, Round: q.Round, Questions: []question{}}
	for _, one := range q.Questions {
		view := question{ID: one.ID, Message: cut(one.Message, maxArguments), URL: cut(one.URL, maxArguments)}
		// A schema that cannot be shown whole is left out; the API checks the values anyway.
		if len(one.Schema) <= maxMessage {
			_ = json.Unmarshal(one.Schema, &view.Schema)
		}
		out.Questions = append(out.Questions, view)
	}
	return out
}

func (l *approvalList) ask(thread string, q event.InputRequest) {
	if len(l.Inputs) == maxApprovals {
		l.More = true
		return
	}
	l.Inputs = append(l.Inputs, inputOf(thread, q))
}

type answerArgs struct {
	Thread     string            `json:"thread" jsonschema:"The thread" maxLength:"128"`
	ToolCallID string            `json:"toolCallId" jsonschema:"The call"`
	Round      int               `json:"round,omitempty" jsonschema:"The round of the request. Default: 1" minimum:"0" maximum:"1000000"`
	Answers    map[string]answer `json:"answers" jsonschema:"An answer for each question, by its id"`
	By         string            `json:"by,omitempty" jsonschema:"The name of the person who answers. With an API key it is that of the key"`
}

type answer struct {
	Action  string         `json:"action" jsonschema:"accept answers the question, decline refuses to, cancel leaves it open" enum:"accept,decline,cancel"`
	Content map[string]any `json:"content,omitempty" jsonschema:"With accept: the values, as the schema of the question says"`
}

func (s *server) answerTool() tool {
	return define("answer_input", "Answer a tool's questions",
		"Answers the questions of a tool call that waits for a person's input. Ask the person: the answers are theirs, not those of a model. "+
			"Afterwards wait_for_turn has the result of the turn.",
		adds, true, []auth.Role{auth.RolePost},
		func(ctx context.Context, _ *call, in answerArgs) (decision, error) {
			a := signals.InputAnswers{ToolCallID: in.ToolCallID, Round: in.Round, By: in.By, Answers: map[string]event.InputAnswer{}}
			for id, one := range in.Answers {
				given := event.InputAnswer{Action: event.InputAction(one.Action)}
				if one.Content != nil {
					raw, err := json.Marshal(one.Content)
					if err != nil {
						return decision{}, err
					}
					given.Content = raw
				}
				a.Answers[id] = given
			}
			got, err := s.api.AnswerInput(ctx, in.Thread, a)
			return decision{Result: string(got.Result)}, problem(err, "toolCallId")
		})
}
