package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/threadmill/threadmill/internal/ops/configdiff"
	"github.com/threadmill/threadmill/internal/ops/doctor"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/ops/retention"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// Workers returns the workers of the API's threads. If the API does not know, they count as present.
func (c *Client) Workers(ctx context.Context) (threadclient.Workers, error) {
	out, err := call[struct {
		Worker *struct {
			TaskQueue string    `json:"taskQueue"`
			Polled    bool      `json:"polled"`
			Since     time.Time `json:"since"`
		} `json:"worker"`
	}](ctx, c, http.MethodGet, c.url(nil, "server"), nil, "reading the state of the server")
	if err != nil || out.Worker == nil {
		return threadclient.Workers{Polled: true}, err
	}
	return threadclient.Workers{TaskQueue: out.Worker.TaskQueue, Polled: out.Worker.Polled, LastPoll: out.Worker.Since}, nil
}

// Checks returns the result of the checks of the API's installation. With callModels, it calls each model that agents use.
func (c *Client) Checks(ctx context.Context, callModels bool) (doctor.Report, error) {
	query := url.Values{}
	if callModels {
		query.Set("models", "true")
	}
	return call[doctor.Report](ctx, c, http.MethodGet, c.url(query, "checks"), nil, "checking the installation")
}

// Repair compares a page of threads of the store with Temporal, and mends what differs if req says so.
func (c *Client) Repair(ctx context.Context, req repair.RepairRequest) (repair.Comparison, error) {
	return call[repair.Comparison](ctx, c, http.MethodPost, c.url(nil, "repair"), req, "comparing the store with Temporal")
}

// Retention returns what the retention would delete now.
func (c *Client) Retention(ctx context.Context) (retention.Due, error) {
	return call[retention.Due](ctx, c, http.MethodGet, c.url(nil, "retention"), nil, "reading what the retention would delete")
}

// DiffConfig says what a changed configuration file would do.
func (c *Client) DiffConfig(ctx context.Context, file string) (configdiff.Diff, error) {
	return call[configdiff.Diff](ctx, c, http.MethodPost, c.url(nil, "config", "diff"), map[string]string{"file": file}, "comparing the configuration")
}
