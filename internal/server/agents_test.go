package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/store"
)

var helpers = agent.Fixed{
	{Name: "bot", Model: "demo/demo", Description: "repeats", Instructions: "Repeat."},
	{Name: "Critic", Model: "demo/demo"},
}

func agentWorld(t *testing.T, change ...func(*server.Config)) *world {
	return newWorld(t, append([]func(*server.Config){func(c *server.Config) { c.Agents = helpers }}, change...)...)
}

// putAgent stores an agent and returns the answer.
func (w *world) putAgent(path string, body any, status int) answer {
	w.t.Helper()
	got := w.call("PUT", "/v1/agents/"+path, body)
	require.Equal(w.t, status, got.status, got.text)
	return got
}

// named are the agents of a list, as "source name version".
func named(t *testing.T, list answer) (out []string) {
	t.Helper()
	require.Equal(t, http.StatusOK, list.status, list.text)
	for _, one := range list.body["agents"].([]any) {
		a := one.(object)
		out = append(out, strings.TrimSuffix(fmt.Sprint(a["source"], " ", a["name"], " ", a["version"]), " <nil>"))
	}
	return out
}

func TestAgents(t *testing.T) {
	w := agentWorld(t)
	require.Equal(t, []string{"configured bot", "configured Critic"}, named(t, w.call("GET", "/v1/agents", nil)))
	listed := w.call("GET", "/v1/agents", nil).body["agents"].([]any)
	require.Equal(t, []any{true, nil}, []any{listed[0].(object)["default"], listed[1].(object)["default"]}, "the first is the default agent")
	got := w.call("GET", "/v1/agents/BOT", nil)
	require.Equal(t, object{
		"name": "bot", "model": "demo/demo", "description": "repeats", "source": "configured",
		"definition": object{"name": "bot", "model": "demo/demo", "description": "repeats", "instructions": "Repeat."},
	}, got.body)

	t.Run("a stored definition comes before the configured one", func(t *testing.T) {
		got := w.putAgent("Bot?by=ann", object{"model": "demo/other", "instructions": "Sing <b>&"}, 201)
		require.NotEmpty(t, got.body["at"])
		delete(got.body, "at")
		require.Equal(t, object{
			"name": "Bot", "model": "demo/other", "source": "stored", "version": 1.0, "by": "ann",
			"definition": object{"name": "Bot", "model": "demo/other", "instructions": "Sing <b>&"},
		}, got.body)
		require.Equal(t, []string{"stored Bot 1", "configured Critic"}, named(t, w.call("GET", "/v1/agents", nil)))
		stored, err := w.store.Agent(w.ctx, "default", "bot")
		require.NoError(t, err)
		require.Equal(t, `{"name":"Bot","instructions":"Sing <b>&","model":"demo/other"}`, string(stored.Definition))
	})
	t.Run("it is replaced as a whole", func(t *testing.T) {
		got := w.putAgent("bot", object{"name": "bot", "model": "demo/third"}, 200)
		require.EqualValues(t, 2, got.body["version"])
		require.Equal(t, "api", got.body["by"], "the default")
		require.Equal(t, object{"name": "bot", "model": "demo/third"}, got.body["definition"])
	})
	t.Run("what is stored already is no new version", func(t *testing.T) {
		for _, path := range []string{"bot?by=bob", "bot?ifVersion=2"} {
			got := w.putAgent(path, object{"name": "bot", "model": "demo/third"}, 200)
			require.EqualValues(t, 2, got.body["version"])
			require.Equal(t, "api", got.body["by"])
		}
	})
	t.Run("what is got can be stored", func(t *testing.T) {
		before := w.putAgent("zoe", fullDefinition(), 201)
		require.Equal(t, fullDefinition(), before.body["definition"], "every field comes back")
		again := w.putAgent("zoe?ifVersion=1", before.body["definition"], 200)
		require.Equal(t, before.body, again.body)
		all := w.call("GET", "/v1/agents", nil)
		require.Equal(t, []string{"stored bot 2", "configured Critic", "stored zoe 1"}, named(t, all))
		require.NotContains(t, all.body, "next")
	})
	t.Run("they are listed in pages", func(t *testing.T) {
		for limit, want := range map[string][][]string{
			"1": {{"stored bot 2"}, {"configured Critic"}, {"stored zoe 1"}, nil},
			"2": {{"stored bot 2", "configured Critic"}, {"stored zoe 1"}},
		} {
			var pages [][]string
			for cursor, more := "", true; more; {
				page := w.call("GET", "/v1/agents?limit="+limit+"&cursor="+cursor, nil)
				pages = append(pages, named(t, page))
				cursor, more = page.body["next"].(string)
			}
			require.Equal(t, want, pages)
		}
		require.Equal(t, []string{"query.cursor"}, w.call("GET", "/v1/agents?cursor=x", nil).problem(t, 422))
		require.Equal(t, []string{"query.limit"}, w.call("GET", "/v1/agents?limit=101", nil).problem(t, 422))
	})
	t.Run("S4-47 a thread can be opened with it at once", func(t *testing.T) {
		w.call("POST", "/v1/threads", object{"agent": "nobody"}).problem(t, 422)
		w.call("POST", "/v1/threads", object{"agent": "zoe"}).ok(t, http.StatusCreated)
	})
	t.Run("one that is deleted lets the configured one show again", func(t *testing.T) {
		require.Equal(t, http.StatusNoContent, w.call("DELETE", "/v1/agents/BOT?by=ann", nil).status)
		require.Equal(t, "configured", w.call("GET", "/v1/agents/bot", nil).body["source"])
		w.call("DELETE", "/v1/agents/bot", nil).refused(t, 404, "change its configuration")
		require.Equal(t, http.StatusNoContent, w.call("DELETE", "/v1/agents/zoe?ifVersion=1", nil).status)
		got := w.call("GET", "/v1/agents/zoe", nil)
		got.problem(t, 404)
		require.Equal(t, `unknown agent: "zoe"; known are [Critic bot]`, got.body["detail"])
		w.call("DELETE", "/v1/agents/zoe", nil).problem(t, 404)
	})
	t.Run("one that was deleted is made again", func(t *testing.T) {
		got := w.putAgent("zoe?ifVersion=0", object{"model": "demo/demo"}, 201)
		require.EqualValues(t, 3, got.body["version"], "versions count on")
	})
}

