package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

func toolLog(id string) store.ToolLog {
	return store.ToolLog{
		ToolCallID: id, ToolName: "search", Agent: "writer", TraceID: "trace", Status: store.ToolStarted, Attempt: 1,
		Input: json.RawMessage(`{"q": "x",  "n": 1.0}`), StartedAt: start,
	}
}

func finishOf(id string, status store.ToolStatus, output string) store.ToolLog {
	at := start.Add(time.Second)
	return store.ToolLog{ToolCallID: id, Status: status, Output: json.RawMessage(output), FinishedAt: &at}
}

func stored(t *testing.T, s store.Store, id string) store.ToolLog {
	t.Helper()
	log, err := s.ToolLog(t.Context(), key, id)
	require.NoError(t, err)
	return log
}

func testToolLog(t *testing.T, s store.Store) {
	begin := toolLog("call")
	a := add(t, s, key, store.Batch{ToolStart: &begin})
	require.True(t, a.Started)
	want := begin
	want.StartedAt = start.UTC().Truncate(time.Microsecond)
	require.Equal(t, want, *a.ToolLog)
	require.Equal(t, want, stored(t, s, "call"))
	require.Equal(t, string(begin.Input), string(a.ToolLog.Input), "raw, to the byte")

	end := finishOf("call", store.ToolSucceeded, `{"result":  ["\u0000", "é"]}`)
	end.Attempt = 3
	a = add(t, s, key, store.Batch{ToolFinish: &end, Records: records("result")})
	require.False(t, a.Started)
	finished := end.FinishedAt.UTC().Truncate(time.Microsecond)
	want.Status, want.Output, want.FinishedAt, want.Attempt = store.ToolSucceeded, end.Output, &finished, 3
	require.Equal(t, want, *a.ToolLog, "a finish keeps what the start said")
	require.Equal(t, want, stored(t, s, "call"))
}

func testToolStart(t *testing.T, s store.Store) {
	begin := toolLog("call")
	first := add(t, s, key, store.Batch{ToolStart: &begin})
	row := thread(t, s, key)
	again := toolLog("call")
	again.Attempt, again.Input, again.StartedAt = 2, json.RawMessage(`"other"`), start.Add(time.Hour)
	second := add(t, s, key, store.Batch{ToolStart: &again})
	require.False(t, second.Started)
	require.Equal(t, first.ToolLog, second.ToolLog, "the stored log comes back")
	require.Equal(t, row, thread(t, s, key))

	end := finishOf("call", store.ToolFailed, `"broken"`)
	finished := add(t, s, key, store.Batch{ToolFinish: &end})
	third := add(t, s, key, store.Batch{ToolStart: &again, Records: records("a")})
	require.False(t, third.Started)
	require.Equal(t, finished.ToolLog, third.ToolLog, "a finished call says so to who starts it again")
	require.Equal(t, store.ToolFailed, third.ToolLog.Status)
	require.Len(t, third.Records, 1, "the rest of the batch is stored all the same")
}

func testToolWaits(t *testing.T, s store.Store) {
	begin := toolLog("call")
	add(t, s, key, store.Batch{ToolStart: &begin})
	waiting := finishOf("call", store.ToolWaiting, `"asked"`)
	require.Equal(t, store.ToolWaiting, add(t, s, key, store.Batch{ToolFinish: &waiting}).ToolLog.Status)

	again := toolLog("call")
	again.Attempt = 2
	a := add(t, s, key, store.Batch{ToolStart: &again})
	require.True(t, a.Started, "a call that waited for input runs again")
	want := *a.ToolLog
	require.Equal(t, store.ToolStarted, want.Status)
	require.Equal(t, 2, want.Attempt)
	require.Nil(t, want.FinishedAt)
	require.Empty(t, want.Output)
	require.Equal(t, want, stored(t, s, "call"))
	require.False(t, add(t, s, key, store.Batch{ToolStart: &again}).Started, "once")

	end := finishOf("call", store.ToolSucceeded, `1`)
	require.Equal(t, store.ToolSucceeded, add(t, s, key, store.Batch{ToolFinish: &end}).ToolLog.Status)
}

