package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Eraser is the part of the thread client that erases threads.
type Eraser interface {
	StartErase(ctx context.Context, threadID, by string) error
	Erase(ctx context.Context, threadID, by string) (signals.Erasure, error)
	StartErasePerson(ctx context.Context, id, by string) error
	ErasePerson(ctx context.Context, id, by string) (signals.PersonErasure, error)
}

type eraseInput struct {
	Body struct {
		ThreadID string `json:"threadId" maxLength:"128" doc:"The thread to erase, with the threads of its sub-agents"`
		By       string `json:"by,omitempty" doc:"Who asks for it; the receipt names them. Default: api"`
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

type erasePersonInput struct {
	Body struct {
		Person string   `json:"person" minLength:"1" doc:"The name under which the person wrote and decided"`
		Terms  []string `json:"terms,omitempty" maxItems:"50" doc:"Further words by which the person is known, such as a full name or an address, of 3 characters or more each. They are replaced wherever they are whole words, in upper or lower case"`
		By     string   `json:"by,omitempty" doc:"Who asks for it; the receipt names them. Default: api"`
	}
}

type erasePersonOutput struct {
	Status int
	Body   signals.PersonErasure
}

type peopleOutput struct {
	Body struct {
		Erasures []signals.PersonErasure `json:"erasures" nullable:"false" doc:"The receipts, by their ids, at most 1000, and the erasures in progress, which have no time at which they finished"`
	}
}

type personErasureInput struct {
	ID string `path:"id" doc:"The erasure's id"`
}

// erasureHandlers serve erasures.
type erasureHandlers struct {
	*core
	threads Eraser
	store   store.Documents
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
	h.registerPeople(tags)
}

func (h *erasureHandlers) registerPeople(tags []string) {
	const all, one = "/v1/person-erasures", "/v1/person-erasures/{id}"
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "erasePerson", Method: http.MethodPost, Path: all, Tags: tags, Summary: "Erase a person in all threads",
		Description: "Threads in which nobody else wrote or decided are erased. In the others, what the person said, what came of it and the terms are replaced by " +
			"[erased], the name by a pseudonym; turns in progress that have something of it are interrupted. The response is the receipt, or 202 with the id of the " +
			"erasure if it takes longer: it goes on, and the same request waits for it.",
		Errors: []int{400, 413, 422},
		Responses: map[string]*huma.Response{"202": {Description: "The erasure goes on", Content: map[string]*huma.MediaType{
			typeJSON: {Schema: &huma.Schema{Ref: "#/components/schemas/PersonErasure"}},
		}}},
	}, h.erasePerson)
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "listPersonErasures", Method: http.MethodGet, Path: all, Tags: tags, Summary: "List the receipts of erased people",
	}, h.listPeople)
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "getPersonErasure", Method: http.MethodGet, Path: one, Tags: tags, Summary: "Get the receipt of the erasure of a person",
		Description: "A receipt exists when a look at all threads has found nothing of the person. It stays for ever, and does not name the person.",
		Errors:      []int{404},
	}, h.getPerson)
}

func (h *erasureHandlers) erasePerson(ctx context.Context, in *erasePersonInput) (*erasePersonOutput, error) {
	by, err := actor(ctx, "body.by", in.Body.By, byAPI)
	if err != nil {
		return nil, err
	}
	begun, err := erasures.BeginPerson(ctx, h.store, h.namespace, erasures.PersonRequest{Person: in.Body.Person, Terms: in.Body.Terms}, by)
	if _, ok := errors.AsType[*event.FieldError](err); ok {
		return nil, refusePerson(err)
	}
	if err != nil {
		return nil, h.problem(ctx, "", err)
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	// It is certain before anybody waits.
	if err := h.threads.StartErasePerson(within, begun.ID, begun.By); err != nil {
		return nil, named(h.problem(ctx, "", err), fmt.Sprintf("erasure %s is stored and may have begun: the same request begins or finds it", begun.ID), "id", begun.ID)
	}
	out, err := h.threads.ErasePerson(within, begun.ID, begun.By)
	switch {
	case err == nil:
		return &erasePersonOutput{http.StatusOK, out}, nil
	case unanswered(err) && ctx.Err() == nil:
		return &erasePersonOutput{http.StatusAccepted, begun}, nil
	}
	return nil, named(h.problem(ctx, "", err), fmt.Sprintf("erasure %s has begun: the same request finds it", begun.ID), "id", begun.ID)
}

// named adds to a problem which erasure it is about.
func named(err error, text, field, id string) error {
	var document *huma.ErrorModel
	if errors.As(err, &document) {
		document.Detail += "; " + text
		document.Errors = append(document.Errors, &huma.ErrorDetail{Location: field, Message: "the erasure", Value: id})
	}
	return err
}

func (h *erasureHandlers) listPeople(ctx context.Context, _ *struct{}) (*peopleOutput, error) {
	all, err := erasures.ListPeople(ctx, h.store, h.namespace)
	out := &peopleOutput{}
	out.Body.Erasures = nonNil(all)
	return out, h.problem(ctx, "", err)
}

func (h *erasureHandlers) getPerson(ctx context.Context, in *personErasureInput) (*output[signals.PersonErasure], error) {
	e, err := erasures.LoadPerson(ctx, h.store, h.namespace, in.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, huma.Error404NotFound(fmt.Sprintf("there is no receipt of an erasure %.128q: there was none, or it goes on, and the list of erasures has it", in.ID))
	}
	return &output[signals.PersonErasure]{e}, h.problem(ctx, "", err)
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
		return nil, named(h.problem(ctx, in.Body.ThreadID, err), "its erasure may have begun: the same request begins or finds it", "threadId", in.Body.ThreadID)
	}
	out, err := h.threads.Erase(within, in.Body.ThreadID, by)
	switch {
	case err == nil:
		return &eraseOutput{http.StatusOK, out}, nil
	case unanswered(err) && ctx.Err() == nil:
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
