package tests

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// sealing is a codec that seals payloads about sealed things, as one with a key of its own for some threads does.
type sealing struct{}

const encodingSealed = "binary/sealed"

func (sealing) Encode(all []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := slices.Clone(all)
	for i, p := range all {
		if bytes.Contains(p.GetData(), []byte("sealed")) {
			raw, err := p.Marshal()
			if err != nil {
				return nil, err
			}
			slices.Reverse(raw)
			out[i] = &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingSealed)}, Data: raw}
		}
	}
	return out, nil
}

func (sealing) Decode(all []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := slices.Clone(all)
	for i, p := range all {
		if string(p.GetMetadata()[converter.MetadataEncoding]) == encodingSealed {
			raw := slices.Clone(p.GetData())
			slices.Reverse(raw)
			out[i] = &commonpb.Payload{}
			if err := out[i].Unmarshal(raw); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// corrupt destroys the history of the workflow with a text in it.
func corrupt(t *testing.T, v *vault, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(v.work, "temporal", "temporal.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	done, err := db.ExecContext(t.Context(), `UPDATE history_node SET data = X'ff' WHERE tree_id IN (SELECT tree_id FROM history_node WHERE instr(data, CAST(? AS BLOB)) > 0)`, text)
	require.NoError(t, err)
	n, err := done.RowsAffected()
	require.NoError(t, err)
	require.Positive(t, n)
}

// TestRestoreUnreadable: a thread whose history is corrupt and one whose codec is missing are told as failed, and the others are
// repaired.
func TestRestoreUnreadable(t *testing.T) {
	t.Parallel()
	v, ids, d := newVault(t), []string{"broken", "good-1", "good-2", "sealed"}, &drill{transcripts: map[string]string{}}
	v.converter = converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), sealing{})
	v.live("before", func(t *testing.T, w *harness.Harness) {
		stop := w.StartWorker()
		for _, id := range ids {
			require.NoError(t, w.Threads.Open(w.Ctx(), id, signals.Start{Title: "The thread " + id}, nil))
			require.Equal(t, signals.TurnCompleted, w.Say(id, "hello to "+id).Status)
		}
		d.atRest(t, w)
		stop()
		for _, id := range ids[1:] {
			d.transcripts[id] = w.Transcript(id)
		}
	})
	corrupt(t, v, "The thread broken")
	v.put("store", "")
	v.live("the store is empty", func(t *testing.T, w *harness.Harness) {
		without := w.Beside(func(c *threadmill.Config) { c.Replay.DataConverter = nil })
		require.Equal(t, map[string]repair.State{"broken": repair.Failed, "good-1": repair.Mended, "good-2": repair.Mended, "sealed": repair.Failed}, states(repairedAll(t, without)))
		require.Equal(t, map[string]repair.State{"broken": repair.Failed, "sealed": repair.Mended}, states(repairedAll(t, w.Runtime)))
		printed, code, problem := w.Starter("repair", "--apply")
		require.Equal(t, 1, code, "%s%s", printed, problem)
		require.Contains(t, printed, "broken")
		require.Contains(t, printed, "differ: 1;")
		d.whole(t, w)
	})
}

// repairedAll mends all threads by one runtime.
func repairedAll(t *testing.T, r *threadmill.Runtime) (all repair.Comparison) {
	t.Helper()
	for body := `{"apply":true}`; body != ""; {
		page := repaired(t, r, body)
		all.Threads = append(all.Threads, page.Threads...)
		body = ""
		if page.Next != "" {
			body = fmt.Sprintf(`{"apply":true,"cursor":%q}`, page.Next)
		}
	}
	return all
}

// states are the states of the first differences by thread.
func states(c repair.Comparison) map[string]repair.State {
	out := map[string]repair.State{}
	for _, one := range c.Threads {
		out[one.ThreadID] = one.Differences[0].State
	}
	return out
}

// meanwhileStore is a store that calls meanwhile before its nth call, from 1.
type meanwhileStore struct {
	teststore.Store
	calls, n  int
	meanwhile func()
}

func (s *meanwhileStore) pass() {
	if s.calls++; s.calls == s.n {
		s.meanwhile()
	}
}

func (s *meanwhileStore) Thread(ctx context.Context, k store.Key) (store.Thread, error) {
	s.pass()
	return s.Store.Thread(ctx, k)
}

func (s *meanwhileStore) Records(ctx context.Context, k store.Key, q store.Query) ([]event.Record, error) {
	s.pass()
	return s.Store.Records(ctx, k, q)
}

func (s *meanwhileStore) RecordsByID(ctx context.Context, k store.Key, ids ...string) ([]event.Record, error) {
	s.pass()
	return s.Store.RecordsByID(ctx, k, ids...)
}

func (s *meanwhileStore) SubThreads(ctx context.Context, k store.Key) ([]string, error) {
	s.pass()
	return s.Store.SubThreads(ctx, k)
}

func (s *meanwhileStore) ToolLog(ctx context.Context, k store.Key, id string) (store.ToolLog, error) {
	s.pass()
	return s.Store.ToolLog(ctx, k, id)
}

func (s *meanwhileStore) Append(ctx context.Context, k store.Key, b store.Batch) (store.Appended, error) {
	s.pass()
	return s.Store.Append(ctx, k, b)
}

// repairPassing mends a thread, and calls meanwhile before the nth call of the store. It reports whether there was one.
func repairPassing(t *testing.T, w *harness.Harness, thread string, n int, meanwhile func()) (repair.Comparison, bool) {
	t.Helper()
	s := &meanwhileStore{Store: w.Store, n: n, meanwhile: meanwhile}
	report := repaired(t, w.Beside(func(c *threadmill.Config) { c.Store = s }), fmt.Sprintf(`{"threadId":%q,"apply":true}`, thread))
	return report, s.calls >= n
}

// TestRepairOfRunningThreads: threads that change at any point of their comparison show no difference.
func TestRepairOfRunningThreads(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	require.NoError(t, w.Threads.Open(w.Ctx(), "busy", signals.Start{Agents: []string{"assistant"}, Title: "Busy"}, nil))
	require.Equal(t, signals.TurnCompleted, w.Say("busy", "hello").Status)
	points := 0
	for passed := true; passed; {
		points++
		var report repair.Comparison
		report, passed = repairPassing(t, w, "busy", points, func() {
			_, err := w.Threads.Update(w.Ctx(), "busy", signals.ThreadChange{Title: fmt.Sprint("Busy ", points), By: "ann"})
			require.NoError(t, err)
			waits := w.Post("busy", check.Touches("busy"))
			check.Approve(t, w, "busy", w.AwaitApproval("busy", 1)[0].ToolCallID)
			require.Equal(t, signals.TurnCompleted, w.Await("busy", waits).Status)
		})
		require.Empty(t, report.Threads, "a turn before call %d of the store", points)
	}
	require.Greater(t, points, 3)
	check.RequireWhole(t, check.AllRecords(w, "busy"))
}

// TestRepairMeanwhile: a post and a decision that arrive at any point of the repair of an older Temporal are kept, and take
// effect once.
func TestRepairMeanwhile(t *testing.T) {
	t.Parallel()
	const points = 8
	v, asked := newVault(t), map[string]event.ApprovalRequest{}
	name := func(i int) string { return fmt.Sprint("busy-", i) }
	v.live("before", func(t *testing.T, w *harness.Harness) {
		stop := w.StartWorker()
		for i := range points {
			require.NoError(t, w.Threads.Open(w.Ctx(), name(i), signals.Start{Agents: []string{"assistant"}, Title: "Busy"}, nil))
			w.Post(name(i), check.Touches(name(i)))
			asked[name(i)] = w.AwaitApproval(name(i), 1)[0]
		}
		(&drill{}).atRest(t, w)
		stop()
	})
	older := v.keep("temporal")
	v.live("after", func(t *testing.T, w *harness.Harness) {
		stop := w.StartWorker()
		for i := range points {
			require.Equal(t, signals.TurnCompleted, w.Say(name(i), "use note {}").Status)
		}
		(&drill{}).atRest(t, w)
		stop()
	})
	v.put("temporal", older)
	v.live("Temporal is older", func(t *testing.T, w *harness.Harness) {
		reached := 0
		for i := range points {
			id := name(i)
			report, passed := repairPassing(t, w, id, i+1, func() {
				_, err := w.Threads.PostSignal(w.Ctx(), id, check.Message(id, "late", "are you there?"))
				require.NoError(t, err)
				require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalDecide, check.Approving(asked[id])))
			})
			require.Equal(t, map[string]repair.State{id: repair.Mended}, states(report))
			if passed {
				reached++
			}
		}
		require.Greater(t, reached, 3)
		d := &drill{}
		d.nothing(t, w)
		stop := w.StartWorker()
		for i := range reached {
			id := name(i)
			require.Equal(t, signals.TurnCompleted, w.Await(id, "late").Status)
			require.Eventually(t, func() bool { return check.Made(w, id) != "" }, testenv.Patience, testenv.Tick, id)
		}
		d.atRest(t, w)
		for i := range reached {
			id := name(i)
			assert.Equal(t, "made\n", check.Made(w, id), "%s: the call ran once", id)
			check.RequireWhole(t, check.AllRecords(w, id))
		}
		d.nothing(t, w)
		stop()
	})
}