func testToolStartConcurrent(t *testing.T, s store.Store) {
	type outcome struct {
		appended store.Appended
		err      error
	}
	outcomes := make(chan outcome, appenders)
	for n := range appenders {
		go func() {
			begin := toolLog("call")
			begin.Attempt = n + 1
			a, err := s.Append(t.Context(), key, store.Batch{ToolStart: &begin})
			outcomes <- outcome{a, err}
		}()
	}
	var started int
	var logs []store.ToolLog
	for range appenders {
		o := <-outcomes
		require.NoError(t, o.err)
		if o.appended.Started {
			started++
		}
		logs = append(logs, *o.appended.ToolLog)
	}
	require.Equal(t, 1, started, "exactly one starts the call")
	for _, log := range logs {
		require.Equal(t, stored(t, s, "call"), log)
	}
}

func testToolFinish(t *testing.T, s store.Store) {
	begin := toolLog("call")
	add(t, s, key, store.Batch{ToolStart: &begin})
	end := finishOf("call", store.ToolSucceeded, `1`)
	first := add(t, s, key, store.Batch{ToolFinish: &end})
	row := thread(t, s, key)

	late := finishOf("call", store.ToolInterrupted, `2`)
	second := add(t, s, key, store.Batch{ToolFinish: &late})
	require.Equal(t, first.ToolLog, second.ToolLog, "a finished log stays as it is")
	require.Equal(t, *first.ToolLog, stored(t, s, "call"))
	require.Equal(t, row, thread(t, s, key))

	both, bothEnd := toolLog("both"), finishOf("both", store.ToolSucceeded, `3`)
	a := add(t, s, key, store.Batch{ToolStart: &both, ToolFinish: &bothEnd})
	require.True(t, a.Started)
	require.Equal(t, store.ToolSucceeded, a.ToolLog.Status)
	require.Equal(t, "search", a.ToolLog.ToolName)
}

func testToolFinishAlone(t *testing.T, s store.Store) {
	end := finishOf("call", store.ToolDenied, "")
	end.ToolName, end.Agent, end.Input = "search", "writer", json.RawMessage(`{}`)
	a := add(t, s, key, store.Batch{ToolFinish: &end})
	require.False(t, a.Started)
	require.Equal(t, *a.ToolLog, stored(t, s, "call"))
	require.Equal(t, store.ToolDenied, a.ToolLog.Status)
	require.Equal(t, *a.ToolLog.FinishedAt, a.ToolLog.StartedAt, "without a start of its own")
	require.Nil(t, a.ToolLog.Output)

	undated := store.ToolLog{ToolCallID: "undated", Status: store.ToolUnknown}
	a = add(t, s, key, store.Batch{ToolFinish: &undated})
	require.WithinRange(t, *a.ToolLog.FinishedAt, time.Now().Add(-time.Minute), time.Now().Add(time.Minute))
	require.Equal(t, "null", string(a.ToolLog.Input))

	begin := toolLog("call")
	require.False(t, add(t, s, key, store.Batch{ToolStart: &begin}).Started, "a call that was denied does not start")
}

func testToolLogs(t *testing.T, s store.Store) {
	for id, offset := range map[string]time.Duration{"c": 0, "a": time.Second, "b": 2 * time.Second, "0": time.Second} {
		log := toolLog(id)
		log.StartedAt = start.Add(offset)
		add(t, s, key, store.Batch{ToolStart: &log})
	}
	logs, err := s.ToolLogs(t.Context(), key)
	require.NoError(t, err)
	got := make([]string, len(logs))
	for i, log := range logs {
		got[i] = log.ToolCallID
		require.Equal(t, stored(t, s, log.ToolCallID), log)
	}
	require.Equal(t, []string{"c", "0", "a", "b"}, got)
	_, err = s.ToolLog(t.Context(), key, "nobody")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.ToolLog(t.Context(), key, "a\x00")
	require.ErrorIs(t, err, store.ErrNotFound)
}

func testToolAtomic(t *testing.T, s store.Store) {
	begin := toolLog("call")
	bad := records("a")
	bad[0].Type = ""
	_, err := s.Append(t.Context(), key, store.Batch{ToolStart: &begin, Records: bad})
	require.Error(t, err)
	_, err = s.ToolLog(t.Context(), key, "call")
	require.ErrorIs(t, err, store.ErrNotFound)
}
