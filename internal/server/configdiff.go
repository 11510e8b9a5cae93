package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/ops/configdiff"
	"github.com/threadmill/threadmill/webhook"
)

// configHandlers serve comparisons of configurations.
type configHandlers struct {
	*core
	compare  func(ctx context.Context, file []byte, running []webhook.Endpoint) (configdiff.Diff, error)
	webhooks func() []webhook.Endpoint
}

const (
	comparePath    = "/v1/config/diff"
	comparePattern = http.MethodPost + " " + comparePath
)

type configDiffInput struct {
	Body struct {
		File string `json:"file" minLength:"1" doc:"The changed configuration file, in YAML. Environment variables are those of the API's process"`
	}
}

func (h *configHandlers) registerConfig() {
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "diffConfig", Method: http.MethodPost, Path: comparePath, Tags: []string{"server"},
		Summary:     "Compare a changed configuration file with what runs",
		Description: "Says what the change would do to calls that wait for approval, and which agents, tools, rules, hooks, webhooks, groups of approvers and sections of the file differ. Nothing is changed. `starter config diff` shows the result.",
		Errors:      []int{422},
	}, h.diffConfig)
}

func (h *configHandlers) diffConfig(ctx context.Context, in *configDiffInput) (*output[configdiff.Diff], error) {
	if h.compare == nil {
		return nil, refuse(http.StatusUnprocessableEntity, "body.file", configdiff.ErrNotChecked.Error())
	}
	out, err := h.compare(ctx, []byte(in.Body.File), h.webhooks())
	if err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "body.file", err.Error())
	}
	return &output[configdiff.Diff]{out}, nil
}
