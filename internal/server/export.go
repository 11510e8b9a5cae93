package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures/export"
	"github.com/threadmill/threadmill/internal/erasures/forget"
)

const typeJSONLines = "application/jsonl"

// exportHandlers export threads.
type exportHandlers struct {
	*lookup
	records export.Store
}

func (h *exportHandlers) registerExport() {
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "exportThread", Method: http.MethodGet, Path: "/v1/threads/{id}/export", Tags: []string{"threads"},
		Summary: "Export everything that belongs to a thread",
		Description: "Lines of JSON, each with its kind: the thread, its records, logs of tool calls, mentions and documents, then the threads of its sub-agents. " +
			"The last line has the kind end: without it, the export is not complete.",
		Errors:    []int{404, 503},
		Responses: map[string]*huma.Response{"200": {Description: "The lines", Content: map[string]*huma.MediaType{typeJSONLines: {Schema: &huma.Schema{Type: huma.TypeString}}}}},
	}, h.export)
	h.registerPersonExport()
}

func (h *exportHandlers) registerPersonExport() {
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "exportPerson", Method: http.MethodPost, Path: "/v1/person-exports", Tags: []string{"erasures"},
		Summary: "Export what all threads have of a person",
		Description: "Lines of JSON as in the export of a thread: the messages and decisions of the person, what came of them, and what has one of the terms, after the " +
			"row of each thread. The last line has the kind end: without it, the export is not complete.",
		Errors:    []int{400, 413, 422, 503},
		Responses: map[string]*huma.Response{"200": {Description: "The lines", Content: map[string]*huma.MediaType{typeJSONLines: {Schema: &huma.Schema{Type: huma.TypeString}}}}},
	}, h.exportPerson)
}

type exportPersonInput struct {
	Body struct {
		Person string   `json:"person" minLength:"1" doc:"The name under which the person wrote and decided"`
		Terms  []string `json:"terms,omitempty" maxItems:"50" doc:"Further words by which the person is known, as for the erasure of a person"`
	}
}

func (h *exportHandlers) exportPerson(ctx context.Context, in *exportPersonInput) (*huma.StreamResponse, error) {
	p, err := forget.New(in.Body.Person, "", in.Body.Terms)
	if err != nil {
		return nil, refusePerson(err)
	}
	if _, err := h.store.ThreadIDs(ctx, h.namespace, "", 1); err != nil {
		return nil, h.problem(ctx, "", err)
	}
	return lines(func(hctx huma.Context) {
		if err := export.Person(hctx.Context(), h.records, h.namespace, p, hctx.BodyWriter()); err != nil && hctx.Context().Err() == nil {
			h.logger.Warn("an export of a person ends early; its last line is missing", "error", err)
		}
	}), nil
}

// refusePerson names the field of a body that names a person.
func refusePerson(err error) error {
	wrong, ok := errors.AsType[*event.FieldError](err)
	if !ok {
		return err
	}
	return refuseField("body."+wrong.Field, wrong)
}

// lines streams lines of JSON.
func lines(write func(huma.Context)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", typeJSONLines)
		hctx.SetStatus(http.StatusOK)
		write(hctx)
	}}
}

func (h *exportHandlers) export(ctx context.Context, in *ThreadPath) (*huma.StreamResponse, error) {
	if _, err := h.thread(ctx, in.ID); err != nil {
		return nil, err
	}
	return lines(func(hctx huma.Context) {
		if err := export.Thread(hctx.Context(), h.records, h.key(in.ID), hctx.BodyWriter()); err != nil && hctx.Context().Err() == nil {
			h.logger.Warn("an export ends early; its last line is missing", "thread", in.ID, "error", err)
		}
	}), nil
}
