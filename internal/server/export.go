package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/export"
)

const typeJSONLines = "application/jsonl"

// exportHandlers export threads.
type exportHandlers struct{ *lookup }

func (h *exportHandlers) registerExport() {
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "exportThread", Method: http.MethodGet, Path: "/v1/threads/{id}/export", Tags: []string{"threads"},
		Summary: "Export everything that belongs to a thread",
		Description: "Lines of JSON, each with its kind: the thread, its records, logs of tool calls, mentions and documents, then the threads of its sub-agents. " +
			"The last line has the kind end: without it, the export is not complete.",
		Errors:    []int{404, 503},
		Responses: map[string]*huma.Response{"200": {Description: "The lines", Content: map[string]*huma.MediaType{typeJSONLines: {Schema: &huma.Schema{Type: huma.TypeString}}}}},
	}, h.export)
}

func (h *exportHandlers) export(ctx context.Context, in *ThreadPath) (*huma.StreamResponse, error) {
	if _, err := h.thread(ctx, in.ID); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", typeJSONLines)
		hctx.SetStatus(http.StatusOK)
		if err := export.Thread(hctx.Context(), h.store, h.key(in.ID), hctx.BodyWriter()); err != nil && hctx.Context().Err() == nil {
			h.logger.Warn("an export ends early; its last line is missing", "thread", in.ID, "error", err)
		}
	}}, nil
}
