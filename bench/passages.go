package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/job/jobclient"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
)

const (
	// millNamespace is the namespace of threads.
	millNamespace = "default"

	// readerAgent is the assistant that is given passages.
	readerAgent    = "reader"
	readerPassages = 5
)

// passages ingests documents through the runtime, and compares turns of an agent that is given passages of them with turns
// of one that is not.
func (m *meter) passages(ctx context.Context) (*passagesReport, error) {
	l := newLanguage()
	report, err := m.ingest(ctx, l)
	if err != nil {
		return nil, err
	}
	m.say("ingested %d documents, %.1f a second", report.Documents, report.DocumentsPerSecond)
	reader := *m.world.mill
	reader.agent = readerAgent
	asking := shape{name: "question", text: l.question}
	if err := m.checkPassages(ctx, &reader, asking); err != nil {
		return nil, err
	}
	if err := m.warmUp(ctx, &reader, m.world.mill); err != nil {
		return nil, err
	}
	for i, threads := range m.Threads {
		for _, by := range m.Ways {
			rounds, err := m.alternate(ctx, [2]side{&reader, m.world.mill}, asking, by, threads, m.Turns[i])
			if err != nil {
				return nil, fmt.Errorf("turns by %s, %d threads: %w", by, threads, err)
			}
			row := passagesRow{Way: by, Threads: threads, Ratio: ratios(rounds), With: newSideRow(rounds[0]), Without: newSideRow(rounds[1])}
			m.say("passages %-6s %2d threads: ratio %.2f", by, threads, row.Ratio.Median)
			report.Rows = append(report.Rows, row)
		}
	}
	return report, nil
}

// ingest ingests documents through the workflows of the runtime.
func (m *meter) ingest(ctx context.Context, l language) (*passagesReport, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	report := &passagesReport{Documents: m.Knowledge.Documents}
	var started []string
	lib := library.New(library.Config{
		Store: teststore.Of(m.world.store),
		Start: func(ctx context.Context, namespace string, d store.KnowledgeDocument, force bool) error {
			started = append(started, job.IngestWorkflowID(namespace, d.ID, d.Revision))
			return jobclient.Client{Temporal: m.world.temporal, TaskQueue: millQueue}.Ingest(ctx, job.IngestStep{
				Namespace: namespace, Document: d.ID, Revision: d.Revision, Source: d.Source, Force: force,
			})
		},
	})
	began := time.Now()
	for n := range report.Documents {
		content := l.document(n)
		if _, err := lib.Add(ctx, millNamespace, library.Addition{Source: content.Name, Content: content}); err != nil {
			return nil, err
		}
	}
	for _, id := range started {
		var out job.IngestResult
		if err := m.world.temporal.GetWorkflow(ctx, id, "").Get(ctx, &out); err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		if out.Status != job.IngestIndexed {
			return nil, fmt.Errorf("%s ended %s: %s", id, out.Status, out.Error)
		}
		report.Chunks += out.Chunks
	}
	took := time.Since(began)
	report.DocumentsPerSecond, report.ChunksPerSecond = rateOf(report.Documents, took), rateOf(report.Chunks, took)
	return report, nil
}

// checkPassages takes a turn, and checks that the agent was given passages.
func (m *meter) checkPassages(ctx context.Context, reader *mill, s shape) error {
	t := &millThread{mill: reader, id: newID("t"), shape: s, by: byGo}
	if err := t.first(ctx); err != nil {
		return err
	}
	records, err := m.world.store.Records(ctx, store.Key{Namespace: millNamespace, ThreadID: t.id}, store.Query{Types: []string{event.TypeRetrieval}})
	if err != nil {
		return err
	}
	if len(records) != 1 {
		return fmt.Errorf("a turn has %d searches for passages, want 1", len(records))
	}
	var found event.Retrieval
	if err := json.Unmarshal(records[0].Payload, &found); err != nil {
		return err
	}
	if len(found.Passages) != readerPassages {
		return fmt.Errorf("the agent was given %d passages, want %d", len(found.Passages), readerPassages)
	}
	return nil
}
