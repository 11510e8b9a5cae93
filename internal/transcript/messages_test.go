package transcript_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

var key = store.Key{Namespace: "ns", ThreadID: "t1"}

// reader counts what is asked of a store.
type reader struct {
	teststore.Store
	queries int
	read    int // records of pages
	most    int // ids in one question
	problem error
}

func (r *reader) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	r.queries++
	page, err := r.Store.Records(ctx, key, q)
	r.read += len(page)
	return page, err
}

func (r *reader) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	r.queries++
	r.most = max(r.most, len(ids))
	if r.problem != nil {
		return nil, r.problem
	}
	return r.Store.RecordsByID(ctx, key, ids...)
}

func newReader(t *testing.T, records ...event.Record) *reader {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.Append(t.Context(), key, store.Batch{Records: records})
	require.NoError(t, err)
	return &reader{Store: db}
}

func messageRecord(m event.Message) event.Record {
	return event.NewRecord(m.ID, event.TypeMessage, "trace", "", time.Unix(1700000000, 0), m)
}

// TestOutcome: people see what hooks did with a message.
func TestOutcome(t *testing.T) {
	changed := person("m", "changed")
	for want, records := range map[string][]event.Record{
		"":            {undecided(person("m", "x"), event.TypeMessage), decision("m", event.Interception{EventType: event.TypeMessage, Outcome: event.OutcomePassed})},
		"undecided":   {undecided(person("m", "x"), event.TypeMessage)},
		"overwritten": {messageRecord(person("m", "x")), decision("m", event.Interception{EventType: event.TypeMessage, Outcome: event.OutcomeOverwritten})},
		"replaced":    {messageRecord(person("m", "x")), decision("m", event.Interception{EventType: event.TypeMessage, Outcome: event.OutcomeReplaced, Message: &changed})},
		"withdrawn":   {messageRecord(person("m", "x")), withdrawal("m")},
	} {
		all, err := transcript.Messages(t.Context(), newReader(t, records...), key, store.Query{})
		require.NoError(t, err)
		require.Equal(t, want, all[0].Outcome())
		_, seen := all[0].ForModels()
		require.Equal(t, want == "" || want == "replaced", seen, "as models see it")
	}
}

func decision(on string, d event.Interception) event.Record {
	d.EventID = on
	return event.NewRecord(recordid.Interception(on), event.TypeHook, "trace", on, time.Unix(1700000001, 0), d)
}

func text(id, content string) event.Message {
	return event.Message{ID: id, SenderType: event.CreatedByAgent, Content: content}
}

func TestMessagesAsHooksHaveLeftThem(t *testing.T) {
	calls := []event.ToolCall{{ID: "c1", Function: event.Function{Name: "f", Arguments: "{}"}}}
	redacted := text("m", "redacted")
	heldCopy := redacted
	heldCopy.Held = true
	for _, tc := range []struct {
		name     string
		held     bool
		decision *event.Interception
		content  string
		hidden   bool
	}{
		{"nothing was decided", false, nil, "stored", false},
		{"passed", false, &event.Interception{Outcome: event.OutcomePassed}, "stored", false},
		{"replaced", false, &event.Interception{Outcome: event.OutcomeReplaced, Message: &redacted}, "redacted", false},
		{"responded", false, &event.Interception{Outcome: event.OutcomeResponded}, "stored", false},
		{"replaced, and then responded to", false, &event.Interception{Outcome: event.OutcomeResponded, Message: &redacted}, "redacted", false},
		{"failed", false, &event.Interception{Outcome: event.OutcomeFailed}, "stored", false},
		{"held, nothing was decided", true, nil, "", true},
		{"held, passed: what is stored is whole", true, &event.Interception{Outcome: event.OutcomePassed, Message: &redacted}, "stored", false},
		{"held, passed, with a copy that still says so", true, &event.Interception{Outcome: event.OutcomePassed, Message: &heldCopy}, "stored", false},
		{"held, replaced", true, &event.Interception{Outcome: event.OutcomeReplaced, Message: &redacted}, "redacted", false},
		{"held, passed without a message", true, &event.Interception{Outcome: event.OutcomePassed}, "", true},
		{"held, responded", true, &event.Interception{Outcome: event.OutcomeResponded}, "", true},
		{"held, responded with a message", true, &event.Interception{Outcome: event.OutcomeResponded, Message: &redacted}, "", true},
		{"held, overwritten", true, &event.Interception{Outcome: event.OutcomeOverwritten, Message: &redacted}, "", true},
		{"held, failed", true, &event.Interception{Outcome: event.OutcomeFailed, Message: &redacted}, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asStored := text("m", "stored")
			asStored.Held, asStored.ToolCalls = tc.held, calls
			r := newReader(t, messageRecord(asStored))
			if tc.decision != nil {
				_, err := r.Append(t.Context(), key, store.Batch{Records: []event.Record{decision("m", *tc.decision)}})
				require.NoError(t, err)
			}
			got, err := transcript.Messages(t.Context(), r, key, store.Query{})
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Equal(t, "m", got[0].ID)
			require.Equal(t, tc.content, got[0].Content)
			require.Equal(t, tc.hidden, got[0].Hidden)
			require.Equal(t, tc.hidden, got[0].Held)
			require.Equal(t, tc.decision != nil, got[0].Decision != nil)
			var whole event.Message
			require.NoError(t, json.Unmarshal(got[0].Record.Payload, &whole))
			require.Equal(t, asStored, whole, "the record is as it was stored")
			require.Equal(t, calls, got[0].ToolCalls, "models need the calls that results belong to")
		})
	}
}

