package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// filterFlags are the flags that select threads of the API. Temporal's visibility does not know what they name.
func filterFlags(cmd *cobra.Command, q *api.ThreadQuery) {
	f := cmd.Flags()
	f.StringVar(&q.Tool, "tool", "", "only threads in which a call of this tool waits for a person")
	f.StringVar(&q.OlderThan, "older-than", "", "only threads without activity since a time such as 2027-01-31T12:00:00Z, or for a duration such as 24h")
	f.StringVar(&q.NewerThan, "newer-than", "", "only threads with activity since such a time, or within such a duration")
	f.Int64Var(&q.MinTokens, "min-tokens", 0, "only threads whose model calls took at least so many tokens")
	f.StringVar(&q.ExpiresBefore, "expires-before", "", "only threads in which an approval expires before such a time, or within such a duration")
}

func (a threadCommands) listCommand() *cobra.Command {
	var q threadclient.ListQuery
	var stored api.ThreadQuery
	var failed, unanswered, attention bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "list",
		Short: "List the open threads, the newest first",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Limit < 1 || q.Limit > threadclient.MaxListLimit {
				return usagef("--limit is %d, must be 1 to %d", q.Limit, threadclient.MaxListLimit)
			}
			filtered := stored != api.ThreadQuery{}
			missing := "no thread matches"
			switch {
			case failed && unanswered || (failed || unanswered) && (q.All || q.Waiting):
				return usagef("--failed and --unanswered exclude each other, and --all and --waiting")
			case failed:
				stored.Activity, missing = string(store.ActivityFailing), "no thread has failed"
			case unanswered:
				stored.Activity, missing = string(store.ActivityUnanswered), "no thread has an unanswered message"
			case attention || filtered:
				if q.Waiting {
					stored.Activity = string(store.ActivityWaiting)
				}
			default:
				return a.listVisible(cmd.Context(), q)
			}
			if !q.All {
				stored.Status = store.ThreadOpen
			}
			if attention {
				stored.Sort = string(store.OrderAttention)
			}
			stored.Agent = q.Agent
			return a.listStored(cmd.Context(), stored, q.Limit, missing)
		},
	})
	cmd.Flags().BoolVar(&q.All, "all", false, "closed threads too")
	cmd.Flags().BoolVar(&q.Waiting, "waiting", false, "only threads that wait for approval")
	cmd.Flags().BoolVar(&failed, "failed", false, "only threads whose last turn failed")
	cmd.Flags().BoolVar(&unanswered, "unanswered", false, "only threads whose last message mentions no agent")
	cmd.Flags().BoolVar(&attention, "attention", false, "waiting threads first, then failed ones, the longest first, then the most recently active")
	cmd.Flags().StringVar(&q.Agent, "agent", "", "only threads of this agent")
	cmd.Flags().IntVar(&q.Limit, "limit", threadclient.DefaultListLimit, "how many at most")
	filterFlags(cmd, &stored)
	return cmd
}

func (a threadCommands) countsCommand() *cobra.Command {
	var q api.ThreadQuery
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "counts",
		Short: "Count the threads by status and activity",
		RunE: func(cmd *cobra.Command, _ []string) error {
			stored, err := a.api()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), a.flags.timeout)
			defer cancel()
			counts, err := stored.CountThreads(ctx, q)
			return a.show(counts, err, render.Counts(counts), "")
		},
	})
	cmd.Flags().StringVar(&q.Agent, "agent", "", "only threads of this agent")
	filterFlags(cmd, &q)
	return cmd
}

func (a threadCommands) showThreads(found []render.Thread, none string) error {
	return a.show(map[string]any{"threads": found}, nil, render.Threads(found, render.TableOptions{}), "%s in namespace %q", none, a.flags.namespace)
}

// listVisible lists threads of Temporal's visibility.
func (a threadCommands) listVisible(ctx context.Context, q threadclient.ListQuery) error {
	if err := a.knowAgent(ctx, &q); err != nil {
		return err
	}
	return a.withThreads(ctx, false, func(ctx context.Context, t threads) error {
		found, err := t.List(ctx, q)
		if err != nil {
			return err
		}
		return a.showThreads(a.withStored(ctx, q, found), none(q))
	})
}

// withStored adds what only the API knows, and Temporal's visibility does not: which threads failed or were not answered, and how they
// begin. The API may be down.
func (a threadCommands) withStored(ctx context.Context, q threadclient.ListQuery, found []threadclient.Summary) []render.Thread {
	out := make([]render.Thread, len(found))
	at := map[string]int{}
	for i, one := range found {
		out[i].Summary, at[one.ThreadID] = one, i
	}
	if len(found) == 0 {
		return out
	}
	var stored api.ThreadQuery
	if !q.All {
		stored.Status = store.ThreadOpen
	}
	err := a.eachStored(ctx, stored, threadclient.MaxListLimit, func(t api.Thread) bool {
		if i, listed := at[t.ID]; listed {
			out[i].Activity, out[i].Preview = t.Activity, t.Preview
			delete(at, t.ID)
		}
		return len(at) > 0
	})
	if err != nil {
		a.warn("the list does not tell which threads failed, nor how they begin: %s", a.explain(err))
	}
	return out
}

// eachStored calls do with threads of the namespace, as the API lists them, until it returns false.
func (a threadCommands) eachStored(ctx context.Context, q api.ThreadQuery, limit int, do func(api.Thread) bool) error {
	stored, err := a.api()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	return stored.Threads(ctx, q, limit, func(t api.Thread) bool { return t.Namespace != a.flags.namespace || do(t) })
}

// listStored lists threads of the API.
func (a threadCommands) listStored(ctx context.Context, q api.ThreadQuery, limit int, none string) error {
	out := []render.Thread{}
	err := a.eachStored(ctx, q, limit, func(t api.Thread) bool {
		out = append(out, render.Thread{Activity: t.Activity, Preview: t.Preview, Summary: threadclient.Summary{
			ThreadID: t.ID, Status: t.Status, Title: t.Title, Agents: t.Agents, Parent: t.Parent, StartTime: t.CreatedAt, Waiting: t.Activity == store.ActivityWaiting,
		}})
		return true
	})
	if err != nil {
		return err
	}
	return a.showThreads(out, none)
}

// knowAgent looks up the exact name of a query's agent, and whether it is the default agent, which
// Temporal does not know. The API may be down.
func (a threadCommands) knowAgent(ctx context.Context, q *threadclient.ListQuery) error {
	if q.Agent == "" {
		return nil
	}
	stored, err := a.api()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	all, err := stored.Agents(ctx, api.AllAgents)
	if err != nil {
		a.warn("the list lacks threads of the default agent: %s", a.explain(err))
	}
	for _, one := range all {
		if strings.EqualFold(one.Name, q.Agent) {
			q.Agent, q.Default = one.Name, one.Default
		}
	}
	return nil
}

// none describes an empty list.
func none(q threadclient.ListQuery) string {
	of := "threads"
	if q.Agent != "" {
		of += fmt.Sprintf(" of agent %q", q.Agent)
	}
	switch {
	case q.Waiting:
		return "no " + of + " wait for approval"
	case q.All:
		return "no " + of
	}
	return "no open " + of + " (--all has closed ones too)"
}
