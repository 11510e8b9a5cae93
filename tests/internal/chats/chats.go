// Package chats has the agents and tools that the scenarios of clients use: see tests/npm.
package chats

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/library/entities"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// New starts a harness for the scenarios of a client, with two agents. Pages of these origins may use it.
func New(t testing.TB, scenario string, origins ...string) *harness.Harness {
	ask := tool.MustFunc("ask", "Asks.", func(_ context.Context, _ tool.Call, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		return "asked: " + in.Text, nil
	})
	locate := tool.ClientSide(tool.Definition{Name: "locate", Description: "Where the person is."})
	exactly := tool.ClientSide(tool.Definition{Name: "locate_exactly", Description: "Where exactly the person is.", NeedsApproval: true})
	hurry := tool.MustFunc("hurry", "Asks, and does not wait long.", func(context.Context, tool.Call, struct{}) (string, error) { return "hurried", nil })
	report := tool.MustFunc("report", "Reports its progress.", func(_ context.Context, call tool.Call, _ struct{}) (string, error) {
		call.Progress("half")
		call.Progress(map[string]bool{"done": true})
		return "reported", nil
	})
	assistant := func(name string) agent.Agent {
		return agent.Agent{
			Name: name, Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note", "ask", "locate", "locate_exactly", "hurry", "report", "call_agent", "book"},
			Approvals:     map[string]agent.Policy{"ask": agent.PolicyAlways},
			ApprovalRules: []approval.Rule{{Name: "soon", Tools: []string{"hurry"}, Effect: approval.EffectAsk, Terms: approval.Terms{Expires: time.Second}}},
		}
	}
	attempts := 1
	if scenario == "retried call" {
		attempts = 2
	}
	o := harness.Options{
		Tools: []tool.Tool{ask, locate, exactly, hurry, report, &harness.Booking{}}, Agents: []agent.Agent{assistant("assistant"), assistant("second")}, MaxModelAttempts: attempts,
	}
	switch scenario {
	case "sources", "events once":
		o = withKnowledge(o)
	case "keys and roles":
		o.Serve = func(cfg threadmill.Config, api *httpapi.Config) {
			keys, err := auth.NewKeys(auth.KeysConfig{Store: teststore.Of(cfg.Store)})
			require.NoError(t, err)
			api.Authenticator = keys
		}
	}
	if origins != nil {
		o.Serve = func(_ threadmill.Config, api *httpapi.Config) { api.AllowedOrigins = origins }
	}
	w := harness.New(t, o)
	switch scenario {
	case "sources", "events once":
		teach(w)
	case "error":
		w.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
	case "retried call":
		w.Provider.Fail(llmtest.Drop(10))
	}
	return w
}

// Worlds are those of scenarios that run one after the other, in threads of their own: most of them share one.
type Worlds struct {
	T      testing.TB
	shared map[string]*harness.Harness
}

// For returns the world of a scenario.
func (w *Worlds) For(scenario string) *harness.Harness {
	own := ""
	switch scenario {
	case "sources", "events once", "keys and roles", "error", "retried call": // see New
		own = scenario
	}
	if w.shared[own] == nil {
		if w.shared == nil {
			w.shared = map[string]*harness.Harness{}
		}
		w.shared[own] = New(w.T, own)
	}
	return w.shared[own]
}

// withKnowledge gives the agents passages, and facts about people.
func withKnowledge(o harness.Options) harness.Options {
	for i := range o.Agents {
		o.Agents[i].Knowledge = agent.Knowledge{Passages: 5, Entities: true}
	}
	o.Provider.Script = func(req llm.Request) string {
		if strings.HasPrefix(req.Messages[0].Content, entities.FindInstructions) {
			return `{"entities":[]}`
		}
		return ""
	}
	o.Configure = func(cfg *threadmill.Config) {
		cfg.Knowledge = threadmill.Knowledge{Embedder: "google/stand-in-embedding", EntityModel: "openai/stand-in"}
	}
	return o
}

// teach adds two documents, and a fact about Sarah.
func teach(w *harness.Harness) {
	documents := w.Runtime.Documents()
	for source, text := range map[string]string{
		"vacation.md": "# Handbook\n\n## Vacation\n\nEverybody has thirty days of vacation.",
		"travel.md":   "# Handbook\n\n## Travel\n\nTrips on vacation are private.",
	} {
		d, err := documents.Add(w.Ctx(), threadmill.NewDocument{Source: source, Content: []byte(text)})
		require.NoError(w.T, err)
		_, err = documents.Await(w.Ctx(), d.ID)
		require.NoError(w.T, err)
	}

	x := store.Extraction{ID: "x", ThreadID: "other", SourceType: "message", SourceID: "m"}
	require.NoError(w.T, w.Store.QueueExtraction(w.Ctx(), w.TaskQueue, x))
	_, err := w.Store.EndExtraction(w.Ctx(), w.TaskQueue, x.ID, store.EntitiesFound{New: []store.NewEntity{{ID: "sarah", Name: "Sarah", Type: "person", Description: "works at Acme"}}})
	require.NoError(w.T, err)
}
