package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/threadmilltest"
)

const card = "4111 1111 1111 1111"

// open returns a desk whose agents say what the script has.
func open(t *testing.T, script ...scripted.Reply) (*desk, *threadmilltest.Runtime) {
	t.Helper()
	d := &desk{paid: map[string]payment{}, secret: "secret"}
	var cfg threadmill.Config
	require.NoError(t, d.configure(&cfg))
	rt := threadmilltest.New(t, threadmilltest.Scripted(cfg, scripted.New(script...)))
	rt.Open("ann", signals.Start{Agents: []string{"triage", "clerk"}})
	return d, rt
}

// TestLargeRefund: triage passes the request on, two people of finance approve, and the number of the card is nowhere.
func TestLargeRefund(t *testing.T) {
	t.Parallel()
	d, rt := open(t,
		scripted.Say("@clerk Order A-1 arrived broken, 150 euros.").For("triage"),
		scripted.Call("refund", order{"A-1", 150}).For("clerk"),
		scripted.Say("@ann You get 150 euros back on your card "+card+".").For("clerk"),
	)
	turn := rt.Say("ann", "@triage A-1 arrived broken. I paid 150 euros with "+card+".")
	request := rt.WaitForApproval("ann")
	require.Equal(t, people["finance"], request.Approvers)
	rt.Decide("ann", request, signals.Decide{Decision: event.DecisionApprove, By: "bo"})
	require.Empty(t, d.payments(), "one is not enough")
	rt.Decide("ann", request, signals.Decide{Decision: event.DecisionApprove, By: "cleo"})
	require.Equal(t, "@ann You get 150 euros back on your card [card].", rt.Wait(turn).Message.Content)
	require.Equal(t, []payment{{Order: "A-1", Euros: 150, call: request.ToolCallID}}, d.payments())
	rt.Golden("ann", "testdata/large-refund.txt")
}

// TestNobodyApproves lets two days pass.
func TestNobodyApproves(t *testing.T) {
	t.Parallel()
	d, rt := open(t,
		scripted.Call("refund", order{"A-1", 150}).For("clerk"),
		scripted.Say("Finance has not decided. I am sorry.").For("clerk"),
	)
	turn := rt.Say("ann", "@clerk Please pay back A-1, 150 euros.")
	rt.WaitForApproval("ann")
	rt.Advance("ann", 48*time.Hour)
	require.Equal(t, "Finance has not decided. I am sorry.", rt.Wait(turn).Message.Content)
	require.Empty(t, d.payments())
}

// TestSecondRefund: the hook refuses one call of a reply, and the others run.
func TestSecondRefund(t *testing.T) {
	t.Parallel()
	d, rt := open(t,
		scripted.Call("refund", order{"A-1", 20}).For("clerk"),
		scripted.Say("Done.").For("clerk"),
		scripted.Call("refund", order{"A-1", 20}).And("refund", order{"A-2", 30}).For("clerk"),
		scripted.Say("A-1 was paid back before; A-2 is paid back now.").For("clerk"),
	)
	rt.Wait(rt.Say("ann", "@clerk Please pay back A-1."))
	rt.Wait(rt.Say("ann", "@clerk And A-1 again, and A-2."))
	require.Len(t, d.payments(), 2)
	rt.Golden("ann", "testdata/second-refund.txt")
}

