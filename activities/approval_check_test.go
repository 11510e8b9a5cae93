package activities_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// registry has one agent, which may change. It fails as long as it has faults.
type registry struct {
	who    agent.Agent
	faults int
}

// newRegistry has an agent that needs approval for one of its tools.
func newRegistry(tools ...string) *registry {
	return &registry{who: agent.Agent{
		Name: "assistant", Model: "fake/small", Tools: tools, Approvals: map[string]agent.Policy{"*": agent.PolicyAlways},
	}}
}

func (r *registry) Agent(context.Context, string, string) (agent.Agent, error) {
	if r.faults > 0 {
		r.faults--
		return agent.Agent{}, errors.New("connection refused")
	}
	return r.who, nil
}

// faulty is a store that fails a number of reads of records, and a number of stores of tool
// results.
type faulty struct {
	teststore.Store
	reads, ends int
}

func (f *faulty) Records(ctx context.Context, k store.Key, q store.Query) ([]event.Record, error) {
	if f.reads > 0 {
		f.reads--
		return nil, errors.New("connection refused")
	}
	return f.Store.Records(ctx, k, q)
}

func (f *faulty) Append(ctx context.Context, k store.Key, b store.Batch) (store.Appended, error) {
	if b.ToolFinish != nil && f.ends > 0 {
		f.ends--
		return store.Appended{}, errors.New("connection refused")
	}
	return f.Store.Append(ctx, k, b)
}

// decisionOn is the record of a decision on a call.
func decisionOn(callID string, a event.Approval) event.Record {
	id := callID + ".decision"
	if a.Round > 1 {
		id += ".2"
	}
	a.ToolCallID, a.Agent, a.Scope, a.DecidedAt = callID, "assistant", event.ScopeOnce, time.Now()
	return event.NewRecord(id, event.TypeApproval, "e1", "e1", a.DecidedAt, a)
}

func digestOf(t *testing.T, name, arguments string) string {
	t.Helper()
	digest, err := approval.Call{Tool: name, Arguments: arguments}.Digest()
	require.NoError(t, err)
	return digest
}

// TestTermsOfToday checks an approval against the policy at the time of the run.
func TestTermsOfToday(t *testing.T) {
	for _, tc := range []struct {
		name  string
		by    []string
		today approval.Terms

		// then are the approvers of the new request. None = the call runs at once.
		then []string
	}{
		{"anybody may", []string{"bob"}, approval.Terms{}, nil},
		{"one of those who may", []string{"bob"}, approval.Terms{Approvers: []string{"ann", "bob"}}, nil},
		{"one who may no more", []string{"bob"}, approval.Terms{Approvers: []string{"ann", "eve"}}, []string{"ann"}},
		{"one of several", []string{"bob"}, approval.Terms{Quorum: 2}, []string{"bob", "eve"}},
		{"several", []string{"bob", "eve"}, approval.Terms{Quorum: 2}, nil},
		{"more than it takes", []string{"bob", "eve", "ann"}, approval.Terms{Approvers: []string{"ann"}}, nil},
		{"several, of whom one may no more", []string{"ann", "bob"}, approval.Terms{Approvers: []string{"ann", "eve"}, Quorum: 2}, []string{"eve", "ann"}},
		{"an agent never counts", []string{"Assistant "}, approval.Terms{}, []string{"ann"}},
		{"an agent never counts, listed or not", []string{"assistant"}, approval.Terms{Approvers: []string{"assistant", "ann"}}, []string{"ann"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pay, agents := &raw{def: tool.Definition{Name: "pay"}, do: returns("paid")}, newRegistry("pay")
			w := newFixture(t, func(c *activities.Config) { c.Agents = agents }, pay)
			in := w.asked(call("c1", "pay", "{}"))
			agents.who.ApprovalTerms = tc.today
			approve := func(round int, names []string) {
				made := event.Approval{Decision: event.DecisionApprove, By: names[len(names)-1], Round: round, Digest: digestOf(t, "pay", "{}"), Definition: pay.def.Digest()}
				for _, name := range names {
					if len(names) > 1 {
						made.Votes = append(made.Votes, event.Vote{By: name, At: time.Now()})
					}
				}
				decision := decisionOn("c1", made)
				w.append(store.Batch{Records: []event.Record{decision}})
				in.DecisionID = decision.ID
			}
			approve(1, tc.by)
			out, err := w.runTool(in)
			require.NoError(t, err)
			if len(tc.then) > 0 {
				require.Zero(t, pay.runs.Load())
				require.NotNil(t, out.Approval)
				require.True(t, out.Approval.NeedsApproval)
				require.Contains(t, out.Approval.Reason, "others have to approve it by now")
				require.Equal(t, tc.today.Approvers, out.Approval.Approval.Approvers, "people are asked on the terms of today")
				require.Equal(t, tc.today.Quorum, out.Approval.Approval.Quorum)
				approve(2, tc.then)
				out, err = w.runTool(in)
				require.NoError(t, err)
			}
			require.Nil(t, out.Approval, "and asked no more, once they have approved")
			require.Equal(t, "succeeded", out.Status)
			require.EqualValues(t, 1, pay.runs.Load())
		})
	}
}

// TestRevokedThoughCovered: a call whose own approval was revoked needs approval, even if a grant
// covers it.
func TestRevokedThoughCovered(t *testing.T) {
	pay := &raw{def: tool.Definition{Name: "pay"}, do: returns("paid")}
	w := newFixture(t, func(c *activities.Config) { c.Agents = newRegistry("pay") }, pay)
	in := w.asked(call("c1", "pay", "{}"), call("c2", "pay", "{}"))
	made := event.Approval{Decision: event.DecisionApprove, By: "ann", ToolName: "pay", Digest: digestOf(t, "pay", "{}"), Definition: pay.def.Digest()}
	given := made
	given.ToolCallID, given.Agent, given.Scope = "c1", "assistant", event.ScopeSession
	covered := made
	covered.Grant = "c1"
	decision := decisionOn("c2", covered)
	w.append(store.Batch{Records: []event.Record{event.NewRecord("c1.decision", event.TypeApproval, "e1", "e1", time.Now(), given), decision}})
	revoked := event.Approval{ToolCallID: "c2", Decision: event.DecisionRevoked, By: "bob"}
	w.append(store.Batch{Records: []event.Record{event.NewRecord("c2.revoked", event.TypeApproval, "e1", "e1", time.Now(), revoked)}})

	in.ToolCallID, in.DecisionID = "c2", decision.ID
	out, err := w.runTool(in)
	require.NoError(t, err)
	require.Zero(t, pay.runs.Load())
	require.NotNil(t, out.Approval)
	require.True(t, out.Approval.NeedsApproval)

	made.Round = 2
	decision = decisionOn("c2", made)
	w.append(store.Batch{Records: []event.Record{decision}})
	in.DecisionID = decision.ID
	out, err = w.runTool(in)
	require.NoError(t, err)
	require.Equal(t, "succeeded", out.Status, "once somebody has approved it")
}
