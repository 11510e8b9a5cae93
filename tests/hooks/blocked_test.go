package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// requireBlocked runs two more turns in a thread: no model call contains any text of blocked, and
// both contain all of passed.
func requireBlocked(w *harness.Harness, thread string, blocked []string, passed ...string) {
	w.T.Helper()
	requireBlockedFor(w, thread, "", blocked, passed...)
}

// requireBlockedFor is requireBlocked with an addressed agent, such as "@bob".
func requireBlockedFor(w *harness.Harness, thread, to string, blocked []string, passed ...string) {
	w.T.Helper()
	before := w.Provider.Calls()
	for _, content := range []string{"and now", "and then"} {
		from := w.Provider.Calls()
		out := check.Say(w, thread, strings.TrimSpace(to+" "+content))
		require.Equal(w.T, signals.TurnCompleted, out.Status, out.Error)
		asked := ""
		for _, call := range check.ModelCalls(w)[from:] {
			if strings.Contains(call.Raw, content) && !asksForTitle(call) {
				asked = call.Raw
			}
		}
		for _, text := range passed {
			require.Contains(w.T, asked, text, "what was passed is shown in the turn of %q", content)
		}
	}
	for _, call := range check.ModelCalls(w)[before:] {
		for _, text := range blocked {
			require.NotContains(w.T, call.Raw, text, "what was blocked is shown to no model")
		}
	}
	requireListed(w, thread)
}

// requireListed: a Go program lists the messages that the HTTP API lists.
func requireListed(w *harness.Harness, thread string) {
	w.T.Helper()
	listed := []event.StoredMessage{}
	for m, err := range w.Runtime.Messages(w.Ctx(), thread) {
		require.NoError(w.T, err)
		listed = append(listed, m)
	}
	raw, err := json.Marshal(listed)
	require.NoError(w.T, err)
	status, body := check.Request(w.T, w, http.MethodGet, "/v1/threads/"+thread+"/messages?limit=200", nil)
	require.Equal(w.T, http.StatusOK, status)
	of, err := json.Marshal(body["messages"])
	require.NoError(w.T, err)
	require.JSONEq(w.T, string(of), string(raw))
}

// asksForTitle reports whether a call is for a title. One that arrives just now shows nothing yet.
func asksForTitle(s check.Shown) bool {
	return len(s.Messages) > 0 && s.Messages[0].Content == llm.TitleInstructions
}