func TestMessagesOfAPage(t *testing.T) {
	one, two, three := text("m1", "one"), text("m2", "two"), text("m3", "three")
	changed := text("m1", "changed")
	// The decision on the oldest is the newest record.
	r := newReader(t, messageRecord(one), messageRecord(two), messageRecord(three),
		event.NewRecord("x", "weather.changed", "", "", time.Unix(0, 0), 1),
		event.NewRecord(recordid.Interception("m2"), "mine", "", "", time.Unix(0, 0), 1),
		decision("m1", event.Interception{Outcome: event.OutcomeReplaced, Message: &changed}))
	for _, tc := range []struct {
		name string
		q    store.Query
		want []string
	}{
		{"oldest", store.Query{Limit: 2}, []string{"changed", "two"}},
		{"newest", store.Query{Limit: 2, Newest: true}, []string{"three", "two"}},
		{"after", store.Query{After: 1}, []string{"two", "three"}},
		{"before", store.Query{Before: 2}, []string{"changed"}},
		{"other types are not asked for", store.Query{Types: []string{"weather.changed"}}, []string{"changed", "two", "three"}},
		{"none", store.Query{After: 3}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r.queries = 0
			got, err := transcript.Messages(t.Context(), r, key, tc.q)
			require.NoError(t, err)
			var contents []string
			for _, m := range got {
				contents = append(contents, m.Content)
			}
			require.Equal(t, tc.want, contents)
			require.LessOrEqual(t, r.queries, 2)
		})
	}
}

// endless is a store whose pages are longer than they should be.
type endless struct{ reader }

func (e *endless) Records(context.Context, store.Key, store.Query) ([]event.Record, error) {
	var out []event.Record
	for i := range store.MaxLimit + 1 {
		out = append(out, messageRecord(text(fmt.Sprint("m", i), "x")))
	}
	return out, nil
}

func TestMessagesAskForNoMoreThanAQueryReturns(t *testing.T) {
	last := fmt.Sprint("m", store.MaxLimit)
	changed := text(last, "changed")
	e := &endless{*newReader(t, decision(last, event.Interception{Outcome: event.OutcomeReplaced, Message: &changed}))}
	got, err := transcript.Messages(t.Context(), e, key, store.Query{})
	require.NoError(t, err)
	require.Len(t, got, store.MaxLimit+1)
	require.Equal(t, "changed", got[store.MaxLimit].Content)
	require.Equal(t, store.MaxLimit, e.most)
}

func TestMessagesThatCannotBeRead(t *testing.T) {
	broken := func(id, typ string) event.Record {
		return event.NewRecord(id, typ, "", "", time.Unix(0, 0), []int{1})
	}
	for name, records := range map[string][]event.Record{
		`message record "m"`:   {broken("m", event.TypeMessage)},
		`hook record "m.hook"`: {messageRecord(text("m", "a secret")), broken(recordid.Interception("m"), event.TypeHook)},
	} {
		records = append([]event.Record{messageRecord(text("a", "before"))}, append(records, messageRecord(text("z", "after")))...)
		got, err := transcript.Messages(t.Context(), newReader(t, records...), key, store.Query{})
		require.NoError(t, err)
		require.Len(t, got, 3, "it concerns no other")
		require.Equal(t, []string{"before", "", "after"}, []string{got[0].Content, got[1].Content, got[2].Content})
		require.True(t, got[1].Hidden)
		require.ErrorIs(t, got[1].Problem, transcript.ErrUnreadable)
		require.ErrorContains(t, got[1].Problem, name)
		require.NoError(t, errors.Join(got[0].Problem, got[2].Problem))
	}
	r := newReader(t, messageRecord(text("m", "one")))
	r.problem = errors.New("no connection")
	_, err := transcript.Messages(t.Context(), r, key, store.Query{})
	require.ErrorIs(t, err, r.problem)
	require.NotErrorIs(t, err, transcript.ErrUnreadable, "it may be read later")
	require.NoError(t, r.Close())
	_, err = transcript.Messages(t.Context(), r, key, store.Query{})
	require.Error(t, err)
}

func TestMessageByID(t *testing.T) {
	changed := text("m", "changed")
	r := newReader(t, messageRecord(text("a", "before")), messageRecord(text("m", "one")), decision("m", event.Interception{Outcome: event.OutcomeReplaced, Message: &changed}))
	got, err := transcript.MessageByID(t.Context(), r, key, "m")
	require.NoError(t, err)
	require.Equal(t, "changed", got.Content)
	for _, id := range []string{"z", recordid.Interception("m")} {
		_, err = transcript.MessageByID(t.Context(), r, key, id)
		require.ErrorIs(t, err, store.ErrNotFound, "there is no such message")
	}
	r.problem = errors.New("no connection")
	_, err = transcript.MessageByID(t.Context(), r, key, "m")
	require.ErrorIs(t, err, r.problem)
}