// TestParcelReturned: the shop reports a parcel, with its signature, and the clerk pays.
func TestParcelReturned(t *testing.T) {
	t.Parallel()
	d, rt := open(t,
		scripted.Call("refund", order{"A-7", 40}).For("clerk").OnEvent("parcel.returned"),
		scripted.Say("A-7 came back, and is paid back.").For("clerk"),
	)
	body := `{"customer":"ann","order":"A-7","note":"paid with ` + card + `"}`
	mac := hmac.New(sha256.New, []byte("secret"))
	mac.Write([]byte(body))
	report := func(signature string) int {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/webhooks/shop", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Shop-Signature", signature)
		return serve(t, d, rt, req).Code
	}
	require.Equal(t, http.StatusUnauthorized, report("00"))
	require.Equal(t, http.StatusAccepted, report(hex.EncodeToString(mac.Sum(nil))))
	rt.WaitIdle("ann")
	require.Len(t, d.payments(), 1)

	res := serve(t, d, rt, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/refunds", nil))
	require.JSONEq(t, `[{"order":"A-7","euros":40}]`, res.Body.String())
	lacksCard(t, d, rt, "ann")
}

// TestMail: the clerk writes a letter, and goes on; its delivery is reported later.
func TestMail(t *testing.T) {
	t.Parallel()
	_, rt := open(t,
		scripted.Call("send_mail", mail{To: "ann", Text: "Your refund is on its way."}).For("clerk"),
		scripted.Say("I am writing to you.").For("clerk"),
		scripted.Say("The letter has arrived.").OnEvent(event.TypeBackgroundTaskCompleted),
	)
	require.Equal(t, "I am writing to you.", rt.Ask("ann", "@clerk Please write to me."))
	tasks, err := rt.Client().Tasks(t.Context(), "ann")
	require.NoError(t, err)
	require.Len(t, tasks.Tasks, 1)
	_, err = rt.Client().CompleteTask(t.Context(), signals.CompleteTask{TaskID: tasks.Tasks[0].ID, Result: json.RawMessage(`"delivered"`), By: "mail"})
	require.NoError(t, err)
	rt.WaitIdle("ann")
	require.Contains(t, rt.Transcript("ann"), "The letter has arrived.")
}

// TestReport: the schedule is created once, and its run asks the clerk.
func TestReport(t *testing.T) {
	t.Parallel()
	_, rt := open(t, scripted.Call("list_refunds", struct{}{}).For("clerk"), scripted.Say("No refunds today.").For("clerk"))
	require.NoError(t, scheduleReport(t.Context(), rt.Runtime))
	require.NoError(t, scheduleReport(t.Context(), rt.Runtime), "again")
	require.NoError(t, rt.Client().TriggerSchedule(t.Context(), "report"))
	require.Eventually(t, func() bool {
		state, err := rt.Client().State(t.Context(), reports)
		return err == nil && state.Status == signals.ThreadIdle && state.Usage.ModelCalls == 2
	}, 2*time.Minute, 10*time.Millisecond)
	require.Contains(t, rt.Transcript(reports), "No refunds today.")
}

// TestPolicy needs no server.
func TestPolicy(t *testing.T) {
	var cfg threadmill.Config
	require.NoError(t, (&desk{}).configure(&cfg))
	require.Equal(t, approval.EffectAllow, threadmilltest.Policy(t, cfg, "clerk", "refund", order{"A-1", 100}).Effect)
	large := threadmilltest.Policy(t, cfg, "clerk", "refund", order{"A-1", 101})
	require.Equal(t, approval.EffectAsk, large.Effect)
	require.Equal(t, 2, large.Terms.Quorum)
	require.Equal(t, "[card]", cfg.Redact.Text(card))
}

func serve(t *testing.T, d *desk, rt *threadmilltest.Runtime, req *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	var cfg httpapi.Config
	require.NoError(t, d.serve(&cfg))
	api, err := httpapi.New(rt.Runtime, cfg)
	require.NoError(t, err)
	res := httptest.NewRecorder()
	req.Host = "localhost"
	api.ServeHTTP(res, req)
	return res
}

// lacksCard fails if a record of a thread has the number of the card.
func lacksCard(t *testing.T, d *desk, rt *threadmilltest.Runtime, thread string) {
	t.Helper()
	raw := serve(t, d, rt, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/threads/"+thread+"/records", nil)).Body.String()
	require.Contains(t, raw, "[card]")
	require.NotContains(t, raw, card)
}
