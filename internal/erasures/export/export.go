// Package export writes everything that a store has of a thread, as lines of JSON.
package export

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures/forget"
	"github.com/threadmill/threadmill/internal/transcript"
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
	pageRows = 100

	// pageLogs is less: the input and the output of a call can be large.
	pageLogs = 8

	// maxThreads bounds the threads of sub-agents, and theirs.
	maxThreads = 10_000
)

// Store is what is exported.
type Store interface {
	store.Store
	store.Knowledge
	store.Erasures
}

// Thread writes a thread and the threads of its sub-agents. Records that are stored meanwhile are included, if they come before
// the end of their thread.
func Thread(ctx context.Context, s Store, key store.Key, to io.Writer) error {
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

// Person writes what the threads of a namespace have of a person: the person's messages and decisions, what came of them, and what
// has one of the terms; with the rows of these threads.
func Person(ctx context.Context, s Store, namespace string, p *forget.Person, to io.Writer) error {
	e := exporting{s: s, out: json.NewEncoder(to), person: p, done: map[string]bool{}}
	e.out.SetEscapeHTML(false)
	for after := ""; ; {
		ids, err := s.ThreadIDs(ctx, namespace, after, pageRows)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return e.out.Encode(Line{Kind: KindEnd, End: &e.end})
		}
		for _, id := range ids {
			if err := e.personThread(ctx, store.Key{Namespace: namespace, ThreadID: id}, p.Spoken(false)); err != nil {
				return err
			}
		}
		after = ids[len(ids)-1]
	}
}

// personThread writes what a thread has of the person, and then the threads of its sub-agents. The id of a thread begins those of its
// sub-agents, so it comes before them.
func (e *exporting) personThread(ctx context.Context, key store.Key, spoken *forget.Spoken) error {
	if e.done[key.ThreadID] {
		return nil
	}
	row, err := e.s.Thread(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	e.done[key.ThreadID] = row.Parent != "" // others come once
	if err := transcript.EachRecord(ctx, e.s, key, func(r event.Record) error {
		spoken.Note(r)
		return nil
	}); err != nil {
		return err
	}
	began, sources := false, map[string]bool{}
	if err := transcript.EachRecord(ctx, e.s, key, func(r event.Record) error {
		if !spoken.Concerns(r) {
			return nil
		}
		if !began {
			began = true
			e.end.Threads++
			if err := e.out.Encode(Line{Kind: KindThread, Thread: &row}); err != nil {
				return err
			}
		}
		sources[r.ID] = true
		e.end.Records++
		return e.out.Encode(Line{Kind: KindRecord, Record: &r})
	}); err != nil {
		return err
	}
	if !began {
		return nil
	}
	of := func(l store.ToolLog) bool {
		return spoken.Calls[l.ToolCallID] || string(e.person.CleanValue(l.Input, false)) != string(l.Input) || string(e.person.CleanValue(l.Output, false)) != string(l.Output)
	}
	if err := e.toolLogs(ctx, key, of); err != nil {
		return err
	}
	if err := e.mentions(ctx, key, func(m store.Mention) bool { return sources[m.SourceID] || e.person.Known(m.Name) }); err != nil {
		return err
	}
	subs, err := e.s.SubThreads(ctx, key)
	if err != nil {
		return err
	}
	for _, id := range subs {
		sub := store.Key{Namespace: key.Namespace, ThreadID: id}
		row, err := e.s.Thread(ctx, sub)
		if err == nil {
			err = e.personThread(ctx, sub, spoken.Sub(row.Metadata))
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

type exporting struct {
	s   Store
	out *json.Encoder
	end End

	// person is the one whose export this is, and done are the threads of sub-agents that were written.
	person *forget.Person
	done   map[string]bool
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
	err = transcript.EachRecord(ctx, e.s, key, func(r event.Record) error {
		e.end.Records++
		return e.out.Encode(Line{Kind: KindRecord, Record: &r})
	})
	if err == nil {
		err = e.toolLogs(ctx, key, func(store.ToolLog) bool { return true })
	}
	if err == nil {
		err = e.mentions(ctx, key, func(store.Mention) bool { return true })
	}
	if err == nil {
		err = e.documents(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	return e.s.SubThreads(ctx, key)
}

func (e *exporting) toolLogs(ctx context.Context, key store.Key, of func(store.ToolLog) bool) error {
	for after := ""; ; {
		page, err := e.s.ToolLogPage(ctx, key, after, pageLogs)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, l := range page {
			if !of(l) {
				continue
			}
			e.end.ToolLogs++
			if err := e.out.Encode(Line{Kind: KindToolLog, ToolLog: &l}); err != nil {
				return err
			}
		}
		after = page[len(page)-1].ToolCallID
	}
}

func (e *exporting) mentions(ctx context.Context, key store.Key, of func(store.Mention) bool) error {
	for after := (store.Mention{}); ; {
		page, err := e.s.ThreadMentions(ctx, key, after, pageRows)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, m := range page {
			if !of(m) {
				continue
			}
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
