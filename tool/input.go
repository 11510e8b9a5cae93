package tool

import (
	"context"
	"fmt"

	"github.com/threadmill/threadmill/event"
)

// InputRequired is the error of a call that needs input of a person before it can continue. The thread
// asks, waits for as long as it takes, without holding a worker, and then calls the tool again
// with [Call].Input.
type InputRequired struct {
	Questions []event.InputQuestion

	// State is returned to the tool with the answers.
	State string
}

func (e *InputRequired) Error() string {
	return fmt.Sprintf("the tool asks %d questions, which only a call in a thread can wait for", len(e.Questions))
}

// Input contains the answers to the questions of the last [InputRequired] of a call.
type Input struct {
	// Answers has an answer for each question, by its id.
	Answers map[string]event.InputAnswer

	// State is that of the InputRequired.
	State string
}

// Source provides tools that exist only at run time, such as those of MCP servers. Its tools have
// names with two underscores, "server__tool". Implementations are safe for concurrent use.
type Source interface {
	// Tools returns the tools of a namespace whose names match one of patterns, ordered by name. A
	// pattern is a name, or "server__*" for all tools of a server.
	Tools(ctx context.Context, namespace string, patterns []string) []Tool
}

// CheckQuestion reports why a question cannot be asked.
func CheckQuestion(q event.InputQuestion) error {
	if q.Kind != event.InputForm || len(q.Schema) == 0 {
		return nil
	}
	_, err := newChecker(q.ID, q.Schema)
	return err
}

// CheckAnswer reports why an answer does not match the schema of its question, as an
// [*ArgumentError] of the question.
func CheckAnswer(q event.InputQuestion, a event.InputAnswer) error {
	if q.Kind != event.InputForm || len(q.Schema) == 0 || a.Action != event.InputAccept {
		return nil
	}
	c, err := newChecker(q.ID, q.Schema)
	if err != nil {
		return err
	}
	_, err = c.check(string(a.Content))
	return err
}
