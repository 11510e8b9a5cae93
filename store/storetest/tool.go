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

func stored(t *testing.T, s whole, id string) store.ToolLog {
	t.Helper()
	log, err := s.ToolLog(t.Context(), key, id)
	require.NoError(t, err)
	return log
}

func testToolLog(t *testing.T, s whole) {
	begin := toolLog("call")
	a := add(t, s, key, store.Batch{ToolStart: &begin})
	require.True(t, a.Started)
	want := begin
	want.StartedAt = start.UTC().Truncate(time.Microsecond)
	require.Equal(t, want, stored(t, s, "call"))
	require.Equal(t, string(begin.Input), string(stored(t, s, "call").Input), "raw, to the byte")

	end := finishOf("call", store.ToolSucceeded, `{"result":  ["\u0000", "é"]}`)
	end.Attempt = 3
	a = add(t, s, key, store.Batch{ToolFinish: &end, Records: records("result")})
	require.False(t, a.Started)
	finished := end.FinishedAt.UTC().Truncate(time.Microsecond)
	want.Status, want.Output, want.FinishedAt, want.Attempt = store.ToolSucceeded, end.Output, &finished, 3
	require.Equal(t, want, stored(t, s, "call"), "a finish keeps what the start said")
}

func testToolStart(t *testing.T, s whole) {
	add(t, s, key, store.Batch{Records: records("before")})
	row := thread(t, s, key)
	begin := toolLog("call")
	require.True(t, add(t, s, key, store.Batch{ToolStart: &begin}).Started)
	require.Equal(t, row, thread(t, s, key), "a tool log is no record")
	first := stored(t, s, "call")
	again := toolLog("call")
	again.Attempt, again.Input, again.StartedAt = 2, json.RawMessage(`"other"`), start.Add(time.Hour)
	require.False(t, add(t, s, key, store.Batch{ToolStart: &again}).Started)
	require.Equal(t, first, stored(t, s, "call"))

	end := finishOf("call", store.ToolFailed, `"broken"`)
	add(t, s, key, store.Batch{ToolFinish: &end})
	require.Equal(t, row, thread(t, s, key), "a tool log is no record")
	finished := stored(t, s, "call")
	require.Equal(t, store.ToolFailed, finished.Status)
	third := add(t, s, key, store.Batch{ToolStart: &again, Records: records("a")})
	require.False(t, third.Started)
	require.Equal(t, finished, stored(t, s, "call"), "a finished call does not start again")
	require.Len(t, third.Records, 1, "the rest of the batch is stored all the same")
}

func testToolWaits(t *testing.T, s whole) {
	begin := toolLog("call")
	add(t, s, key, store.Batch{ToolStart: &begin})
	waiting := finishOf("call", store.ToolWaiting, `"asked"`)
	add(t, s, key, store.Batch{ToolFinish: &waiting})
	require.Equal(t, store.ToolWaiting, stored(t, s, "call").Status)

	again := toolLog("call")
	again.Attempt = 2
	a := add(t, s, key, store.Batch{ToolStart: &again})
	require.True(t, a.Started, "a call that waited for input runs again")
	want := stored(t, s, "call")
	require.Equal(t, store.ToolStarted, want.Status)
	require.Equal(t, 2, want.Attempt)
	require.Nil(t, want.FinishedAt)
	require.Empty(t, want.Output)
	require.False(t, add(t, s, key, store.Batch{ToolStart: &again}).Started, "once")

	end := finishOf("call", store.ToolSucceeded, `1`)
	add(t, s, key, store.Batch{ToolFinish: &end})
	require.Equal(t, store.ToolSucceeded, stored(t, s, "call").Status)
}

func testToolStartConcurrent(t *testing.T, s whole) {
	type outcome struct {
		attempt  int
		appended store.Appended
		err      error
	}
	outcomes := make(chan outcome, appenders)
	for n := range appenders {
		go func() {
			begin := toolLog("call")
			begin.Attempt = n + 1
			a, err := s.Append(t.Context(), key, store.Batch{ToolStart: &begin})
			outcomes <- outcome{begin.Attempt, a, err}
		}()
	}
	var started int
	for range appenders {
		o := <-outcomes
		require.NoError(t, o.err)
		if o.appended.Started {
			started++
			require.Equal(t, o.attempt, stored(t, s, "call").Attempt)
		}
	}
	require.Equal(t, 1, started, "exactly one starts the call")
}

func testToolFinish(t *testing.T, s whole) {
	begin := toolLog("call")
	add(t, s, key, store.Batch{ToolStart: &begin})
	end := finishOf("call", store.ToolSucceeded, `1`)
	add(t, s, key, store.Batch{ToolFinish: &end})
	first, row := stored(t, s, "call"), thread(t, s, key)

	late := finishOf("call", store.ToolInterrupted, `2`)
	add(t, s, key, store.Batch{ToolFinish: &late})
	require.Equal(t, first, stored(t, s, "call"), "a finished log stays as it is")
	require.Equal(t, row, thread(t, s, key))

	both, bothEnd := toolLog("both"), finishOf("both", store.ToolSucceeded, `3`)
	a := add(t, s, key, store.Batch{ToolStart: &both, ToolFinish: &bothEnd})
	require.True(t, a.Started)
	require.Equal(t, store.ToolSucceeded, stored(t, s, "both").Status)
	require.Equal(t, "search", stored(t, s, "both").ToolName)
}

func testToolFinishAlone(t *testing.T, s whole) {
	end := finishOf("call", store.ToolDenied, "")
	end.ToolName, end.Agent, end.Input = "search", "writer", json.RawMessage(`{}`)
	a := add(t, s, key, store.Batch{ToolFinish: &end})
	require.False(t, a.Started)
	log := stored(t, s, "call")
	require.Equal(t, store.ToolDenied, log.Status)
	require.Equal(t, *log.FinishedAt, log.StartedAt, "without a start of its own")
	require.Nil(t, log.Output)

	undated := store.ToolLog{ToolCallID: "undated", Status: store.ToolUnknown}
	add(t, s, key, store.Batch{ToolFinish: &undated})
	log = stored(t, s, "undated")
	require.WithinRange(t, *log.FinishedAt, time.Now().Add(-time.Minute), time.Now().Add(time.Minute))
	require.Equal(t, "null", string(log.Input))

	begin := toolLog("call")
	require.False(t, add(t, s, key, store.Batch{ToolStart: &begin}).Started, "a call that was denied does not start")
}

func testToolLogs(t *testing.T, s whole) {
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

func testToolAtomic(t *testing.T, s whole) {
	begin := toolLog("call")
	bad := records("a")
	bad[0].Type = ""
	_, err := s.Append(t.Context(), key, store.Batch{ToolStart: &begin, Records: bad})
	require.Error(t, err)
	_, err = s.ToolLog(t.Context(), key, "call")
	require.ErrorIs(t, err, store.ErrNotFound)
}
