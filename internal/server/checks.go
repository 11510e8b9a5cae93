package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/buildinfo"
	"github.com/threadmill/threadmill/internal/ops/doctor"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// checkWithin is the time limit of the checks.
const checkWithin = 25 * time.Second

// checkHandlers serve the checks of the installation.
type checkHandlers struct {
	*core
	store  store.Store
	stream stream.Stream
	checks func(ctx context.Context, callModels bool) []doctor.Finding
}

type checkInput struct {
	Models bool `query:"models" doc:"Call each model that agents use once, for a few tokens"`
}

func (h *checkHandlers) registerChecks() {
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "runChecks", Method: http.MethodGet, Path: "/v1/checks", Tags: []string{"server"},
		Summary:     "Check the installation",
		Description: "Checks Temporal, search attributes, workers, the store, the live stream and models as the API reaches them, and says what to do about each fault. It takes up to 25 seconds. `starter doctor` shows the result.",
	}, h.runChecks)
}

func (h *checkHandlers) runChecks(ctx context.Context, in *checkInput) (*output[doctor.Report], error) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	findings := make(chan []doctor.Finding, 3)
	run := func(check func() []doctor.Finding) { go func() { findings <- check() }() }
	run(func() []doctor.Finding {
		return []doctor.Finding{doctor.Reached(ctx, "store", "check DATABASE_URL, and that the database runs; the log of the API has the whole error", h.store.Ping)}
	})
	run(func() []doctor.Finding {
		return []doctor.Finding{doctor.Reached(ctx, "live stream", "check NATS_URL, and that NATS runs with JetStream", h.stream.Ping)}
	})
	run(func() []doctor.Finding {
		if h.checks == nil {
			return nil
		}
		return h.checks(ctx, in.Models)
	})
	out := doctor.Report{Version: buildinfo.Version(), Findings: []doctor.Finding{}}
	for range cap(findings) {
		out.Findings = append(out.Findings, <-findings...)
	}
	doctor.Sort(out.Findings)
	out.Now = time.Now()
	return &output[doctor.Report]{out}, nil
}
