package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/rule"
)

// Rule is a rule as clients see it.
type Rule struct {
	Name        string           `json:"name" doc:"Unique among the rules"`
	Events      []string         `json:"events" nullable:"false" doc:"The types that it matches; file.* matches all types that begin with file."`
	Where       []rule.Condition `json:"where,omitempty" doc:"Conditions on the event, all of which must hold"`
	Priority    int              `json:"priority" doc:"Of the rules that match, the one with the highest priority handles the event, and the first of equals"`
	Debounce    string           `json:"debounce,omitempty" example:"2s" doc:"Handle the last event once none has arrived for this long"`
	Throttle    string           `json:"throttle,omitempty" example:"1m" doc:"Handle one event, then the last of those that arrive within this time"`
	Log         bool             `json:"log,omitempty" doc:"Write the event to the worker's log"`
	Function    bool             `json:"function,omitempty" doc:"A Go function handles the event"`
	Timeout     string           `json:"timeout,omitempty" example:"30s" doc:"Of one attempt of the function"`
	MaxAttempts int              `json:"maxAttempts,omitempty" doc:"Of the function"`
	Processor   string           `json:"processor,omitempty" doc:"The processor that handles the event"`
	Agent       *rule.Agent      `json:"agent,omitempty" doc:"The agent that handles the event"`
	Message     bool             `json:"message,omitempty" doc:"The event becomes a message"`
	Default     bool             `json:"default,omitempty" doc:"One of the rules that apply unless another has its name"`
}

func ruleView(s rule.Spec) Rule {
	return Rule{
		Name: s.Name, Events: s.Events, Where: s.Where, Priority: s.Priority, Debounce: duration(s.Debounce), Throttle: duration(s.Throttle),
		Log: s.Log, Function: s.Function, Timeout: duration(s.Timeout), MaxAttempts: s.MaxAttempts, Processor: s.Processor, Agent: s.Agent,
		Message: s.Message, Default: s.Default,
	}
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

type rulesOutput struct {
	Body struct {
		Rules []Rule `json:"rules" nullable:"false" doc:"In the order in which they are tried among equal priorities"`
	}
}

type ruleTestInput struct{ Body publishBody }

// TestedRule is a rule and whether it matches an event.
type TestedRule struct {
	Name    string          `json:"name" doc:"The rule"`
	Matches bool            `json:"matches" doc:"Whether its patterns and conditions match the event"`
	Type    bool            `json:"type" doc:"Whether one of its patterns matches the type of the event"`
	Failed  *rule.Condition `json:"failed,omitempty" doc:"The first condition that does not hold"`
}

type ruleTestOutput struct {
	Body struct {
		Rule  *Rule        `json:"rule,omitempty" doc:"The rule that would handle the event. Without one, the event is stored with a warning"`
		Rules []TestedRule `json:"rules" nullable:"false" doc:"All rules"`
	}
}

// ruleHandlers serve the rules of the server's own process.
type ruleHandlers struct {
	*core
	rules *rule.Set
}

func (h *ruleHandlers) registerRules() {
	tags := []string{"rules"}
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listRules", Method: http.MethodGet, Path: "/v1/rules", Tags: tags,
		Summary:     "List the rules",
		Description: "Those that the server's own configuration declares, and the default ones. A worker with another configuration has others.",
	}, h.listRules)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "testRules", Method: http.MethodPost, Path: "/v1/rules/test", Tags: tags,
		Summary: "Test which rule would handle an event", Description: "Nothing is published.",
		Errors: []int{422},
	}, h.testRules)
}

func (h *ruleHandlers) listRules(context.Context, *struct{}) (*rulesOutput, error) {
	out := &rulesOutput{}
	out.Body.Rules = []Rule{}
	for _, s := range h.rules.Specs() {
		out.Body.Rules = append(out.Body.Rules, ruleView(s))
	}
	return out, nil
}

func (h *ruleHandlers) testRules(ctx context.Context, in *ruleTestInput) (*ruleTestOutput, error) {
	e, err := in.Body.event()
	if err != nil {
		return nil, h.problem(ctx, "", err)
	}
	specs := h.rules.Specs()
	out := &ruleTestOutput{}
	out.Body.Rules = []TestedRule{}
	for _, s := range specs {
		why := rule.Explain(s, e)
		out.Body.Rules = append(out.Body.Rules, TestedRule{Name: s.Name, Matches: why.Type && why.Failed == nil, Type: why.Type, Failed: why.Failed})
	}
	if matched, ok := rule.Match(specs, e); ok {
		view := ruleView(matched)
		out.Body.Rule = &view
	}
	return out, nil
}
