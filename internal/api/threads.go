package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/threadmill/threadmill/store"
)

// threadsPage is the maximum number of threads in a page.
const threadsPage = 200

// Thread is a thread as the API lists it.
type Thread struct {
	store.Thread
	Preview string `json:"preview"`
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