// fullDefinition has something in every field.
func fullDefinition() object {
	return object{
		"name": "zoe", "description": "d", "instructions": "i", "model": "demo/demo", "temperature": 0.0, "maxOutputTokens": 5.0,
		"reasoningEffort": "low", "tools": []any{"shell_cmd"}, "approvals": object{"*": "always", "shell_cmd": "deny"},
		"approvalRules": []any{object{
			"name": "r", "tools": []any{"shell_cmd"}, "agents": []any{"zoe"}, "when": "true", "effect": "ask", "reason": "why",
			"terms": object{"approvers": []any{"ann", "bob"}, "groups": []any{"finance"}, "quorum": 2.0, "expires": "1h", "remind": "10m", "onExpiry": "interrupt"},
		}},
		"approvalTerms": object{"expires": "24h"}, "onWaiting": "hold", "workingDirectory": "/desk", "autoMention": false,
		"knowledge": object{"passages": 2.0, "collections": []any{"guides"}, "entities": true},
		"limits":    object{"maxSteps": 5.0, "modelTimeout": "1m", "contextMessages": 7.0},
	}
}

// TestAgentDefinitionIsWhole: what an agent can have in JSON, the API describes.
func TestAgentDefinitionIsWhole(t *testing.T) {
	w := agentWorld(t)
	raw, err := json.Marshal(fullDefinition())
	require.NoError(t, err)
	var a agent.Agent
	require.NoError(t, json.Unmarshal(raw, &a))
	back, err := json.Marshal(a)
	require.NoError(t, err)
	require.JSONEq(t, string(raw), string(back))
	err = json.Unmarshal([]byte(`{"x": 1}`), &a)
	_, known, _ := strings.Cut(err.Error(), "known are ")
	schemas := w.call("GET", "/openapi.json", nil).body["components"].(object)["schemas"].(object)
	described := schemas["AgentDefinition"].(object)["properties"].(object)
	require.Len(t, strings.Split(known, ", "), len(described))
	for _, field := range strings.Split(known, ", ") {
		require.Contains(t, described, field)
		require.Contains(t, fullDefinition(), field)
	}
	put := w.call("GET", "/openapi.json", nil).body["paths"].(object)["/v1/agents/{name}"].(object)["put"].(object)["responses"].(object)
	require.Equal(t, put["200"].(object)["content"], put["201"].(object)["content"])
}

