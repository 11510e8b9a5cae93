// Package export writes everything that a store has of a thread, as lines of JSON.
package export

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// Kinds of lines. Those of a thread follow the line of its row.
const (
	KindThread   = "thread"
	KindRecord   = "record"
	KindToolLog  = "toolLog"
	KindMention  = "mention"
	KindDocument = "document"

	// KindEnd is the kind of the last line: without it, an export is not complete.
	KindEnd = "end"
)

// Line is one line.
type Line struct {
	Kind     string                   `json:"kind"`
	Thread   *store.Thread            `json:"thread,omitempty"`
	Record   *event.Record            `json:"record,omitempty"`
	ToolLog  *store.ToolLog           `json:"toolLog,omitempty"`
	Mention  *store.Mention           `json:"mention,omitempty"`
	Document *store.KnowledgeDocument `json:"document,omitempty"`
	End      *End                     `json:"end,omitempty"`
}

// End counts the lines of an export, without itself.
type End struct {
	Threads   int `json:"threads"`
	Records   int `json:"records"`
	ToolLogs  int `json:"toolLogs"`
	Mentions  int `json:"mentions"`
	Documents int `json:"documents"`
}

// Bounds of what is in memory at once.
const (
	pageRows  = 100
	pageBytes = 1 << 20

	// pageLogs is less: the input and the output of a call can be large.
	pageLogs = 8

	// maxThreads bounds the threads of sub-agents, and theirs.
	maxThreads = 10_000
)

// Thread writes a thread and the threads of its sub-agents. Records that are stored meanwhile are included, if they come before
// the end of their thread.
func Thread(ctx context.Context, s store.Store, key store.Key, to io.Writer) error {
	e := exporting{s: s, out: json.NewEncoder(to)}
	e.out.SetEscapeHTML(false)
	waiting, known := []string{key.ThreadID}, map[string]bool{key.ThreadID: true}
	for i := 0; i < len(waiting) && i < maxThreads; i++ {
		subs, err := e.thread(ctx, store.Key{Namespace: key.Namespace, ThreadID: waiting[i]})
		if err != nil {
			return err
		}
		for _, sub := range subs {
			if !known[sub] {
				waiting, known[sub] = append(waiting, sub), true
			}
		}
	}
	return e.out.Encode(Line{Kind: KindEnd, End: &e.end})
}

type exporting struct {
	s   store.Store
	out *json.Encoder
	end End
}

func (e *exporting) thread(ctx context.Context, key store.Key) (subs []string, err error) {
	row, err := e.s.Thread(ctx, key)
	if errors.Is(err, store.ErrErased) && e.end.Threads > 0 {
		return e.s.SubThreads(ctx, key) // the thread of a sub-agent that was erased before
	}
	if err != nil {
		return nil, err
	}
	e.end.Threads++
	if err := e.out.Encode(Line{Kind: KindThread, Thread: &row}); err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context, store.Key) error{e.records, e.toolLogs, e.mentions, e.documents} {
		if err := part(ctx, key); err != nil {
			return nil, err
		}
	}
	return e.s.SubThreads(ctx, key)
}

func (e *exporting) records(ctx context.Context, key store.Key) error {
	for after := int64(0); ; {
		page, err := e.s.Records(ctx, key, store.Query{After: after, Limit: pageRows, MaxBytes: pageBytes})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			e.end.Records++
			if err := e.out.Encode(Line{Kind: KindRecord, Record: &r}); err != nil {
				return err
			}
		}
		after = page[len(page)-1].Seq
	}
}

func (e *exporting) toolLogs(ctx context.Context, key store.Key) error {
	for after := ""; ; {
		page, err := e.s.ToolLogPage(ctx, key, after, pageLogs)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, l := range page {
			e.end.ToolLogs++
			if err := e.out.Encode(Line{Kind: KindToolLog, ToolLog: &l}); err != nil {
				return err
			}
		}
		after = page[len(page)-1].ToolCallID
	}
}

func (e *exporting) mentions(ctx context.Context, key store.Key) error {
	for after := (store.Mention{}); ; {
		page, err := e.s.ThreadMentions(ctx, key, after, pageRows)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, m := range page {
			e.end.Mentions++
			if err := e.out.Encode(Line{Kind: KindMention, Mention: &m}); err != nil {
				return err
			}
		}
		after = page[len(page)-1]
	}
}

func (e *exporting) documents(ctx context.Context, key store.Key) error {
	ids, err := e.s.ThreadDocuments(ctx, key)
	if err != nil {
		return err
	}
	for _, id := range ids {
		d, err := e.s.KnowledgeDocument(ctx, key.Namespace, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return err
		}
		e.end.Documents++
		if err := e.out.Encode(Line{Kind: KindDocument, Document: &d}); err != nil {
			return err
		}
	}
	return nil
}
