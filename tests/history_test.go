package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestHistoryIsTheEventLog: Temporal's history shows the messages, the calls and their results.
func TestHistoryIsTheEventLog(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	id := w.Open()
	w.Say(id, `use note {"text":"buy milk"}`)
	seen := map[string]bool{}
	for _, e := range check.HistoryOf(w, id, "") {
		raw, err := protojson.Marshal(e)
		require.NoError(t, err)
		for _, p := range e.GetActivityTaskCompletedEventAttributes().GetResult().GetPayloads() {
			raw = append(raw, p.GetData()...)
		}
		text := string(raw)
		for _, want := range []string{`"arguments":"{\"text\":\"buy milk\"}"`, `"result":"noted: buy milk"`} {
			seen[want] = seen[want] || strings.Contains(text, want)
		}
	}
	for want, found := range seen {
		require.True(t, found, want)
	}
}
