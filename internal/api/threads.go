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
	Parent string `json:"parent"`
}

// Threads returns the open threads with an activity, at most limit, the most recently active first.
func (c *Client) Threads(ctx context.Context, activity store.Activity, limit int) ([]Thread, error) {
	var all []Thread
	query := url.Values{"activity": {string(activity)}}
	for {
		query.Set("limit", strconv.Itoa(min(limit-len(all), threadsPage)))
		page, err := call[struct {
			Threads []Thread `json:"threads"`
			Next    string   `json:"next"`
		}](ctx, c, http.MethodGet, c.url(query, "threads"), nil, "listing threads")
		if err != nil {
			return nil, err
		}
		all = append(all, page.Threads...)
		if page.Next == "" || page.Next == query.Get("cursor") || len(all) >= limit {
			return all, nil
		}
		query.Set("cursor", page.Next)
	}
}
