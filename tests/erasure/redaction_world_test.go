package erasure

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// Two numbers of cards. Nothing may keep the first. The second enters by plain signals, which Temporal keeps before a thread sees
// them; nothing else may have it.
const (
	card       = "4111111111111111"
	bySignal   = "5555555555554444"
	cardSpaced = "4111 1111 1111 1111"
)

// canary is text that is kept everywhere.
const canary = "canary-bird"

// world is a runtime with a redactor, in which the model, tools, hooks and rules write numbers of cards.
type world struct {
	*harness.Harness
	log testenv.Buffer
}

func newWorld(t *testing.T, o harness.Options) *world {
	t.Helper()
	w := &world{}
	r, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}})
	require.NoError(t, err)
	o.Tools = append(o.Tools, pay(), later())
	o.Agents = []agent.Agent{{
		Name: "clerk", Model: "openai/stand-in", Instructions: "You help.", Tools: []string{"pay", "later"},
		ApprovalRules: []approval.Rule{{Name: "big", Tools: []string{"pay"}, When: `args.card.startsWith("[")`, Effect: approval.EffectAsk}},
	}}
	o.Provider.Script = script
	o.Logger = slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	configure := o.Configure
	o.Configure = func(cfg *threadmill.Config) {
		cfg.Redact = r
		answers := hook.OnMessage("answers", answer)
		answers.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}
		cfg.Hooks = []hook.Hook{answers}
		cfg.Rules = append(cfg.Rules, rule.Rule{Events: []string{"paid"}, Priority: 50, MaxAttempts: 1, Function: func(context.Context, rule.Context, event.EnvEvent) error {
			return errors.New("cannot book " + card)
		}})
		cfg.TitleModel = "openai/stand-in"
		if configure != nil {
			configure(cfg)
		}
	}
	o.Serve = func(_ threadmill.Config, cfg *httpapi.Config) {
		cfg.Webhooks = []webhook.Endpoint{{Name: "shop", Unsigned: true, Event: webhook.Event{Type: "order", Thread: "{payload.thread}", Open: true}}}
	}
	w.Harness = harness.New(t, o)
	return w
}

// script makes the model write a number in each way that it has.
func script(req llm.Request) string {
	last := req.Messages[len(req.Messages)-1].Content
	for word, script := range map[string]string{
		"leak":  "think about " + cardSpaced + "\nYour card is " + cardSpaced + ", is it not?",
		"pay":   `use pay {"card":"` + card + `"}`,
		"fail":  `use pay {"card":"fail"}`,
		"ask":   `use pay {"card":"ask"}`,
		"later": `use later {}`,
		// A tool that does not exist.
		"invent": `use ` + card + ` {}`,
	} {
		if strings.HasPrefix(last, word) {
			return script
		}
	}
	return ""
}

// answer is a hook that writes a number in each way that it has.
func answer(_ context.Context, m event.MessageEvent) (hook.Result, error) {
	switch {
	case strings.HasPrefix(m.Message.Content, "respond"):
		return hook.Respond(hook.Response{Content: "hooks know " + card, Metadata: map[string]any{"card": card}}), nil
	case strings.HasPrefix(m.Message.Content, "replace"):
		m.Message.Content = "replaced by " + card
		return hook.Replace(m), nil
	case strings.HasPrefix(m.Message.Content, "produce"):
		return hook.Produce(hook.Message(event.CreatedByUser, "hook", "produced "+card)), nil
	case strings.HasPrefix(m.Message.Content, "break"):
		return hook.Result{}, errors.New("no way with " + card)
	}
	return hook.Pass(), nil
}

func pay() tool.Tool {
	return tool.MustFunc("pay", "Pays.", func(_ context.Context, call tool.Call, in struct {
		Card string `json:"card"`
	},
	) (string, error) {
		if strings.Contains(in.Card, card) {
			return "", errors.New("the tool got the number")
		}
		call.Progress(map[string]any{"note": "charging " + card, "number": 4111111111111111})
		switch {
		case in.Card == "fail":
			return "", errors.New("declined: " + card)
		case in.Card == "ask" && call.Input == nil:
			return "", &tool.InputRequired{State: card, Questions: []event.InputQuestion{{ID: "q", Kind: event.InputForm, Message: "Is it " + card + "?"}}}
		case in.Card == "ask":
			return "the answer is " + string(call.Input.Answers["q"].Content), nil
		}
		return `{"charged":` + card + `,"canary":"` + canary + `"}`, nil
	})
}

func later() tool.Tool {
	return tool.MustFunc("later", "Pays later.", func(context.Context, tool.Call, struct{}) (string, error) {
		return "", tool.ErrPending
	}, tool.Background())
}

// view collects everything that a viewer of all threads receives, until the test ends.
func (w *world) view(thread string) *testenv.Buffer {
	var out testenv.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.API.URL+"/v1/threads/"+thread+"/events", nil)
	require.NoError(w.T, err)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.T, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&out, res.Body) // until the request is cancelled
	}()
	w.T.Cleanup(func() { cancel(); <-done; _ = res.Body.Close() })
	return &out
}

// call sends a request to the API.
func (w *world) call(method, path, body string) string {
	w.T.Helper()
	req, err := http.NewRequestWithContext(w.Ctx(), method, w.API.URL+path, strings.NewReader(body))
	require.NoError(w.T, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.T, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(w.T, err)
	require.Less(w.T, res.StatusCode, 300, "%s %s: %s", method, path, answer)
	return string(answer)
}

// idle waits until a thread has processed everything.
func (w *world) idle(thread string) {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		state, err := w.Threads.State(w.Ctx(), thread)
		return err == nil && state.Turn == nil && state.QueueLength == 0
	}, testenv.Patience, testenv.Tick)
}

// close closes a thread, and waits for its end.
func (w *world) close(thread, reason string) {
	w.T.Helper()
	require.NoError(w.T, w.Threads.Control(w.Ctx(), thread, signals.Control{Action: signals.ControlClose, By: "ann", Reason: reason}))
	require.NoError(w.T, w.Temporal.GetWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "").Get(w.Ctx(), nil))
}

// histories returns everything that Temporal keeps of the world's workflows.
func (w *world) histories() string {
	w.T.Helper()
	var out strings.Builder
	var executions []string
	require.Eventually(w.T, func() bool {
		list, err := w.Temporal.ListWorkflow(w.Ctx(), &workflowservice.ListWorkflowExecutionsRequest{Query: `TaskQueue = "` + w.TaskQueue + `"`, PageSize: 1000})
		if err != nil || len(list.Executions) == 0 {
			return false
		}
		executions = nil
		out.Reset()
		for _, e := range list.Executions {
			out.WriteString(e.String())
			events := w.Temporal.GetWorkflowHistory(w.Ctx(), e.Execution.WorkflowId, e.Execution.RunId, false, 0)
			for events.HasNext() {
				one, err := events.Next()
				require.NoError(w.T, err)
				out.WriteString(one.String())
				out.WriteString("\n")
			}
			executions = append(executions, e.Execution.WorkflowId)
		}
		return true
	}, testenv.Patience, testenv.Tick)
	require.NotEmpty(w.T, executions)
	return out.String()
}

// files returns everything that the store keeps in its files.
func (w *world) files() string {
	w.T.Helper()
	return check.Contents(w.T, filepath.Dir(w.T.(*testing.T).TempDir())) // all folders of the test
}
