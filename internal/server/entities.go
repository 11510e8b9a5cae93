package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/store"
)

// EntityPath is the input of operations on one entity.
type EntityPath struct {
	ID string `path:"id" maxLength:"200" doc:"The id of the entity"`
}

type listEntitiesInput struct {
	Type   string `query:"type" maxLength:"64" doc:"Only entities of this type, such as person"`
	Search string `query:"search" maxLength:"200" doc:"Only entities of which a name contains this text, in upper or lower case"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Of a page"`
	Cursor string `query:"cursor" doc:"The next of the previous page"`
}

type listEntitiesOutput struct {
	Body struct {
		Entities []store.Entity `json:"entities" nullable:"false" doc:"The entities, those with the most mentions first"`
		Next     string         `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	}
}

type listMentionsInput struct {
	EntityPath
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Of a page"`
	Cursor string `query:"cursor" doc:"The next of the previous page"`
}

type listMentionsOutput struct {
	Body struct {
		Mentions []store.Mention `json:"mentions" nullable:"false" doc:"The mentions, the newest first"`
		Next     string          `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	}
}

type mergeEntityInput struct {
	EntityPath
	Body struct {
		Into string `json:"into" minLength:"1" maxLength:"200" doc:"The id of the entity that it is merged into"`
		By   string `json:"by,omitempty" doc:"Who merges them; it is stored. Default: api"`
	}
}

type undoMergeInput struct {
	ID   string `path:"id" maxLength:"200" doc:"The id of the merge"`
	Body *struct {
		By string `json:"by,omitempty" doc:"Who undoes it; it is stored. Default: api"`
	}
}

type listMergesOutput struct {
	Body struct {
		Merges []store.EntityMerge `json:"merges" nullable:"false" doc:"The newest merges, at most 200; undone ones too"`
	}
}

// entityHandlers serve the people and things that messages mention.
type entityHandlers struct {
	*core
	store store.Entities
}

func (h *entityHandlers) registerEntities() {
	tags := []string{"entities"}
	const all, one, merges = "/v1/entities", "/v1/entities/{id}", "/v1/entity-merges"
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listEntities", Method: http.MethodGet, Path: all, Tags: tags, Summary: "List the people and things that messages mention",
	}, h.list)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "getEntity", Method: http.MethodGet, Path: one, Tags: tags, Summary: "Get an entity with its relations and merges",
		Description: "The id of an entity that was merged into another one is that of the other one.", Errors: []int{404},
	}, h.get)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listEntityMentions", Method: http.MethodGet, Path: one + "/mentions", Tags: tags,
		Summary: "List the mentions of an entity, and of what was merged into it", Errors: []int{404},
	}, h.mentions)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "mergeEntity", Method: http.MethodPost, Path: one + "/merge", Tags: tags, Summary: "Merge an entity into another one",
		Description: "It keeps its own mentions, so the merge can be undone. Merging them again changes nothing.", Errors: []int{404, 409, 422},
	}, h.merge)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "deleteEntity", Method: http.MethodDelete, Path: one, Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary:     "Delete an entity with everything that was merged into it, its mentions and relations",
		Description: "A later message that mentions it creates it anew.", Errors: []int{404, 409},
	}, h.remove)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listEntityMerges", Method: http.MethodGet, Path: merges, Tags: tags, Summary: "List the newest merges of all entities",
	}, h.merges)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "undoEntityMerge", Method: http.MethodPost, Path: merges + "/{id}/undo", Tags: tags, Summary: "Undo a merge",
		Description: "The merged entity is one of its own again, with everything that was merged into it. Undoing twice changes nothing.", Errors: []int{404},
	}, h.undo)
}

func (h *entityHandlers) list(ctx context.Context, in *listEntitiesInput) (*listEntitiesOutput, error) {
	page := store.EntityPage{Type: in.Type, Search: in.Search, Limit: in.Limit}
	if in.Cursor != "" {
		last, ok := parsePageCursor(in.Cursor, 2)
		if !ok {
			return nil, refuse(http.StatusUnprocessableEntity, "query.cursor", badCursor)
		}
		mentions, err := strconv.Atoi(last[0])
		if err != nil {
			return nil, refuse(http.StatusUnprocessableEntity, "query.cursor", badCursor)
		}
		page.AfterMentions, page.AfterID = mentions, last[1]
	}
	all, err := h.store.Entities(ctx, h.namespace, page)
	if err != nil {
		return nil, h.entityProblem(ctx, "entity", "", err)
	}
	out := &listEntitiesOutput{}
	out.Body.Entities = nonNil(all)
	if len(all) == in.Limit {
		last := all[len(all)-1]
		out.Body.Next = pageCursor(strconv.Itoa(last.Mentions), last.ID)
	}
	return out, nil
}

func (h *entityHandlers) get(ctx context.Context, in *EntityPath) (*output[api.EntityView], error) {
	entity, err := h.store.Entity(ctx, h.namespace, in.ID)
	if err != nil {
		return nil, h.entityProblem(ctx, "entity", in.ID, err)
	}
	relations, err := h.store.Relations(ctx, h.namespace, entity.ID)
	if err != nil {
		return nil, h.entityProblem(ctx, "entity", in.ID, err)
	}
	merges, err := h.store.Merges(ctx, h.namespace, entity.ID)
	return &output[api.EntityView]{api.EntityView{Entity: entity, Relations: nonNil(relations), Merges: nonNil(merges)}}, h.entityProblem(ctx, "entity", in.ID, err)
}

func (h *entityHandlers) mentions(ctx context.Context, in *listMentionsInput) (*listMentionsOutput, error) {
	page := store.MentionPage{Limit: in.Limit}
	if in.Cursor != "" {
		last, ok := parsePageCursor(in.Cursor, 5)
		if !ok {
			return nil, refuse(http.StatusUnprocessableEntity, "query.cursor", badCursor)
		}
		at, err := strconv.ParseInt(last[0], 10, 64)
		if err != nil {
			return nil, refuse(http.StatusUnprocessableEntity, "query.cursor", badCursor)
		}
		page.BeforeAt, page.BeforeSourceType, page.BeforeSourceID = time.UnixMicro(at).UTC(), last[1], last[2]
		page.BeforeEntity, page.BeforeThread = last[3], last[4]
	}
	entity, err := h.store.Entity(ctx, h.namespace, in.ID)
	if err != nil {
		return nil, h.entityProblem(ctx, "entity", in.ID, err)
	}
	all, err := h.store.Mentions(ctx, h.namespace, entity.ID, page)
	if err != nil {
		return nil, h.entityProblem(ctx, "entity", in.ID, err)
	}
	out := &listMentionsOutput{}
	out.Body.Mentions = nonNil(all)
	if len(all) == in.Limit {
		last := all[len(all)-1]
		out.Body.Next = pageCursor(strconv.FormatInt(last.At.UnixMicro(), 10), last.SourceType, last.SourceID, last.EntityID, last.ThreadID)
	}
	return out, nil
}

func (h *entityHandlers) merge(ctx context.Context, in *mergeEntityInput) (*output[store.EntityMerge], error) {
	by, err := actor(ctx, "body.by", in.Body.By, byAPI)
	if err != nil {
		return nil, err
	}
	entity, err := h.store.Entity(ctx, h.namespace, in.ID)
	if err != nil {
		return nil, h.entityProblem(ctx, "entity", in.ID, err)
	}
	into, err := h.store.Entity(ctx, h.namespace, in.Body.Into)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, refuse(http.StatusUnprocessableEntity, "body.into", fmt.Sprintf("there is no entity %.128q", in.Body.Into))
	case err != nil:
		return nil, h.entityProblem(ctx, "entity", in.Body.Into, err)
	case entity.ID != into.ID:
	case in.ID != into.ID:
		return h.merged(ctx, in.ID)
	default:
		return nil, refuse(http.StatusUnprocessableEntity, "body.into", "is the entity itself, or was merged into it: name another one")
	}
	merge, err := h.store.MergeEntities(ctx, h.namespace, store.EntityMerge{ID: uuid.NewString(), From: entity.ID, Into: into.ID, By: by})
	if err != nil {
		return nil, h.entityProblem(ctx, "entity", in.ID, err)
	}
	h.logger.Info("entities merged", "merge", merge.ID, "from", merge.From, "into", merge.Into, "by", by)
	return &output[store.EntityMerge]{merge}, nil
}

// merged returns the merge by which an entity became a part of another one: a request that is repeated finds its own.
func (h *entityHandlers) merged(ctx context.Context, id string) (*output[store.EntityMerge], error) {
	merges, err := h.store.Merges(ctx, h.namespace, id)
	if err != nil {
		return nil, h.entityProblem(ctx, "entity", id, err)
	}
	for _, m := range merges {
		if m.From == id && m.UndoneAt.IsZero() {
			return &output[store.EntityMerge]{m}, nil
		}
	}
	return nil, huma.Error409Conflict(fmt.Sprintf("entity %.128q was merged into that one already, before its newest merges", id))
}

func (h *entityHandlers) remove(ctx context.Context, in *EntityPath) (*struct{}, error) {
	entity, err := h.store.Entity(ctx, h.namespace, in.ID)
	if err == nil && entity.ID != in.ID {
		return nil, huma.Error409Conflict(fmt.Sprintf("entity %.128q was merged into %q, %s: undo the merge, or delete that one", in.ID, entity.ID, entity.Name))
	}
	if err == nil {
		err = h.store.DeleteEntity(ctx, h.namespace, in.ID)
	}
	if err != nil {
		return nil, h.entityProblem(ctx, "entity", in.ID, err)
	}
	h.logger.Info("entity deleted", "entity", in.ID, "by", auth.FromContext(ctx).Name)
	return nil, nil
}

func (h *entityHandlers) merges(ctx context.Context, _ *struct{}) (*listMergesOutput, error) {
	all, err := h.store.Merges(ctx, h.namespace, "")
	out := &listMergesOutput{}
	out.Body.Merges = nonNil(all)
	return out, h.entityProblem(ctx, "merge", "", err)
}

func (h *entityHandlers) undo(ctx context.Context, in *undoMergeInput) (*output[store.EntityMerge], error) {
	given := ""
	if in.Body != nil {
		given = in.Body.By
	}
	by, err := actor(ctx, "body.by", given, byAPI)
	if err != nil {
		return nil, err
	}
	merge, err := h.store.UndoMerge(ctx, h.namespace, in.ID, by)
	if err != nil {
		return nil, h.entityProblem(ctx, "merge", in.ID, err)
	}
	h.logger.Info("merge of entities undone", "merge", merge.ID, "from", merge.From, "into", merge.Into, "by", merge.UndoneBy)
	return &output[store.EntityMerge]{merge}, nil
}

// entityProblem converts the error of an operation on an entity or a merge to a problem document.
func (h *entityHandlers) entityProblem(ctx context.Context, what, id string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return huma.Error404NotFound(fmt.Sprintf("there is no %s %.128q", what, id))
	case errors.Is(err, store.ErrInvalid):
		_, reason, _ := strings.Cut(err.Error(), store.ErrInvalid.Error()+": ")
		return huma.Error422UnprocessableEntity(reason)
	}
	return h.problem(ctx, "", err)
}