// TestBlockedStaysBlocked blocks an event in every way, and checks all later model calls, including
// that for the title.
func TestBlockedStaysBlocked(t *testing.T) {
	t.Parallel()
	titled := func(c *threadmill.Config) { c.TitleModel = "openai/stand-in" }
	const secret = "swordfish"
	leaks := tool.MustFunc("leaks", "Tells the secret.", func(context.Context, tool.Call, struct{}) (string, error) { return secret, nil })
	d := check.NewDesk()
	worlds := map[string]*harness.Harness{}
	for name, h := range map[string]hook.Hook{"function": d.Hook("guard"), "inline": d.Inline("guard")} {
		h.OnFailure = hook.FailClosed
		if h.Func != nil {
			h.MaxAttempts = 1
		}
		worlds[name] = d.Open(t, harness.Options{Tools: []tool.Tool{leaks}, Configure: titled}, []hook.Hook{h}, d.Processor("desk", event.TypeMessage))
	}
	on := func(by event.CreatedBy, decide func(m event.MessageEvent) (hook.Result, error)) hook.Func {
		return func(_ context.Context, e event.Event) (hook.Result, error) {
			if m, ok := e.(event.MessageEvent); ok && m.CreatedBy == by && strings.Contains(m.Message.Content, secret) {
				return decide(m)
			}
			return hook.Pass(), nil
		}
	}
	respond := func(_ event.MessageEvent) (hook.Result, error) {
		return hook.Respond(hook.Response{Content: "let us talk of trams", SenderType: event.CreatedBySystem}), nil
	}
	replace := func(m event.MessageEvent) (hook.Result, error) {
		m.Message.Content = "let us talk of trams"
		return hook.Replace(m), nil
	}
	drop := func(event.MessageEvent) (hook.Result, error) { return hook.Drop(), nil }
	fail := func(event.MessageEvent) (hook.Result, error) { return hook.Result{}, errors.New("no") }
	produce := func(event.MessageEvent) (hook.Result, error) {
		return hook.Produce(hook.Message(event.CreatedByUser, "desk", "let us talk of trams")), nil
	}
	custom := func(m event.MessageEvent) (hook.Result, error) {
		return hook.Replace(event.CustomEvent{Type: "kept.quiet", ThreadID: m.ThreadID, Payload: json.RawMessage(`1`)}), nil
	}
	decisions := map[string]func(event.MessageEvent) (hook.Result, error){
		"respond": respond, "replace": replace, "drop": drop, "fail": fail, "produce": produce, "another type": custom,
	}
	says := map[event.CreatedBy]string{event.CreatedByUser: "the word is " + secret, event.CreatedByTool: "use leaks {}"}
	// One decision has all cases, the others only those that differ.
	few := map[string]bool{"respond": true, "fail": true}
	for kind, w := range worlds {
		for by, content := range says {
			for name, decide := range decisions {
				if (kind == "inline" || by == event.CreatedByTool) && !few[name] {
					continue
				}
				t.Run(kind+": "+name+" "+string(by), func(t *testing.T) {
					id := w.Open("assistant")
					d.Set(id, "guard", on(by, decide))
					check.Turn(w, id, check.Message(id, "e1", content))
					d.Set(id, "guard", nil)
					var passed []string
					switch name {
					case "respond", "replace", "produce":
						passed = append(passed, "let us talk of trams")
					}
					requireBlocked(w, id, []string{secret}, passed...)
					require.Contains(t, w.Transcript(id), secret, "it stays on record")
					requireTitled(t, w, id, secret)
				})
			}
		}
	}
	w := worlds["function"]
	t.Run("a reply", func(t *testing.T) {
		// The reply has a text that the question does not have: "1 2 3".
		for name, decide := range decisions {
			for kind, w := range worlds {
				if kind == "inline" && !few[name] {
					continue
				}
				id := w.Open("assistant")
				d.Set(id, "guard", func(_ context.Context, e event.Event) (hook.Result, error) {
					if m, ok := e.(event.MessageEvent); ok && m.CreatedBy == event.CreatedByAgent && m.Message.Content == "1 2 3" {
						return decide(m)
					}
					return hook.Pass(), nil
				})
				check.Turn(w, id, check.Message(id, "e1", "count 3"))
				d.Set(id, "guard", nil)
				require.Contains(t, w.Transcript(id), "1 2 3", name)
				requireBlocked(w, id, []string{"1 2 3"}, "count 3")
				requireTitled(t, w, id, "1 2 3")
			}
		}
	})
	t.Run("a processor makes other events of it", func(t *testing.T) {
		id := w.Open("assistant")
		d.Make(id, "desk", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
			if strings.Contains(e.(event.MessageEvent).Message.Content, secret) {
				return []hook.Produced{system("this needs approval")}, nil
			}
			return nil, nil
		})
		check.Say(w, id, "the word is "+secret)
		requireBlocked(w, id, []string{secret}, "this needs approval")
		requireTitled(t, w, id, secret)
	})
	t.Run("the turn is interrupted before the hook has decided", func(t *testing.T) {
		id, stopped := w.Open("assistant"), check.NewHalt()
		d.Set(id, "guard", stopped.Before("message user", nil))
		e := w.Post(id, "the word is "+secret)
		<-stopped.Reached
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		check.Wholly(w, id, w.Await(id, e))
		d.Set(id, "guard", nil)
		requireBlocked(w, id, []string{secret})
		requireTitled(t, w, id, secret)
	})
	t.Run("a retry passes what has failed", func(t *testing.T) {
		for _, w := range worlds {
			id := w.Open("assistant")
			d.Set(id, "guard", on(event.CreatedByUser, fail))
			check.Turn(w, id, check.Message(id, "e1", "the word is "+secret))
			d.Set(id, "guard", nil)
			requireBlocked(w, id, []string{secret})
			_, err := w.Threads.Retry(w.Ctx(), id, "e1", "ann")
			require.NoError(t, err)
			require.Equal(t, "the word is "+secret, check.Wholly(w, id, w.Await(id, "e1")).Message.Content)
			requireBlocked(w, id, nil, secret)
			shown := check.ModelCalls(w)[w.Provider.Calls()-1].Raw
			require.Less(t, strings.Index(shown, "and then"), strings.Index(shown, secret), "it stands where it was passed")
		}
	})
	t.Run("calls that are answered or edited", func(t *testing.T) {
		for name, decide := range map[string]func(event.ToolCallEvent) (hook.Result, error){
			"answered": func(_ event.ToolCallEvent) (hook.Result, error) {
				return hook.Respond(hook.Response{Content: "no tools"}), nil
			},
			"dropped": func(event.ToolCallEvent) (hook.Result, error) { return hook.Drop(), nil },
			"failed":  func(event.ToolCallEvent) (hook.Result, error) { return hook.Result{}, errors.New("no") },
			"edited": func(c event.ToolCallEvent) (hook.Result, error) {
				c.ToolCalls[0].Function.Arguments = `{"text":"edited"}`
				return hook.Replace(c), nil
			},
			"taken out": func(c event.ToolCallEvent) (hook.Result, error) {
				c.ToolCalls = nil
				return hook.Replace(c), nil
			},
		} {
			for _, w := range worlds {
				id := w.Open("assistant")
				d.Set(id, "guard", func(_ context.Context, e event.Event) (hook.Result, error) {
					if c, ok := e.(event.ToolCallEvent); ok {
						return decide(c)
					}
					return hook.Pass(), nil
				})
				check.Turn(w, id, check.Message(id, "e1", `use note {"text":"`+secret+`"}`))
				d.Set(id, "guard", nil)
				requireBlocked(w, id, nil)
				calls := check.ModelCalls(w)
				messages := calls[len(calls)-1].Messages
				check.RequireAnswered(t, messages)
				found := 0
				for _, m := range messages {
					for _, call := range m.ToolCalls {
						found++
						require.NotContains(t, call.Function.Arguments, secret, name)
						require.Equal(t, name == "edited", strings.Contains(call.Function.Arguments, "edited"), name)
					}
				}
				require.Equal(t, 1, found, "%s: the call is still there", name)
			}
		}
	})
}

