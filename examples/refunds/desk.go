package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// people are the groups that approve. A company asks its directory instead: see approval.GroupsFunc.
var people = approval.FixedGroups{"finance": {"bo", "cleo", "dan"}}

// desk has what the desk has paid back. A real one asks its payment provider.
type desk struct {
	mu   sync.Mutex
	paid map[string]payment // by order

	// secret signs the webhooks of the shop. Without one, they are rejected.
	secret string
}

// payment is a refund that was paid.
type payment struct {
	Order string `json:"order"`
	Euros int    `json:"euros"`

	// call is the tool call that paid it: a call that runs again after a crash pays nothing twice.
	call string
}

func (d *desk) pay(p payment) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before, paid := d.paid[p.Order]; paid && before.call != p.call {
		return fmt.Errorf("%s was paid back before", p.Order)
	}
	d.paid[p.Order] = p
	return nil
}

// payments returns all payments, ordered by order.
func (d *desk) payments() []payment {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]payment, 0, len(d.paid))
	for _, p := range d.paid {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b payment) int { return cmp.Compare(a.Order, b.Order) })
	return out
}

// configure declares the agents and everything around them.
func (d *desk) configure(cfg *threadmill.Config) error {
	var err error
	if cfg.Redact, err = redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}}); err != nil {
		return err
	}
	cfg.Agents = []agent.Agent{
		{Name: "triage", Model: "offline/triage", Instructions: "You greet customers. Pass requests for refunds to @clerk, with the order and the amount."},
		{Name: "clerk", Model: "offline/clerk", Instructions: "You pay back orders, and write to customers.", Tools: []string{"refund", "send_mail", "list_refunds"}},
	}
	cfg.Tools = []tool.Tool{d.refund(), d.list(), sendMail}
	cfg.Hooks = []hook.Hook{d.once()}
	cfg.ApproverGroups = people
	cfg.ApprovalRules = []approval.Rule{{
		Name: "large refunds", Tools: []string{"refund"}, When: "args.euros > 100", Effect: approval.EffectAsk, Reason: "more than 100 euros",
		Terms: approval.Terms{Groups: []string{"finance"}, Quorum: 2, Expires: 48 * time.Hour},
	}}
	// A parcel that comes back is a matter for the clerk, in the thread of its customer.
	cfg.Rules = []rule.Rule{{
		Events: []string{"parcel.returned"}, Priority: 30, Agent: &rule.Agent{Name: "clerk", Prompt: "Pay back the order of the parcel."},
	}}
	return nil
}

// serve declares what the API has beside that of Threadmill.
func (d *desk) serve(cfg *httpapi.Config) error {
	if d.secret != "" {
		cfg.Webhooks = []webhook.Endpoint{{
			Name: "shop", Secrets: []webhook.Secret{webhook.Secret(d.secret)},
			Signature: webhook.Signature{Scheme: webhook.SchemeHMAC, Header: "Shop-Signature"},
			Event:     webhook.Event{Type: "parcel.returned", Thread: "{payload.customer}", Open: true, Agents: []string{"triage", "clerk"}},
		}}
	}
	cfg.Routes = d.routes
	return nil
}

// order is what a refund is for.
type order struct {
	ID    string `json:"order" jsonschema:"number of the order"`
	Euros int    `json:"euros" jsonschema:"how much to pay back"`
}

func (d *desk) refund() tool.Tool {
	return tool.MustFunc("refund", "Pays back an order.", func(_ context.Context, call tool.Call, in order) (string, error) {
		if err := d.pay(payment{Order: in.ID, Euros: in.Euros, call: call.ID}); err != nil {
			return "", err
		}
		return fmt.Sprintf("paid back %d euros for %s", in.Euros, in.ID), nil
	}, tool.Idempotent())
}

func (d *desk) list() tool.Tool {
	return tool.MustFunc("list_refunds", "Lists all refunds.", func(context.Context, tool.Call, struct{}) ([]payment, error) {
		return d.payments(), nil
	}, tool.Quick())
}

// mail is a letter to a customer.
type mail struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// sendMail hands a letter to the mail server, which reports its delivery later: the task is completed by its id. Meanwhile the
// clerk goes on.
var sendMail = tool.MustFunc("send_mail", "Writes to a customer.", func(_ context.Context, call tool.Call, in mail) (string, error) {
	if in.To == "" {
		return "", errors.New("to whom?")
	}
	return "", tool.ErrPending
}, tool.Background())

// once refuses a second refund of an order, and lets the other calls of a reply run.
func (d *desk) once() hook.Hook {
	return hook.OnToolCall("once", func(_ context.Context, c event.ToolCallEvent) (hook.Result, error) {
		paid := map[string]bool{}
		for _, p := range d.payments() {
			paid[p.Order] = true
		}
		for _, call := range c.ToolCalls {
			var in order
			if call.Function.Name != "refund" || json.Unmarshal([]byte(call.Function.Arguments), &in) != nil {
				continue
			}
			if paid[in.ID] {
				c.Refuse(call.ID, in.ID+" was paid back before. Tell the customer, and do not try again.")
			}
			paid[in.ID] = true // two calls of one reply
		}
		return hook.Replace(c), nil
	})
}

// routes are served beside the API.
func (d *desk) routes(*threadmill.Runtime) []httpapi.Route {
	return []httpapi.Route{{Pattern: "GET /refunds", Role: auth.RoleRead, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(d.payments()) // the client may have gone
	})}}
}

// reports is the thread of the daily report.
const reports = "reports"

// scheduleReport makes the clerk report each evening. A schedule that exists remains.
func scheduleReport(ctx context.Context, runtime *threadmill.Runtime) error {
	_, err := runtime.Client().CreateSchedule(ctx, signals.Schedule{
		ID: "report", ThreadID: reports, Cron: []string{"0 18 * * *"}, Open: true, Agents: []string{"clerk"},
		Message: &event.NewMessage{Content: "Report the refunds of today."},
	})
	if errors.Is(err, signals.ErrScheduleExists) {
		return nil
	}
	return err
}
