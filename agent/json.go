package agent

import (
	"strings"
	"time"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/strictjson"
)

// The JSON form of an agent is that of the configuration file: camelCase names, and durations as
// strings. Defaults are omitted.
type agentJSON struct {
	Name             string            `json:"name"`
	Description      string            `json:"description,omitempty"`
	Instructions     string            `json:"instructions,omitempty"`
	Model            string            `json:"model,omitempty"`
	Temperature      *float64          `json:"temperature,omitempty"`
	MaxOutputTokens  int               `json:"maxOutputTokens,omitempty"`
	ReasoningEffort  string            `json:"reasoningEffort,omitempty"`
	Tools            []string          `json:"tools,omitempty"`
	Approvals        map[string]Policy `json:"approvals,omitempty"`
	ApprovalRules    []ruleJSON        `json:"approvalRules,omitempty"`
	ApprovalTerms    *termsJSON        `json:"approvalTerms,omitempty"`
	OnWaiting        event.OnWaiting   `json:"onWaiting,omitempty"`
	WorkingDirectory string            `json:"workingDirectory,omitempty"`
	AutoMention      *bool             `json:"autoMention,omitempty"`
	Limits           *limitsJSON       `json:"limits,omitempty"`
}

type ruleJSON struct {
	Name   string          `json:"name,omitempty"`
	Tools  []string        `json:"tools,omitempty"`
	Agents []string        `json:"agents,omitempty"`
	When   string          `json:"when,omitempty"`
	Effect approval.Effect `json:"effect,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Terms  *termsJSON      `json:"terms,omitempty"`
}

type termsJSON struct {
	Approvers []string          `json:"approvers,omitempty"`
	Quorum    int               `json:"quorum,omitempty"`
	Expires   duration          `json:"expires,omitempty"`
	Remind    duration          `json:"remind,omitempty"`
	OnExpiry  approval.OnExpiry `json:"onExpiry,omitempty"`
}

type limitsJSON struct {
	MaxSteps        int      `json:"maxSteps,omitempty"`
	ModelTimeout    duration `json:"modelTimeout,omitempty"`
	ContextMessages int      `json:"contextMessages,omitempty"`
}

// MarshalJSON returns the agent in the form of the configuration file.
func (a Agent) MarshalJSON() ([]byte, error) {
	out := agentJSON{
		Name: a.Name, Description: a.Description, Instructions: a.Instructions, Model: a.Model,
		Temperature: a.Temperature, MaxOutputTokens: a.MaxOutputTokens, ReasoningEffort: a.ReasoningEffort,
		Tools: a.Tools, Approvals: a.Approvals, ApprovalTerms: termsOf(a.ApprovalTerms), OnWaiting: a.OnWaiting, WorkingDirectory: a.WorkingDirectory,
	}
	for _, r := range a.ApprovalRules {
		out.ApprovalRules = append(out.ApprovalRules, ruleJSON{r.Name, r.Tools, r.Agents, r.When, r.Effect, r.Reason, termsOf(r.Terms)})
	}
	if a.NoAutoMention {
		out.AutoMention = new(bool)
	}
	if a.Limits != (Limits{}) {
		out.Limits = &limitsJSON{a.Limits.MaxSteps, duration(a.Limits.ModelTimeout), a.Limits.ContextMessages}
	}
	return strictjson.Encode(out)
}

func termsOf(t approval.Terms) *termsJSON {
	if t.IsZero() {
		return nil
	}
	return &termsJSON{t.Approvers, t.Quorum, duration(t.Expires), duration(t.Remind), t.OnExpiry}
}

// UnmarshalJSON decodes an agent. It rejects unknown fields, values of the wrong type, and empty
// lists that would mean all, with a [*event.FieldError]; null is the same as an omitted field. It
// does not validate the agent: see [Check].
func (a *Agent) UnmarshalJSON(data []byte) error {
	var out Agent
	mention := true
	err := readObject("", data, members{
		"name":             into(&out.Name, "text"),
		"description":      into(&out.Description, "text"),
		"instructions":     into(&out.Instructions, "text"),
		"model":            into(&out.Model, "text"),
		"temperature":      into(&out.Temperature, "a number"),
		"maxOutputTokens":  into(&out.MaxOutputTokens, "a whole number"),
		"reasoningEffort":  into(&out.ReasoningEffort, "text"),
		"tools":            into(&out.Tools, "a list of names"),
		"approvals":        into(&out.Approvals, "an object with the policies by the names of tools"),
		"approvalRules":    each(&out.ApprovalRules, readRule),
		"approvalTerms":    readTerms(&out.ApprovalTerms),
		"onWaiting":        into(&out.OnWaiting, "text: answer, hold or cancel"),
		"workingDirectory": into(&out.WorkingDirectory, "text"),
		"autoMention":      into(&mention, "true or false"),
		"limits": object(members{
			"maxSteps":        into(&out.Limits.MaxSteps, "a whole number"),
			"modelTimeout":    readDuration(&out.Limits.ModelTimeout),
			"contextMessages": into(&out.Limits.ContextMessages, "a whole number"),
		}),
	})
	if err != nil {
		return err
	}
	out.NoAutoMention = !mention
	*a = out
	return nil
}

func readRule(r *approval.Rule) reader {
	return object(members{
		"name":   into(&r.Name, "text"),
		"tools":  namesOr(&r.Tools, "for all"),
		"agents": namesOr(&r.Agents, "for all"),
		"when":   into(&r.When, "text, an expression in CEL"),
		"effect": into(&r.Effect, "text: allow, ask or deny"),
		"reason": into(&r.Reason, "text"),
		"terms":  readTerms(&r.Terms),
	})
}

func readTerms(t *approval.Terms) reader {
	return object(members{
		"approvers": namesOr(&t.Approvers, "if anybody may decide"),
		"quorum":    into(&t.Quorum, "a whole number"),
		"expires":   readDuration(&t.Expires),
		"remind":    readDuration(&t.Remind),
		"onExpiry":  into(&t.OnExpiry, "text: deny or interrupt"),
	})
}

// duration is a string in JSON, in its shortest form.
type duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d duration) MarshalText() ([]byte, error) {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return []byte(s), nil
}
