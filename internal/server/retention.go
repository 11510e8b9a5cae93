package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/ops/retention"
)

// retentionHandlers serve the dry run of the retention.
type retentionHandlers struct {
	*core
	due func(context.Context) (retention.Due, error)
}

func (h *retentionHandlers) registerRetention() {
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "getRetention", Method: http.MethodGet, Path: "/v1/retention", Tags: []string{"server"},
		Summary: "Show what the retention would delete now, and what its last pass has deleted",
		Errors:  []int{503},
	}, h.retention)
}

func (h *retentionHandlers) retention(ctx context.Context, _ *struct{}) (*output[retention.Due], error) {
	if h.due == nil {
		return nil, huma.Error503ServiceUnavailable("this server has no retention")
	}
	out, err := h.due(ctx)
	if err != nil {
		return nil, h.problem(ctx, "", err)
	}
	return &output[retention.Due]{out}, nil
}
