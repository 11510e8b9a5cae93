package cards

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// focusedReason means that the reason of a denial has the focus, with what was typed.
const focusedReason = `((e) => e.matches("input[name=reason]") && e.value === "because it is late")(document.activeElement)`

// TestPageEditorStays: what a person types about a call stays at its place when somebody else decides, and the page says who it was.
func TestPageEditorStays(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	ids := check.WaitingNotes(w, 3)
	thread := browser.New(t).OpenAs("ann", browser.ThreadPage(w.API.URL, ids[1]))
	all := browser.New(t).OpenAs("cleo", w.API.URL+"/#/approvals")
	thread.Click(".approval[data-seen] button", "Deny…")
	const second = "tm-approvals .waiting:nth-child(4) "
	all.Click(second+".approval[data-seen] button", "Deny…")
	for _, p := range []*browser.Tab{thread, all} {
		p.Fill(".approval input[name=reason]", "because it is late")
	}
	for _, id := range ids[:2] {
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, w.AwaitApproval(id, 1)[0].ToolCallID))
	}
	thread.Sees(".approval .error", "Approved by ann.")
	all.Until(`document.querySelectorAll("tm-approvals .waiting").length === 2`)
	all.Sees("tm-approvals .waiting .approval.decided .error", "Approved by ann.")
	for _, p := range []*browser.Tab{thread, all} {
		p.Until(focusedReason)
		p.Do(browser.Stroke("Enter", "\r", 13))
		p.Click(".approval .error button", "Close")
		p.Until(`document.querySelector(".approval [name=reason]") === null`)
	}
	all.Until(`document.querySelectorAll("tm-approvals .waiting").length === 1`)
	made := check.Only(t, check.OfType(w, ids[1], event.TypeApproval))
	require.Equal(t, event.DecisionApprove, harness.Payload[event.Approval](w, made).Decision)
}

// redefined is a tool whose definition changes, so that an approval of the former one does not hold.
type redefined struct {
	*check.Spy
	version atomic.Int64
}

// Definition implements [tool.Tool].
func (r *redefined) Definition() tool.Definition {
	d := r.Spy.Definition()
	d.Description = fmt.Sprint("Version ", r.version.Load())
	return d
}

// TestPageAskedAgain: a call is asked about again while people type. What they have typed stays, is not sent for the new request, and
// they can decide on that one.
func TestPageAskedAgain(t *testing.T) {
	t.Parallel()
	spied := &redefined{Spy: check.NewSpy("spied", tool.NeedsApproval(""))}
	w := harness.New(t, harness.Options{
		Tools:  []tool.Tool{spied},
		Agents: []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"spied"}}},
	})
	id := w.Open()
	posted := w.Post(id, `use spied {"path":"x"}`)
	first := w.AwaitApproval(id, 1)[0]
	thread := browser.New(t).OpenAs("ann", browser.ThreadPage(w.API.URL, id))
	all := browser.New(t).OpenAs("cleo", w.API.URL+"/#/approvals")
	for _, p := range []*browser.Tab{thread, all} {
		p.Click(".approval[data-seen] button", "Deny…")
		p.Fill(".approval input[name=reason]", "because it is late")
	}
	spied.version.Add(1)
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, first.ToolCallID))
	for _, p := range []*browser.Tab{thread, all} {
		p.Sees(".approval header", "asked again, round 2")
		p.Sees(".approval .news", "This call was asked again (round 2) while you were writing. Its arguments are the same. Nothing that you typed was sent.")
		p.Until(focusedReason)
		countDecisions(p)
		p.Do(browser.Stroke("Enter", "\r", 13))
		p.Until(focusedReason)
		p.Until(`decisions === 0`)
	}
	thread.Click(".approval .choice button", "Cancel")
	thread.Until(`document.querySelector(".approval [name=reason]") === null && document.querySelector(".approval .news").hidden`)
	all.Click(".approval .news button", "Use what I typed for this call")
	all.Until(focusedReason)
	all.Click(".approval .choice button", "Deny")
	require.Contains(t, w.Await(id, posted).Message.Content, "because it is late")
	require.Empty(t, spied.Seen())
	for _, p := range []*browser.Tab{thread, all} {
		p.Until(`document.querySelector(".approval") === null`)
	}
}

// TestPageOutcomeOfBusyThread: a card that is kept says who decided, however much its thread has recorded since.
func TestPageOutcomeOfBusyThread(t *testing.T) {
	t.Parallel()
	w := harness.New(t, check.AskingFirst(agent.PolicyAlways))
	id := check.WaitingNotes(w, 1)[0]
	p := browser.New(t).OpenAs("cleo", w.API.URL+"/#/approvals")
	alterWaiting(p)
	p.Click(".approval[data-seen] button", "Deny…")
	p.Fill(".approval input[name=reason]", "because it is late")
	browser.Evaluate[chromedp.Void](p, `(() => {
		let first;
		globalThis.alter = (list) => (list.approvals = first ??= list.approvals);
		globalThis.isFrozen = () => first !== undefined;
	})()`)
	p.Until("isFrozen()")
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, w.AwaitApproval(id, 1)[0].ToolCallID))
	check.AwaitRest(w, id)
	var records []event.Record
	for i := range 250 {
		m := event.Message{ID: fmt.Sprint("more", i), ThreadID: id, SenderID: "bob", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: "more"}
		records = append(records, event.NewRecord(m.ID, event.TypeMessage, m.ID, "", time.Now(), m))
	}
	_, err := w.Store.Append(w.Ctx(), w.Key(id), store.Batch{Records: records})
	require.NoError(t, err)
	browser.Evaluate[chromedp.Void](p, "globalThis.alter = () => {}; undefined")
	p.Sees(".approval[data-kept] .error", "Approved by ann.")
}
