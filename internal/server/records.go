package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/store"
)

type recordsInput struct {
	ThreadPath
	IDs    []string `query:"id" maxItems:"100" doc:"Only the records with these ids, in one page"`
	Of     []string `query:"of" maxItems:"10" doc:"Only the records of the events, replies and tool calls with these ids, in one page: the model call of a reply, its calls, the result of a call, and what hooks decided on them"`
	Types  []string `query:"type" maxItems:"50" doc:"Only records of these types, such as llm_call and hook"`
	Turn   string   `query:"turn" maxLength:"128" doc:"Only the records of the turn of this event"`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Of a page"`
	Cursor int64    `query:"cursor" minimum:"0" doc:"The next of the previous page"`
}

type recordsOutput struct {
	Body struct {
		Records []event.Record `json:"records" nullable:"false" doc:"The records, the oldest first"`
		Next    string         `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	}
}

func (h *eventHandlers) registerRecords() {
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "listRecords", Method: http.MethodGet, Path: "/v1/threads/{id}/records", Tags: []string{"events"},
		Summary: "List the records of a thread as they are stored, the oldest first",
		Description: "The records behind the events, with those that viewers do not see: model calls (llm_call), decisions of hooks (hook), and the " +
			"originals of what hooks changed, held back or dropped.",
		Errors: []int{404, 503},
	}, h.listRecords)
}

func (h *eventHandlers) listRecords(ctx context.Context, in *recordsInput) (*recordsOutput, error) {
	if _, err := h.thread(ctx, in.ID); err != nil {
		return nil, err
	}
	out := &recordsOutput{}
	for _, id := range in.Of {
		in.IDs = append(in.IDs, recordsOf(id)...)
	}
	if len(in.IDs) > 0 {
		records, err := h.store.RecordsByID(ctx, h.key(in.ID), in.IDs...)
		out.Body.Records = nonNil(records)
		return out, h.problem(ctx, in.ID, err)
	}
	q := store.Query{After: in.Cursor, Types: in.Types, EventID: in.Turn, Limit: in.Limit + 1, MaxBytes: pageBytes}
	records, err := h.store.Records(ctx, h.key(in.ID), q)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	if !q.Complete(records) {
		records = records[:min(len(records), in.Limit)]
		out.Body.Next = strconv.FormatInt(records[len(records)-1].Seq, 10)
	}
	out.Body.Records = nonNil(records)
	return out, nil
}

// recordsOf returns the ids that records have of the event, reply or tool call with an id.
func recordsOf(id string) []string {
	calls, result := recordid.Calls(id), recordid.Result(id)
	return []string{
		id, recordid.Interception(id), recordid.LLMCall(id), calls, recordid.Interception(calls), result, recordid.Interception(result),
	}
}
