package cards

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageCallsByKeyboard decides on twenty calls of four threads by keyboard alone, after reading each: what lists is approved, what removes is denied.
// The log has the time for each decision, of which the page waits 0.4 seconds so that people can read.
func TestPageCallsByKeyboard(t *testing.T) {
	t.Parallel()
	const threads, calls = 4, 5
	w := harness.New(t, harness.Options{Agents: []agent.Agent{{
		Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Approvals: map[string]agent.Policy{"note": agent.PolicyAlways},
	}}})
	var ids []string
	for i := range threads {
		var uses []string
		for j := range calls {
			uses = append(uses, fmt.Sprintf(`use note {"text":"%s %d of %d"}`, []string{"list", "remove"}[(i+j)%2], j, i))
		}
		ids = append(ids, w.Open())
		w.Post(ids[i], strings.Join(uses, "\n"))
	}
	for _, id := range ids {
		w.AwaitApproval(id, calls)
	}
	p := browser.New(t).OpenAs("ann", w.API.URL+"/#/approvals")
	p.Sees("tm-approvals", fmt.Sprintf("%d calls wait", threads*calls))
	began := time.Now()
	p.Press("j")
	for left := threads*calls - 1; left >= 0; left-- {
		p.Until(`document.activeElement.closest(".approval[data-keys]:not(.decided)") !== null`)
		if strings.Contains(browser.Evaluate[string](p, `document.activeElement.closest(".approval").querySelector(".args").textContent`), "remove") {
			p.Press("d")
			p.Until(`document.activeElement.matches(".approval input[name=reason]")`)
			p.Do(browser.Stroke("Enter", "\r", 13))
		} else {
			p.Press("a")
		}
		p.Until(fmt.Sprintf(`document.querySelectorAll(".approval:not(.decided)").length === %d`, left))
	}
	p.Sees("tm-approvals", "Nothing waits for you.")
	t.Logf("%.2f seconds for each decision", time.Since(began).Seconds()/(threads*calls))
	for _, id := range ids {
		asked := map[string]string{}
		decided := 0
		for _, r := range w.Records(id) {
			switch r.Type {
			case event.TypeApprovalRequest:
				q := harness.Payload[event.ApprovalRequest](w, r)
				asked[q.ToolCallID] = q.Arguments
			case event.TypeApproval:
				a := harness.Payload[event.Approval](w, r)
				want := event.DecisionApprove
				if strings.Contains(asked[a.ToolCallID], "remove") {
					want = event.DecisionDeny
				}
				assert.Equal(t, want, a.Decision, asked[a.ToolCallID])
				assert.Equal(t, "ann", a.By)
				decided++
			}
		}
		assert.Equal(t, calls, decided)
	}
}
