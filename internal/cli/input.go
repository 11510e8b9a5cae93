package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tool"
)

// answering has the flags of answer.
type answering struct {
	signals.InputAnswers
	question        string
	decline, cancel bool
}

func (a approvalCommands) answerCommand() *cobra.Command {
	var f answering
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "answer <thread> <toolCallId> [field=value …]",
		Short: "Answer a tool call that asks for input",
		Long: `Answer a tool call that asks for input: "starter approvals" lists them, and "starter show <thread>" has all
their fields. The call continues with the values; a list is written with commas, as field=a,b, or with its field
several times. A question about an address is answered without values, once its page has been visited.`,
		Example: `  starter answer t1 call_1 day=monday seats=2 dishes=soup,salad
  starter answer t1 call_1 --decline`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				waiting, err := t.Approvals(ctx, args[0])
				if err != nil {
					return err
				}
				i := slices.IndexFunc(waiting.Inputs, func(q event.InputRequest) bool { return q.ToolCallID == args[1] })
				if i < 0 {
					return fmt.Errorf(`no tool call %q waits for input in this thread; "starter approvals %s" lists those that do`, args[1], args[0])
				}
				if err := f.fill(waiting.Inputs[i], args[2:]); err != nil {
					return usage(err)
				}
				got, err := t.AnswerInput(ctx, args[0], f.InputAnswers)
				return a.showOutcome(signals.DecideResult{Result: got}, err, string(got), inputProblem(args[0], f.InputAnswers, got))
			})
		},
	})
	cmd.Flags().StringVar(&f.question, "question", "", "the question that the values answer, if there are several; the others are declined")
	cmd.Flags().BoolVar(&f.decline, "decline", false, "decline to answer; the tool is told")
	cmd.Flags().BoolVar(&f.cancel, "cancel", false, "leave the question open; the tool is told")
	byFlag(cmd, "by", &f.By, "who answers", actor)
	return cmd
}

// fill answers a request with values of the form field=value.
func (f *answering) fill(q event.InputRequest, values []string) error {
	f.ToolCallID, f.Round, f.Answers = q.ToolCallID, q.Round, map[string]event.InputAnswer{}
	action := event.InputAccept
	switch {
	case f.decline && f.cancel:
		return errors.New("--decline and --cancel exclude each other")
	case f.decline:
		action = event.InputDecline
	case f.cancel:
		action = event.InputCancel
	}
	if action != event.InputAccept && len(values) > 0 {
		return fmt.Errorf("--%s takes no values", action)
	}
	for _, question := range q.Questions {
		f.Answers[question.ID] = event.InputAnswer{Action: action}
	}
	if action != event.InputAccept {
		return nil
	}
	question := q.Questions[0]
	if len(q.Questions) > 1 {
		i := slices.IndexFunc(q.Questions, func(one event.InputQuestion) bool { return one.ID == f.question })
		if i < 0 {
			return fmt.Errorf("--question is %q, must be one of %s", f.question, strings.Join(questionIDs(q), ", "))
		}
		question = q.Questions[i]
		for id := range f.Answers {
			f.Answers[id] = event.InputAnswer{Action: event.InputDecline}
		}
	}
	answer, err := acceptWith(question, values)
	if err != nil {
		return err
	}
	f.Answers[question.ID] = answer
	return nil
}

func questionIDs(q event.InputRequest) []string {
	var ids []string
	for _, one := range q.Questions {
		ids = append(ids, one.ID)
	}
	return ids
}

// inputField is a field of a question.
type inputField struct {
	Type  string `json:"type"`
	Items struct {
		Type string `json:"type"`
	} `json:"items"`
}

// lists returns whether a text has values of a list of strings, separated by commas, and is no JSON.
func (f inputField) lists(text string) bool {
	isJSON := strings.HasPrefix(text, "[") && json.Valid([]byte(text))
	return f.Type == "array" && cmp.Or(f.Items.Type, "string") == "string" && !isJSON
}

// appendValues appends the values of a text to a list, which is never nil then.
func appendValues(list []string, text string) []string {
	if list == nil {
		list = []string{}
	}
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	return list
}

// value reads a text as the type of the field.
func (f inputField) value(text string) json.RawMessage {
	raw := json.RawMessage(text)
	if cmp.Or(f.Type, "string") == "string" || !json.Valid(raw) {
		raw, _ = json.Marshal(text) // strings can always be encoded
	}
	return raw
}