func TestAgentConflicts(t *testing.T) {
	w := agentWorld(t)
	model := func(n int) object { return object{"model": fmt.Sprintf("demo/%d", n)} }
	w.call("PUT", "/v1/agents/bot?ifVersion=1", model(1)).refused(t, 409, "its newest version is 0, not 1")
	w.putAgent("bot?ifVersion=0", model(1), 201)
	w.call("PUT", "/v1/agents/bot?ifVersion=0", model(2)).problem(t, 409)
	w.putAgent("bot?ifVersion=1", model(2), 200)
	got := w.call("PUT", "/v1/agents/bot?ifVersion=1", model(2))
	got.problem(t, 409)
	require.Equal(t, `agent "bot" has been changed meanwhile: its newest version is 2, not 1; read the newest version and retry`, got.body["detail"])
	w.call("DELETE", "/v1/agents/bot?ifVersion=1", nil).problem(t, 409)
	require.Equal(t, http.StatusNoContent, w.call("DELETE", "/v1/agents/bot?ifVersion=2", nil).status)
}

func TestAgentMistakes(t *testing.T) {
	w := agentWorld(t)
	for location, body := range map[string]any{
		"body.model":                            object{"description": "x"},
		"body.name":                             object{"name": "other", "model": "demo/demo"},
		"body.prompt":                           object{"model": "demo/demo", "prompt": "x"},
		"body.temperature":                      object{"model": "demo/demo", "temperature": 3},
		"body.limits.maxSteps":                  object{"model": "demo/demo", "limits": object{"maxSteps": 1001}},
		"body.limits.steps":                     object{"model": "demo/demo", "limits": object{"steps": 1}},
		"body.limits.modelTimeout":              object{"model": "demo/demo", "limits": object{"modelTimeout": "2h"}},
		"body.approvals.shell_cmd":              object{"model": "demo/demo", "approvals": object{"shell_cmd": "sometimes"}},
		"body.approvalRules[0].name":            object{"model": "demo/demo", "approvalRules": []object{{"effect": "ask"}}},
		"body.approvalRules[0].when":            object{"model": "demo/demo", "approvalRules": []object{{"name": "r", "effect": "ask", "when": "args.("}}},
		"body.approvalTerms.quorum":             object{"model": "demo/demo", "approvalTerms": object{"quorum": 1000}},
		"body.approvalRules[0].effect":          object{"model": "demo/demo", "approvalRules": []object{{"name": "r", "effect": "run"}}},
		"body.approvalRules[0].tools":           object{"model": "demo/demo", "approvalRules": []object{{"name": "r", "effect": "allow", "tools": []string{}}}},
		"body.approvalRules[0].agents":          object{"model": "demo/demo", "approvalRules": []object{{"name": "r", "effect": "allow", "agents": []string{}}}},
		"body.approvalRules[0].terms.approvers": object{"model": "demo/demo", "approvalRules": []object{{"name": "r", "effect": "ask", "terms": object{"approvers": []string{}}}}},
		"body.approvalTerms.approvers":          object{"model": "demo/demo", "approvalTerms": object{"approvers": []string{}}},
		"body.approvalRules[0].terms.remind":    object{"model": "demo/demo", "approvalRules": []object{{"name": "r", "effect": "ask", "terms": object{"remind": "soon"}}}},
		"body.tools[1]":                         object{"model": "demo/demo", "tools": []string{"a", "a"}},
		"body":                                  object{"model": "demo/demo", "instructions": strings.Repeat("x", store.MaxAgentDefinition)},
	} {
		t.Run(location, func(t *testing.T) {
			got := w.call("PUT", "/v1/agents/bot", body)
			status := 422
			if location == "body" {
				status = 413
			}
			require.Equal(t, []string{location}, got.problem(t, status), got.text)
		})
	}
	good := object{"model": "demo/demo"}
	require.Equal(t, []string{"body.model"}, w.call("PUT", "/v1/agents/bot", object{"model": "demo/"}).problem(t, 422))
	for _, path := range []string{"two%20words", "-x", "changes", "Changes", strings.Repeat("x", 65)} {
		require.Equal(t, []string{"path.name"}, w.call("PUT", "/v1/agents/"+path, good).problem(t, 422), path)
	}
	require.Equal(t, []string{"query.by"}, w.call("PUT", "/v1/agents/bot?by=a%00", good).problem(t, 422))
	require.Equal(t, []string{"query.ifVersion"}, w.call("PUT", "/v1/agents/bot?ifVersion=-2", good).problem(t, 422))
	w.call("PUT", "/v1/agents/bot", `{"model": `).problem(t, 400)
	w.call("GET", "/v1/agents/a%00b", nil).problem(t, 400)
	w.call("DELETE", "/v1/agents/a%00b", nil).problem(t, 400)
	changes, err := w.store.AgentChanges(w.ctx, "default", 0, 0)
	require.NoError(t, err)
	require.Empty(t, changes, "nothing of it was stored")
}

