package rule_test

import (
	"encoding/json"
	"fmt"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
)

// Rules of one's own come before the default rules if their priority is higher.
func Example() {
	set, err := rule.NewSet(rule.Config{Rules: []rule.Rule{{
		Name:     "pushes",
		Events:   []string{"github.push"},
		Where:    []rule.Condition{{Field: "payload.branch", Equals: "main"}},
		Priority: 30,
		Agent:    &rule.Agent{Prompt: "Say in one sentence what the push changes."},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, branch := range []string{"main", "dev"} {
		push := event.EnvEvent{Type: "github.push", Payload: json.RawMessage(`{"branch":"` + branch + `"}`)}
		handles, _ := rule.Match(set.Specs(), push)
		fmt.Println(branch, "→", handles.Name)
	}
	fmt.Println(set.Register(rule.Rule{Name: "late", Events: []string{"file.changed"}}))
	// Output:
	// main → pushes
	// dev → fallback
	// priority: 0 is below the default rule fallback (*, priority 10), which would handle its events: set a priority above 10
}