// acceptWith returns the answer with values of the form field=value, read as the schema of the question
// types its fields.
func acceptWith(q event.InputQuestion, values []string) (event.InputAnswer, error) {
	answer := event.InputAnswer{Action: event.InputAccept}
	if q.Kind == event.InputURL {
		if len(values) > 0 {
			return answer, errors.New("the question is about an address: visit it, and answer without values")
		}
		return answer, nil
	}
	content, err := inputContent(q.Schema, values)
	if err != nil {
		return answer, err
	}
	answer.Content, _ = json.Marshal(content)
	if err := tool.CheckAnswer(q, answer); err != nil {
		if e, ok := errors.AsType[*tool.ArgumentError](err); ok {
			err = errors.New(e.Reason)
		}
		return answer, err
	}
	return answer, nil
}

func inputContent(schema json.RawMessage, values []string) (map[string]json.RawMessage, error) {
	var fields struct {
		Properties map[string]inputField `json:"properties"`
	}
	if len(schema) > 0 {
		if err := json.Unmarshal(schema, &fields); err != nil {
			return nil, fmt.Errorf("reading the fields of the question: %w", err)
		}
	}
	content := map[string]json.RawMessage{}
	lists := map[string][]string{}
	for _, value := range values {
		name, text, ok := strings.Cut(value, "=")
		f := fields.Properties[name]
		_, twice := content[name]
		if !ok || name == "" || twice && lists[name] == nil {
			return nil, fmt.Errorf("%q must be field=value, and each field once, except for lists", value)
		}
		if !f.lists(text) {
			content[name] = f.value(text)
			continue
		}
		lists[name] = appendValues(lists[name], text)
		content[name], _ = json.Marshal(lists[name]) // strings can always be encoded
	}
	return content, nil
}

// fieldValues splits a line into field=value. A value ends where the next field begins.
func fieldValues(line string) []string {
	var out []string
	for _, word := range strings.Fields(line) {
		if n := len(out); n > 0 && !strings.Contains(word, "=") {
			out[n-1] += " " + word
			continue
		}
		out = append(out, word)
	}
	return out
}

// inputProblem returns the reason why an answer was not accepted; empty if it was.
func inputProblem(thread string, a signals.InputAnswers, outcome signals.DecideOutcome) string {
	return rejection(outcome, map[signals.DecideOutcome]string{
		signals.DecideConflict:   fmt.Sprintf("tool call %q has another answer already", a.ToolCallID),
		signals.DecideNotPending: fmt.Sprintf(`no tool call %q waits for this input in this thread; "starter approvals %s" lists those that do`, a.ToolCallID, thread),
		signals.DecideNotAllowed: fmt.Sprintf("%s may not answer tool call %q: agents of the thread never may", a.By, a.ToolCallID),
	})
}

// asksInput handles a request for input.
func (s *session) asksInput(e event.AgentEvent) {
	if e.Input != nil {
		s.reopen(recordid.InputRequest(e.Input.ToolCallID, e.Input.Round))
		s.calls.Apply(e)
	}
}

// answerInput answers the oldest request for input.
func (s *session) answerInput(ctx context.Context, f answering, arg string) {
	inputs := s.inputs()
	if len(inputs) == 0 {
		s.print(s.view.Note("no tool asks for input"))
		return
	}
	f.By = s.me
	if err := f.fill(inputs[0], fieldValues(arg)); err != nil {
		s.print(s.view.Fail(err.Error()))
		return
	}
	id := recordid.InputRequest(f.ToolCallID, f.Round)
	s.sent[id] = true
	s.deciding++
	go func() {
		var got signals.DecideOutcome
		err := s.persist(ctx, func(ctx context.Context) (err error) {
			got, err = s.threads.AnswerInput(ctx, s.thread, f.InputAnswers)
			return err
		})
		s.hand(ctx, func() {
			s.deciding--
			if _, refused := errors.AsType[*signals.DecisionError](err); err != nil && !refused {
				s.sent[id] = false
				s.print(s.view.Fail(s.app.explain(about(s.thread, err))))
			} else if problem := inputProblem(s.thread, f.InputAnswers, got); problem != "" {
				s.print(s.view.Warn(problem))
			}
		})
	}()
}
