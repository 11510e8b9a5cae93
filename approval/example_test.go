package approval_test

import (
	"fmt"

	"github.com/threadmill/threadmill/approval"
)

// A rule that denies wins over one that allows.
func ExampleDecide() {
	rules := []approval.Rule{
		{Name: "status is harmless", Tools: []string{"shell_cmd"}, Effect: approval.EffectAllow, When: `args.cmd.startsWith("git ")`},
		{Name: "no force", Tools: []string{"shell_cmd"}, Effect: approval.EffectDeny, When: `args.cmd.contains("--force")`},
	}
	for _, cmd := range []string{"git status", "git push --force"} {
		verdict := approval.Decide(rules, approval.Call{Tool: "shell_cmd", Arguments: fmt.Sprintf(`{"cmd":%q}`, cmd)})
		fmt.Println(cmd, "→", verdict.Effect, "by", verdict.Rule)
	}
	// Output:
	// git status → allow by status is harmless
	// git push --force → deny by no force
}
