package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/ops/repair"
)

// repairHandlers serve the comparison of the store with Temporal.
type repairHandlers struct {
	*core
	compare func(context.Context, repair.RepairRequest) (repair.Comparison, error)
}

type repairInput struct {
	Body repair.RepairRequest `contentType:"application/json"`
}

func (h *repairHandlers) registerRepair() {
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "repair", Method: http.MethodPost, Path: "/v1/repair", Tags: []string{"server"},
		Summary: "Compare the store with Temporal, and mend what differs",
		Description: "For use after one of them was restored from a backup. Compares a page of threads and tells those that differ; `next` is the cursor of the next page. " +
			"Nothing is changed without `apply`. It needs no worker, and can be repeated. `starter repair` goes through all pages.",
		Errors: []int{422, 503},
	}, h.repair)
}

func (h *repairHandlers) repair(ctx context.Context, in *repairInput) (*output[repair.Comparison], error) {
	if h.compare == nil {
		return nil, huma.Error503ServiceUnavailable("this server does not reach Temporal")
	}
	out, err := h.compare(ctx, in.Body)
	if err != nil {
		return nil, h.problem(ctx, in.Body.ThreadID, err)
	}
	return &output[repair.Comparison]{out}, nil
}
