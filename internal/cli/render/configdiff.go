package render

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/internal/ops/configdiff"
)

// ConfigDiff renders what a changed configuration would do, the calls that wait first.
func ConfigDiff(d configdiff.Diff) string {
	var out strings.Builder
	unchanged := 0
	for _, c := range d.Calls {
		if len(c.Effects) == 0 {
			unchanged++
			continue
		}
		fmt.Fprintf(&out, "%s of %s in thread %s (%s):\n", oneLine(c.Tool), oneLine(c.Agent), oneLine(c.ThreadID), oneLine(c.ToolCallID))
		for _, e := range c.Effects {
			fmt.Fprintf(&out, "  %s\n", oneLine(e))
		}
	}
	for _, list := range []struct {
		kind    string
		changes []configdiff.Change
	}{{"agent", d.Agents}, {"tool", d.Tools}, {"rule", d.Rules}, {"hook", d.Hooks}, {"webhook", d.Webhooks}, {"section", d.Settings}, {"group", d.Groups}} {
		for _, c := range list.changes {
			threads := ""
			if list.kind == "agent" {
				threads = fmt.Sprintf(" (%d open threads)", c.Threads)
			}
			fmt.Fprintf(&out, "%s %s%s: %s\n", list.kind, oneLine(c.Name), threads, oneLine(strings.Join(c.Changes, "; ")))
		}
	}
	if d.ApprovalRules {
		out.WriteString("the approval rules of all agents differ\n")
	}
	fmt.Fprintf(&out, "%d of %d waiting calls unchanged\n", unchanged, len(d.Calls))
	if n := len(d.Unanswered); n > 0 {
		fmt.Fprintf(&out, "%d threads did not answer: their calls are missing here\n", n)
	}
	if d.More {
		out.WriteString("more threads wait than were asked: their calls are missing here\n")
	}
	return out.String()
}