func TestAgentWarnings(t *testing.T) {
	body := object{"model": "acme/large", "tools": []string{"clock"}}
	t.Run("of what the workers do not have", func(t *testing.T) {
		w := agentWorld(t, func(c *server.Config) { c.Known.Tools, c.Models = []string{"clock"}, []string{"demo"} })
		want := []any{`model: there is no provider "acme", so that the agent cannot answer; there are demo`}
		require.Equal(t, want, w.putAgent("bot", body, 201).body["warnings"])
		require.Equal(t, want, w.call("GET", "/v1/agents/bot", nil).body["warnings"])
		require.NotContains(t, w.putAgent("bot", object{"model": "demo/x", "tools": []string{"clock"}}, 200).body, "warnings")
	})
	t.Run("of a tool that is gone", func(t *testing.T) {
		w := agentWorld(t, func(c *server.Config) { c.Known.Tools = []string{"clock"} })
		definition := `{"name":"bot","model":"demo/x","tools":["clack"],"approvals":{"clack":"always"}}`
		_, err := w.store.SaveAgent(w.ctx, "default", store.AgentVersion{Name: "bot", Definition: []byte(definition)}, -1)
		require.NoError(t, err)
		require.Equal(t, []any{`tools[0]: unknown tool "clack"; did you mean "clock"?; calls of it fail`}, w.call("GET", "/v1/agents/bot", nil).body["warnings"])
	})
	t.Run("of groups of approvers that nobody knows", func(t *testing.T) {
		w := agentWorld(t, func(c *server.Config) {
			c.ApproverGroups = approval.GroupsFunc(func(_ context.Context, namespace, group string) ([]string, error) {
				require.Equal(t, "default", namespace)
				if group == "slow" {
					return nil, context.DeadlineExceeded
				}
				return approval.FixedGroups{"finance": {"ann"}}.Members(t.Context(), namespace, group)
			})
		})
		terms := object{"groups": []string{"finance", "slow", "sales"}}
		got := w.putAgent("bot", object{"model": "demo/x", "approvalTerms": terms, "approvalRules": []object{{"name": "r", "effect": "ask", "terms": terms}}}, 201).body["warnings"]
		require.Equal(t, []any{
			`approvalTerms.groups[1]: group "slow" could not be read`,
			`approvalTerms.groups[2]: there is no group "sales", so that none of its members can decide`,
			`approvalRules[0].terms.groups[1]: group "slow" could not be read`,
			`approvalRules[0].terms.groups[2]: there is no group "sales", so that none of its members can decide`,
		}, got)
	})
	t.Run("none, where that is not known", func(t *testing.T) {
		require.NotContains(t, agentWorld(t).putAgent("bot", body, 201).body, "warnings")
	})
}

