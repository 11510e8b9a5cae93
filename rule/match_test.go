package rule_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
)

func of(typ string) event.EnvEvent { return event.EnvEvent{ID: "e1", Type: typ} }

func TestMatchTypes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		events  []string
		matches []string
		others  []string
	}{
		{
			"S3-15 exact match",
			[]string{"file.changed"},
			[]string{"file.changed"},
			[]string{"file", "file.change", "file.changed.twice", "File.changed", "my.file.changed", "file_changed"},
		},
		{
			"S3-16 array match",
			[]string{"file.changed", "file.deleted", "git.*"},
			[]string{"file.changed", "file.deleted", "git.push"},
			[]string{"file.created", "gitlab.push"},
		},
		{
			"S3-17 prefix.* match",
			[]string{"session.*"},
			[]string{"session.created", "session.x.y"},
			[]string{"session", "sessions.created", "session_created", "a.session.created"},
		},
		{
			"S3-17 a longer prefix",
			[]string{"github.pull_request.*"},
			[]string{"github.pull_request.opened"},
			[]string{"github.pull_request", "github.push"},
		},
		{
			"S3-18 * matches every type",
			[]string{"*"},
			[]string{"file.changed", "x", "user_query", "stream.text"},
			nil,
		},
		{"what is no pattern is no regular expression either", []string{"a.c"}, []string{"a.c"}, []string{"abc"}},
		{"no types", nil, nil, []string{"x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			specs := []rule.Spec{{Name: "r", Events: tc.events}}
			for _, typ := range tc.matches {
				got, ok := rule.Match(specs, of(typ))
				require.True(t, ok, typ)
				require.Equal(t, "r", got.Name)
			}
			for _, typ := range tc.others {
				got, ok := rule.Match(specs, of(typ))
				require.False(t, ok, typ)
				require.Zero(t, got)
			}
		})
	}
}

func TestMatchPriority(t *testing.T) {
	spec := func(name string, priority int, where ...rule.Condition) rule.Spec {
		return rule.Spec{Name: name, Events: []string{"file.*"}, Priority: priority, Where: where}
	}
	never := rule.Condition{Field: "payload.none", Equals: 1}
	for _, tc := range []struct {
		name  string
		specs []rule.Spec
		want  string
	}{
		{"S3-19 the highest, wherever it stands", []rule.Spec{spec("a", 1), spec("b", 30), spec("c", 20)}, "b"},
		{"S3-19 the default is 0", []rule.Spec{spec("a", -1), spec("b", 0), spec("c", -5)}, "b"},
		{"S3-19 of equals the first", []rule.Spec{spec("a", 1), spec("b", 7), spec("c", 7)}, "b"},
		{"S3-19 the highest whose conditions hold", []rule.Spec{spec("a", 9, never), spec("b", 8, never), spec("c", 1)}, "c"},
		{"a more exact type counts for nothing", []rule.Spec{{Name: "exact", Events: []string{"file.changed"}}, spec("b", 1)}, "b"},
		{"none", []rule.Spec{spec("a", 9, never)}, ""},
		{"no rules", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := rule.Match(tc.specs, of("file.changed"))
			require.Equal(t, tc.want != "", ok)
			require.Equal(t, tc.want, got.Name)
		})
	}
}

// FuzzMatch compares Match with a naive implementation, which uses regular expressions.
func FuzzMatch(f *testing.F) {
	f.Add("file.*,git.push\n*", "file.changed", int8(3), int8(3))
	f.Add("stream.*\n*\nstream.text", "stream.text", int8(20), int8(10))
	f.Add("a.b\na.*\n*", "a.b", int8(0), int8(-1))
	f.Fuzz(func(t *testing.T, rules, typ string, first, step int8) {
		if !utf8.ValidString(typ) {
			t.Skip() // no event has such a type, and regular expressions treat it differently
		}
		var specs []rule.Spec
		want, best := -1, 0
		for i, line := range strings.Split(rules, "\n") {
			// Priorities repeat after three rules.
			s := rule.Spec{Events: strings.Split(line, ","), Priority: int(first) + int(step)*(i%3)}
			if (rule.Rule{Events: s.Events}).Validate() != nil {
				continue
			}
			if naive(s.Events, typ) && (want < 0 || s.Priority > best) {
				want, best = len(specs), s.Priority
			}
			specs = append(specs, s)
		}
		got, ok := rule.Match(specs, of(typ))
		require.Equal(t, want >= 0, ok)
		if ok {
			require.Equal(t, specs[want], got)
		}
	})
}

func naive(patterns []string, typ string) bool {
	for _, p := range patterns {
		form := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, ".*") + "$"
		if regexp.MustCompile(form).MatchString(typ) {
			return true
		}
	}
	return false
}

// TestMatchAfterTheSnapshot: rules match the same events after a round trip through JSON.
func TestMatchAfterTheSnapshot(t *testing.T) {
	r := rule.Rule{Events: []string{"order.*"}, Where: []rule.Condition{{Field: "payload.id", Equals: int64(9007199254740993)}}}
	raw, err := json.Marshal([]rule.Spec{r.Spec()})
	require.NoError(t, err)
	var specs []rule.Spec
	require.NoError(t, json.Unmarshal(raw, &specs))
	require.Equal(t, []rule.Spec{r.Spec()}, specs)
	e := of("order.placed")
	e.Payload = json.RawMessage(`{"id": 9007199254740993}`)
	_, ok := rule.Match(specs, e)
	require.True(t, ok)
	e.Payload = json.RawMessage(`{"id": 9007199254740992}`)
	_, ok = rule.Match(specs, e)
	require.False(t, ok, "as float64 they would be the same")
}