// requireTitled waits for a title of the thread without any text of blocked.
func requireTitled(t *testing.T, w *harness.Harness, thread, blocked string) {
	t.Helper()
	require.Eventually(t, func() bool {
		row, err := w.Store.Thread(w.Ctx(), w.Key(thread))
		return err == nil && row.Title != "" && !strings.Contains(row.Title, blocked)
	}, testenv.Patience, testenv.Tick)
	for _, call := range check.ModelCalls(w) {
		if asksForTitle(call) {
			require.NotContains(t, call.Raw, blocked)
		}
	}
}

// TestHookWorkflowDropsAndProduces: hook workflows that wait have the same decisions as hooks in
// Go.
//
//ci:replayed only
func TestHookWorkflowDropsAndProduces(t *testing.T) {
	t.Parallel()
	r := check.NewReview(t, harness.Options{}, nil)
	t.Run("drops", func(t *testing.T) {
		id := r.Open("assistant")
		posted := r.Post(id, "the word is swordfish")
		calls := r.Provider.Calls()
		r.Rule(id, posted, foreign.Ruling{Raw: json.RawMessage(`{"drop":true}`)})
		out := r.Await(id, posted)
		require.Equal(t, signals.TurnUnanswered, out.Status, out.Error)
		require.Equal(t, calls, r.Provider.Calls(), "no model is called")
		require.Equal(t, event.OutcomeDropped, r.DecisionOn(id, posted).Outcome)
		require.Equal(t, event.ItemCompleted, check.ItemOf(r.Harness, id, posted).Status)
		r.RequireBlocked(id, "swordfish")
	})
	t.Run("produces", func(t *testing.T) {
		id := r.Open("assistant")
		posted := r.Post(id, "the word is swordfish")
		r.Rule(id, posted, foreign.Ruling{Raw: json.RawMessage(
			`{"produced":[{"payload":{"senderId":"desk","senderType":"system","content":"this needs approval"}},{"type":"review.needed","payload":{"by":"bob"}}]}`)})
		out := r.Await(id, posted)
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		decided := r.DecisionOn(id, posted)
		require.Equal(t, event.OutcomeOverwritten, decided.Outcome)
		require.Len(t, decided.Produced, 2)
		require.Equal(t, event.ItemOverwritten, check.ItemOf(r.Harness, id, posted).Status)
		require.JSONEq(t, `{"by":"bob"}`, string(check.RecordOf(r.Harness, id, decided.Produced[1]).Payload))
		r.RequireBlocked(id, "swordfish", "this needs approval")
	})
	for problem, raw := range map[string]string{
		"dropped: is not known":               `{"dropped":true}`,
		"drop: excludes every other decision": `{"drop":true,"responses":[{"content":"no"}]}`,
		"produced: is empty":                  `{"produced":[]}`,
		"produced[0].type: \"status\"":        `{"produced":[{"type":"status","payload":1}]}`,
		"produced[0].payload.senderId: i":     `{"produced":[{"payload":{"content":"x"}}]}`,
	} {
		t.Run("refuses "+raw, func(t *testing.T) {
			id := r.Open("assistant")
			posted := r.Post(id, "the word is swordfish")
			r.Rule(id, posted, foreign.Ruling{Raw: json.RawMessage(raw)})
			out := r.Await(id, posted)
			require.Equal(t, signals.TurnFailed, out.Status)
			require.Contains(t, out.Error, problem)
		})
	}
}