// TestAgentNames: names that mean nothing are not stored, and a stored policy for a tool that the agent
// does not have keeps the agent from running.
func TestAgentNames(t *testing.T) {
	for name, c := range map[string]struct {
		body           object
		location, says string
	}{
		"a tool":                {object{"tools": []string{"clock", "clok"}}, "body.tools[1]", `unknown tool "clok"; did you mean "clock"?`},
		"a policy":              {object{"tools": []string{"clock"}, "approvals": object{"Clock": "deny"}}, "body.approvals.Clock", "(upper and lower case differ)"},
		"a policy for no own":   {object{"tools": []string{"clock"}, "approvals": object{"task": "deny"}}, "body.approvals.task", "the agent does not have the tool"},
		"a rule":                {object{"tools": []string{"clock"}, "approvalRules": []object{{"name": "a", "effect": "deny", "tools": []string{"*", "clok"}}}}, "body.approvalRules[0].tools[1]", `did you mean "clock"?`},
		"a rule for an other's": {object{"approvalRules": []object{{"name": "a", "effect": "deny", "agents": []string{"zoe"}}}}, "body.approvalRules[0].agents[0]", "its own calls only"},
	} {
		t.Run(name, func(t *testing.T) {
			w := agentWorld(t, func(c *server.Config) { c.Known.Tools = []string{"clock", "task"} })
			c.body["model"] = "demo/x"
			got := w.call("PUT", "/v1/agents/bot", c.body)
			got.refused(t, 422, c.says)
			require.Contains(t, got.text, c.location)
			require.Equal(t, "configured", w.call("GET", "/v1/agents/bot", nil).body["source"], "nothing is stored")
		})
	}
	t.Run("as stored by others", func(t *testing.T) {
		w := agentWorld(t)
		definition := `{"name":"bot","model":"demo/x","tools":["pay_back"],"approvals":{"refund":"always"}}`
		_, err := w.store.SaveAgent(w.ctx, "default", store.AgentVersion{Name: "bot", Definition: []byte(definition)}, -1)
		require.NoError(t, err)
		require.Contains(t, w.call("GET", "/v1/agents/bot", nil).body["problem"], `approvals.refund: unknown tool "refund"`)
	})
}

func TestAgentVersions(t *testing.T) {
	w := agentWorld(t)
	got := w.call("GET", "/v1/agents/bot/versions", nil).refused(t, 404, "configured, not stored")
	w.call("GET", "/v1/agents/nobody/versions", nil).problem(t, 404)
	for i := range 3 {
		w.putAgent(fmt.Sprintf("bot?by=ann&ifVersion=%d", i), object{"model": fmt.Sprintf("demo/%d", i+1)}, []int{201, 200, 200}[i])
	}
	require.Equal(t, http.StatusNoContent, w.call("DELETE", "/v1/agents/bot?by=bob", nil).status)
	_, err := w.store.SaveAgent(w.ctx, "default", store.AgentVersion{Name: "bot", Definition: json.RawMessage(`{"future": 1}`)}, 4)
	require.NoError(t, err)

	page := w.call("GET", "/v1/agents/BOT/versions?limit=3", nil).ok(t, http.StatusOK)
	versions := page.body["versions"].([]any)
	require.Len(t, versions, 3)
	require.EqualValues(t, 3, page.body["next"])
	odd, gone, third := versions[0].(object), versions[1].(object), versions[2].(object)
	require.Contains(t, odd["problem"], "future: is not known")
	require.NotContains(t, odd, "definition")
	require.NotEmpty(t, gone["at"])
	delete(gone, "at")
	require.Equal(t, object{"name": "bot", "version": 4.0, "deleted": true, "by": "bob", "seq": 4.0}, gone)
	require.Equal(t, object{"name": "bot", "model": "demo/3"}, third["definition"])
	page = w.call("GET", "/v1/agents/bot/versions?before=3", nil)
	require.Len(t, page.body["versions"], 2)
	require.NotContains(t, page.body, "next", "version 1 is the first")

	got = w.call("GET", "/v1/agents/bot", nil)
	require.Equal(t, http.StatusOK, got.status, "an agent that cannot be used can be looked at")
	require.Contains(t, got.body["problem"], "future: is not known")
	require.Equal(t, []string{"stored bot 5", "configured Critic"}, named(t, w.call("GET", "/v1/agents", nil)))
}

func TestAgentsOfABrokenStore(t *testing.T) {
	w := agentWorld(t)
	require.NoError(t, w.store.Close())
	for _, request := range [][2]string{
		{"GET", "/v1/agents"}, {"GET", "/v1/agents/bot"}, {"GET", "/v1/agents/bot/versions"}, {"GET", "/v1/agents/changes"}, {"DELETE", "/v1/agents/bot"},
	} {
		w.call(request[0], request[1], nil).problem(t, 500)
	}
	w.call("PUT", "/v1/agents/bot", object{"model": "demo/1"}).problem(t, 500)
}
