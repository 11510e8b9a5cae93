package config

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
)

var (
	// approvalRuleFields are those of a rule for all agents; the rule of an agent names none.
	approvalRuleFields = []string{"name", "tools", "agents", "when", "effect", "reason", "terms"}
	ownRuleFields      = []string{"name", "tools", "when", "effect", "reason", "terms"}
	termsFields        = []string{"approvers", "quorum", "expires", "remind", "onExpiry"}
)

// approvals reads the policies of an agent that has these tools.
func (f field) approvals(tools []string) map[string]agent.Policy {
	policies := map[string]agent.Policy{}
	for _, p := range f.fields() {
		policy, ok := p.oneOf(string(agent.Never), string(agent.Always), string(agent.Forbidden))
		switch {
		case p.key != "*" && !has(f.doc.tools, p.key):
			p.failKey(`unknown tool; %s ("*" is for all others)`, suggest(p.key, f.doc.tools))
		case p.key != "*" && !has(tools, p.key):
			p.failKey("the agent does not have this tool: add it to the agent's tools or remove the policy")
		case ok:
			policies[p.key] = agent.Policy(policy)
		}
	}
	return policies
}

// approvalRules reads the rules for the calls of all agents. Those that they name are of the
// file.
func (d *document) approvalRules(v value, agents agent.Fixed) []approval.Rule {
	return v.rulesForCalls(approvalRuleFields, value.tool, func(v value) (string, bool) { return v.agentOf(agents) })
}

// ownApprovalRules reads the rules for the calls of an agent that has these tools.
func (f field) ownApprovalRules(tools []string) []approval.Rule {
	return f.rulesForCalls(ownRuleFields, func(v value) (string, bool) {
		s, ok := v.tool()
		if ok && !has(tools, s) {
			v.fail("the agent does not have the tool %q: add it to the agent's tools or remove it here", s)
			return "", false
		}
		return s, ok
	}, nil)
}

// readName reads the name of a tool or of an agent.
type readName func(value) (string, bool)

// rulesForCalls reads rules, which are told apart by their names: these are kept with what
// the rules decide.
func (v value) rulesForCalls(known []string, readTool, readAgent readName) []approval.Rule {
	items := v.items()
	if len(items) > approval.MaxRules {
		v.fail("has %d rules, at most %d are taken", len(items), approval.MaxRules)
		return nil
	}
	rules := make([]approval.Rule, len(items))
	lines := map[string]int{}
	for i, item := range items {
		before := len(v.doc.errs)
		rules[i] = item.ruleForCalls(known, readTool, readAgent)
		if len(v.doc.errs) > before || !v.doc.accepts(item.path, rules[i].Validate()) {
			continue
		}
		at, key := v.doc.placeOf(item.path+".name"), strings.ToLower(rules[i].Name)
		if line, taken := lines[key]; taken {
			v.doc.fail(at, item.path+".name", "another rule has the name %q already, in line %d: choose another name", rules[i].Name, line)
			continue
		}
		lines[key] = at.Line
	}
	return rules
}

func (v value) ruleForCalls(known []string, readTool, readAgent readName) (r approval.Rule) {
	for _, f := range v.fields(known...) {
		switch f.key {
		case "name":
			r.Name, _ = f.word()
		case "tools":
			r.Tools = f.namesOrAll(readTool)
		case "agents":
			r.Agents = f.namesOrAll(readAgent)
		case "when":
			r.When = f.expression()
		case "effect":
			effect, _ := f.oneOf(string(approval.Allow), string(approval.Ask), string(approval.Deny))
			r.Effect = approval.Effect(effect)
		case "reason":
			r.Reason, _ = f.text()
			r.Reason = strings.TrimSpace(r.Reason)
		case "terms":
			r.Terms = f.terms()
		}
	}
	if !v.has("name", known) {
		v.missing("name", "is missing: people see it, and it is kept with what the rule decides")
	}
	if !v.has("effect", known) {
		v.missing("effect", "is missing: allow, ask or deny")
	}
	return r
}

// expression reads an expression in CEL.
func (f field) expression() string {
	s, ok := f.text()
	if !ok {
		return ""
	}
	s = strings.TrimSpace(s)
	var wrong *event.FieldError
	if errors.As(approval.Rule{Name: "x", Effect: approval.Ask, When: s}.Validate(), &wrong) {
		f.fail("%s", wrong.Problem)
	}
	return s
}

// namesOrAll reads a list of names, or of "*".
func (f field) namesOrAll(read readName) []string {
	return words(f.itemsOr("for all"), func(v value) (string, bool) {
		if n, ok := v.doc.resolve(v.node).(*ast.StringNode); ok && n.Value == "*" {
			return n.Value, true
		}
		return read(v)
	})
}

// itemsOr are those of a list that stands for all if it is left out. One that is empty would
// do so as well, which nobody means.
func (f field) itemsOr(leaveOut string) []value {
	items := f.items()
	if len(items) == 0 && f.kind() == "a list" {
		f.fail("is empty: name at least one, or leave it out %s", leaveOut)
	}
	return items
}

// terms reads how people are asked. What is right is for package approval to say, to whom
// the whole belongs.
func (f field) terms() (t approval.Terms) {
	for _, f := range f.fields(termsFields...) {
		switch f.key {
		case "approvers":
			t.Approvers = words(f.itemsOr("if anybody may decide"), value.word)
		case "quorum":
			t.Quorum, _ = f.count(approval.MaxApprovers, "the default, 1")
		case "expires":
			t.Expires, _ = f.duration(approval.MinExpires, approval.MaxExpires, "no end")
		case "remind":
			t.Remind, _ = f.duration(approval.MinExpires, approval.MaxExpires, "no reminders")
		case "onExpiry":
			end, _ := f.oneOf(string(approval.DenyCall), string(approval.EndTurn))
			t.OnExpiry = approval.OnExpiry(end)
		}
	}
	return t
}

// approvalTerms reads the terms of an agent.
func (f field) approvalTerms() approval.Terms {
	before := len(f.doc.errs)
	t := f.terms()
	if len(f.doc.errs) == before {
		f.doc.accepts(strings.TrimSuffix(f.path, ".approvalTerms"), approval.CheckTerms(t))
	}
	return t
}
