package cards

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestPageEqualCalls decides on equal calls of several threads at once. One that somebody else decides before the person confirms keeps
// that decision, and is named.
func TestPageEqualCalls(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	ask := func(text string) (string, event.ApprovalRequest) {
		id := w.Open()
		w.Post(id, `use note {"text":"`+text+`"}`)
		return id, w.AwaitApproval(id, 1)[0]
	}
	decided := func(id string) event.Approval {
		t.Helper()
		var made []event.Approval
		require.Eventually(t, func() bool {
			made = nil
			for _, r := range check.OfType(w, id, event.TypeApproval) {
				made = append(made, harness.Payload[event.Approval](w, r))
			}
			return len(made) == 1
		}, testenv.Patience, testenv.Tick)
		return made[0]
	}
	first, _ := ask("same")
	second, theirs := ask("same")
	third, _ := ask("same")
	other, _ := ask("another")
	p := browser.New(t).OpenAs("ann", w.API.URL+"/#/approvals")
	p.Until(`document.querySelectorAll("tm-approvals .approval").length === 4`)
	p.Until(`((e) => (e.value = "call", e.dispatchEvent(new Event("change")), true))(document.querySelector("tm-approvals .grouping select"))`)
	p.Sees("tm-approvals .call-group h2", "note 3 equal calls")
	p.Until(`document.querySelectorAll("tm-approvals .call-group").length === 2`)
	p.Accessible()
	p.Click("tm-approvals .call-group button", "Approve all 3…")
	p.Sees("dialog.bulk h2", "Approve 3 calls?")
	p.Until(`document.querySelectorAll("dialog.bulk li").length === 3 && document.querySelector("dialog.bulk").textContent.includes("same")`)
	p.Accessible()
	out, err := w.Threads.Decide(w.Ctx(), second, signals.Decide{ToolCallID: theirs.ToolCallID, Decision: event.DecisionDeny, By: "bob", Round: theirs.Round, Digest: theirs.Digest})
	require.NoError(t, err)
	require.Equal(t, signals.DecideAccepted, out.Result)
	p.Click("dialog.bulk button", "Approve 3 calls")
	p.Sees("dialog.bulk [role=status]", "2 calls approved, 1 failed.")
	p.Sees("dialog.bulk li .error", "conflicting decision")
	p.Click("dialog.bulk button", "Done")
	p.Until(`document.querySelectorAll("tm-approvals .approval").length === 1`)
	for _, id := range []string{first, third} {
		require.Equal(t, []any{event.DecisionApprove, event.ScopeOnce, "ann"}, []any{decided(id).Decision, decided(id).Scope, decided(id).By})
	}
	require.Equal(t, "bob", decided(second).By)
	require.Empty(t, check.OfType(w, other, event.TypeApproval))

	fourth, _ := ask("another")
	p.Click("tm-approvals .call-group button", "Deny all 2…")
	p.Fill("dialog.bulk input[name=reason]", "not on a Friday")
	p.Click("dialog.bulk button", "Deny 2 calls")
	p.Sees("dialog.bulk [role=status]", "2 calls denied.")
	for _, id := range []string{other, fourth} {
		require.Equal(t, []any{event.DecisionDeny, "not on a Friday"}, []any{decided(id).Decision, decided(id).Reason})
	}
}

// TestPageGroupFocus: the button that decides on a group keeps the focus when the group loses a call.
func TestPageGroupFocus(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	var ids []string
	for range 3 {
		id := w.Open()
		w.Post(id, `use note {"text":"same"}`)
		w.AwaitApproval(id, 1)
		ids = append(ids, id)
	}
	p := browser.New(t).OpenAs("ann", w.API.URL+"/#/approvals")
	p.Until(`((e) => e && (e.value = "call", e.dispatchEvent(new Event("change")), true))(document.querySelector("tm-approvals .grouping select"))`)
	p.Sees(".call-group button", "Approve all 3…")
	browser.Evaluate[chromedp.Void](p, `document.querySelectorAll(".call-group button")[1].focus()`)
	check.Approve(t, w, ids[1], w.AwaitApproval(ids[1], 1)[0].ToolCallID)
	p.Sees(".call-group button", "Approve all 2…")
	p.Until(`document.activeElement.textContent === "Deny all 2…"`)
}
