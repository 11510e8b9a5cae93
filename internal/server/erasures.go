package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Eraser is the part of the thread client that erases threads.
type Eraser interface {
	StartErase(ctx context.Context, threadID, by string) error
	Erase(ctx context.Context, threadID, by string) (signals.Erasure, error)
}

type eraseInput struct {
	Body struct {
		ThreadID string `json:"threadId" maxLength:"128" doc:"The thread to erase, with the threads of its sub-agents"`
		By       string `json:"by,omitempty" maxLength:"128" doc:"Who asks for it; the receipt names them. Default: api"`
	}
}

type eraseOutput struct {
	Status int
	Body   signals.Erasure
}

type erasuresOutput struct {
	Body struct {
		Erasures []signals.Erasure `json:"erasures" nullable:"false" doc:"The receipts, by their threads; at most 1000"`
	}
}

type erasureInput struct {
	ThreadID string `path:"threadId" doc:"The thread's id"`
}

// erasureHandlers serve erasures.
type erasureHandlers struct {
	*core
	threads Eraser
	store   store.Store
}

func (h *erasureHandlers) registerErasures() {
	tags := []string{"erasures"}
	const all, one = "/v1/erasures", "/v1/erasures/{threadId}"
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "eraseThread", Method: http.MethodPost, Path: all, Tags: tags, Summary: "Erase a thread for good",
		Description: "Deletes the thread, the threads of its sub-agents and what was derived from them: records, workflows and their histories, schedules, " +
			"documents, mentions. The response is the receipt, or 202 with what is known of it if the erasure takes longer: it goes on, and the same request " +
			"waits for it. Erasing an erased thread again deletes what has come since.",
		Errors: []int{400, 413, 422},
		Responses: map[string]*huma.Response{"202": {Description: "The erasure goes on", Content: map[string]*huma.MediaType{
			typeJSON: {Schema: &huma.Schema{Ref: "#/components/schemas/Erasure"}},
		}}},
	}, h.erase)
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "listErasures", Method: http.MethodGet, Path: all, Tags: tags, Summary: "List the receipts of erasures",
	}, h.list)
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "getErasure", Method: http.MethodGet, Path: one, Tags: tags, Summary: "Get the receipt of an erasure",
		Description: "A receipt exists when nothing of the thread is found any more. It stays for ever, and contains nothing that was said.",
		Errors:      []int{404},
	}, h.get)
}

func (h *erasureHandlers) erase(ctx context.Context, in *eraseInput) (*eraseOutput, error) {
	by, err := actor(ctx, "body.by", in.Body.By, byAPI)
	if err != nil {
		return nil, err
	}
	if err := signals.ValidateID("threadId", in.Body.ThreadID); err != nil {
		return nil, refuseField("body.threadId", err)
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	// It is certain before anybody waits.
	if err := h.threads.StartErase(within, in.Body.ThreadID, by); err != nil {
		return nil, h.problem(ctx, in.Body.ThreadID, err)
	}
	out, err := h.threads.Erase(within, in.Body.ThreadID, by)
	switch {
	case err == nil:
		return &eraseOutput{http.StatusOK, out}, nil
	case within.Err() != nil && ctx.Err() == nil:
		return &eraseOutput{http.StatusAccepted, signals.Erasure{
			Namespace: h.namespace, ThreadID: in.Body.ThreadID, Threads: []string{}, By: by, Remains: []signals.ErasureRemain{},
		}}, nil
	}
	return nil, h.problem(ctx, in.Body.ThreadID, err)
}

func (h *erasureHandlers) list(ctx context.Context, _ *struct{}) (*erasuresOutput, error) {
	all, err := erasures.List(ctx, h.store, h.namespace)
	out := &erasuresOutput{}
	out.Body.Erasures = nonNil(all)
	return out, h.problem(ctx, "", err)
}

func (h *erasureHandlers) get(ctx context.Context, in *erasureInput) (*output[signals.Erasure], error) {
	e, err := erasures.Load(ctx, h.store, h.namespace, in.ThreadID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, huma.Error404NotFound(fmt.Sprintf("there is no receipt of an erasure of thread %.128q: it was not erased, or the erasure goes on", in.ThreadID))
	}
	return &output[signals.Erasure]{e}, h.problem(ctx, in.ThreadID, err)
}
