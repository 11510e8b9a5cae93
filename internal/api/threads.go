package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// threadsPage is the maximum number of threads in a page.
const threadsPage = 200

// Thread is a thread in the form of the API: its row, and its current state.
type Thread struct {
	store.Thread
	Preview   string         `json:"preview,omitempty" maxLength:"200" doc:"The beginning of the first message of a person or an agent, on one line, as hooks and erasures left it. Left out in the response to opening a thread, which has not stored its message yet, and without such a message among the first 100 records"`
	Metadata  event.Metadata `json:"metadata,omitempty" doc:"Any JSON object that came with the thread"`
	TurnLimit int            `json:"turnLimit,omitempty" doc:"How many model calls an agent may make until the next user message or environment event. With state=true, or after a change"`
	LLMCalls  map[string]int `json:"llmCalls,omitempty" doc:"The model calls of each agent since then. As turnLimit"`

	Usage *event.Usage `json:"usage,omitempty" doc:"The tokens of all model calls, with those of sub-agents that have ended. As turnLimit"`
}

// ThreadQuery selects threads, by the parameters of GET /v1/threads. All fields are optional. Counts are of every status and activity.
type ThreadQuery struct {
	Status, Activity, Search, Agent, Tool string
	OlderThan, NewerThan, ExpiresBefore   string
	MinTokens                             int64
	Sort                                  string
}

func (q ThreadQuery) addTo(query url.Values) url.Values {
	for name, value := range map[string]string{
		"status": q.Status, "activity": q.Activity, "q": q.Search, "agent": q.Agent, "tool": q.Tool,
		"olderThan": q.OlderThan, "newerThan": q.NewerThan, "expiresBefore": q.ExpiresBefore, "sort": q.Sort,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.MinTokens > 0 {
		query.Set("minTokens", strconv.FormatInt(q.MinTokens, 10))
	}
	return query
}

// ThreadPage returns a page of threads.
func (c *Client) ThreadPage(ctx context.Context, q ThreadQuery, cursor string, limit int) (Page[Thread], error) {
	out, err := call[struct {
		Threads []Thread `json:"threads"`
		Next    string   `json:"next"`
	}](ctx, c, http.MethodGet, c.url(q.addTo(pageQuery(cursor, limit)), "threads"), nil, "listing threads")
	return Page[Thread]{out.Threads, out.Next}, err
}

// Threads calls do with threads in their order, at most limit, until it returns false.
func (c *Client) Threads(ctx context.Context, q ThreadQuery, limit int, do func(Thread) bool) error {
	for cursor := ""; ; {
		page, err := c.ThreadPage(ctx, q, cursor, min(limit, threadsPage))
		if err != nil {
			return err
		}
		for _, t := range page.Items {
			if !do(t) {
				return nil
			}
		}
		limit -= len(page.Items)
		if page.Next == "" || page.Next == cursor || limit <= 0 {
			return nil
		}
		cursor = page.Next
	}
}

// CountThreads counts threads by status and activity.
func (c *Client) CountThreads(ctx context.Context, q ThreadQuery) (store.ThreadCounts, error) {
	return call[store.ThreadCounts](ctx, c, http.MethodGet, c.url(q.addTo(url.Values{}), "thread-counts"), nil, "counting threads")
}
