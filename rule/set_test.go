package rule_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
)

// list is a source with rules that the test changes.
type list struct {
	mu    sync.Mutex
	rules []rule.Rule
}

func (l *list) Rules() []rule.Rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rules
}

func (l *list) set(rules ...rule.Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = rules
}

func named(name string, priority int) rule.Rule {
	return rule.Rule{Name: name, Events: file, Priority: priority}
}

// order returns the names of the rules in order, without the default rules.
func order(s *rule.Set) []string {
	var out []string
	for _, spec := range s.Specs() {
		if !spec.Default {
			out = append(out, spec.Name)
		}
	}
	return out
}

func TestSetOrder(t *testing.T) {
	own := []rule.Rule{{Name: "a", Events: []string{"file.changed"}, Priority: 20}, named("b", 30), named("c", 20)}
	source := &list{}
	source.set(named("d", 30), named("e", 20), named("f", 90))
	s, err := rule.NewSet(rule.Config{Rules: own, Source: source})
	require.NoError(t, err)
	require.Equal(t, []string{"f", "b", "d", "a", "c", "e"}, order(s), "S3-19 by priority, then as they were registered, those of the source last")
	var all []string
	for _, spec := range s.Specs() {
		all = append(all, spec.Name)
	}
	require.Equal(t, []string{"user_query", "f", "background_task", "session", "b", "d", "a", "c", "e", "stream", "fallback"}, all,
		"of equals the default rules come last")

	own[0].Name, own[0].Events[0] = "changed", "changed"
	require.NoError(t, s.Register(rule.Rule{Name: "z", Events: []string{"x"}, Priority: 11}))
	require.Equal(t, []string{"f", "b", "d", "a", "c", "e", "z"}, order(s), "a set has copies")
	r, ok := s.Rule("a")
	require.True(t, ok)
	require.Equal(t, []string{"file.changed"}, r.Events)
}

func TestSetIsPlainData(t *testing.T) {
	s, err := rule.NewSet(rule.Config{Rules: []rule.Rule{
		{Events: file, Priority: 30, Function: handle, Agent: agent, Where: []rule.Condition{
			{Field: "payload.n", Equals: 5},
			{Field: "payload.n", Not: 2.5},
			{Field: "payload.n", In: []any{1, "a", nil, []int{1}}},
			{Field: "payload.n", Contains: map[string]int64{"id": 9007199254740993}},
			{Field: "payload.n", Equals: "<\xff>"},
			{Field: "payload.n", Above: ptr(0.1)},
			{Field: "payload.n", Exists: ptr(false)},
		}},
	}})
	require.NoError(t, err)
	raw, err := json.Marshal(s.Specs())
	require.NoError(t, err)
	var back []rule.Spec
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, s.Specs(), back, "a thread whose rules have not changed sees no change")
}

func TestSetIgnoresDisabled(t *testing.T) {
	off := named("off", 90)
	off.Disabled = true
	s, err := rule.NewSet(rule.Config{Rules: []rule.Rule{off, named("on", 30)}})
	require.NoError(t, err)
	got, ok := rule.Match(s.Specs(), of("file.changed"))
	require.True(t, ok)
	require.Equal(t, "on", got.Name, "S3-20 disabled rules match nothing")
	r, ok := s.Rule("off")
	require.True(t, ok, "who has matched it before still finds it")
	require.True(t, r.Disabled)
}

func TestRegister(t *testing.T) {
	source := &list{}
	source.set(named("file", 25))
	s, err := rule.NewSet(rule.Config{Rules: []rule.Rule{named("low", 20)}, Source: source})
	require.NoError(t, err)
	before := s.Specs()
	match := func() string {
		got, _ := rule.Match(s.Specs(), of("file.changed"))
		return got.Name
	}
	require.Equal(t, "file", match())
	require.NoError(t, s.Register(rule.Rule{Events: file, Priority: 30, Function: handle}))
	require.Equal(t, "file.changed", match(), "S3-21 the next event has the new rule")
	require.NoError(t, s.Register(named("highest", 40)))
	require.NoError(t, s.Register(named("middle", 35)))
	require.Equal(t, []string{"highest", "middle", "file.changed", "file", "low"}, order(s), "S3-21 sorted again")
	require.Len(t, before, 7, "who has asked before keeps what there was")
	r, ok := s.Rule("file.changed")
	require.True(t, ok)
	require.NotNil(t, r.Function)
	require.Equal(t, rule.DefaultTimeout, r.Timeout)

	for _, tc := range []struct {
		name string
		rule rule.Rule
		want string
	}{
		{"a name of its own", named("low", 90), `name: "low" is already used by another rule: choose another name`},
		{"a name that is a default", rule.Rule{Events: file, Priority: 90}, `name: "file.changed" is already used by another rule`},
		{"a name of the source", named("file", 90), `name: "file" is already used by another rule`},
		{"a mistake", rule.Rule{Events: []string{"a*"}}, "events[0]: "},
		{"never", named("never", 9), "priority: 9 is below the default rule fallback"},
	} {
		t.Run("refuses "+tc.name, func(t *testing.T) {
			err := s.Register(tc.rule)
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.ErrorContains(t, err, tc.want)
			require.Len(t, order(s), 5)
		})
	}
	t.Run("replaces a default rule", func(t *testing.T) {
		require.NoError(t, s.Register(rule.Rule{Name: rule.NameFallback, Events: []string{"*"}, Disabled: true}))
		_, ok := rule.Match(s.Specs(), of("other"))
		require.False(t, ok)
		require.NoError(t, s.Register(named("now it can", 0)))
	})
}

func TestSource(t *testing.T) {
	source := &list{}
	s, err := rule.NewSet(rule.Config{Rules: []rule.Rule{named("a", 20)}, Source: source})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, order(s))

	source.set(named("b", 30))
	require.Equal(t, []string{"b", "a"}, order(s), "S3-58 at once")
	source.set(named("b", 15))
	require.Equal(t, []string{"a", "b"}, order(s))
	source.set(rule.Rule{Events: file, Priority: 15}, rule.Rule{Name: rule.NameSession, Events: []string{"session.*"}, Agent: agent})
	require.Equal(t, []string{"a", "file.changed", "session"}, order(s))
	source.set()
	require.Equal(t, []string{"a"}, order(s))
	r, ok := s.Rule(rule.NameSession)
	require.True(t, ok)
	require.Nil(t, r.Agent, "the default rule is back")

	source.set(named("a", 90), named("b", 30), named("b", 40), rule.Rule{Name: "broken"}, named(rule.NameStream, 50))
	require.Equal(t, []string{"b", "a"}, order(s), "names that are taken, and mistakes, are left out")
	r, _ = s.Rule("a")
	require.Equal(t, 20, r.Priority, "what is declared in Go wins")
	require.Len(t, s.Specs(), 7, "the default rules are all there")
}

func TestSetRefuses(t *testing.T) {
	replaced := &list{}
	replaced.set(rule.Rule{Name: rule.NameFallback, Events: []string{"*"}})
	large := rule.Agent{Prompt: strings.Repeat("x", rule.MaxPrompt), SystemPrompt: strings.Repeat("x", rule.MaxPrompt)}
	many := make([]rule.Rule, 8)
	for i := range many {
		many[i] = rule.Rule{Name: fmt.Sprint(i), Events: file, Priority: 30, Agent: &large}
	}
	both := []string{"stream.text", "background_task.failed", "user_query"}
	for _, tc := range []struct {
		name   string
		rules  []rule.Rule
		source rule.Source
		bare   bool
		want   string // "" = valid
	}{
		{"a mistake", []rule.Rule{named("a", 30), {Events: file, Where: []rule.Condition{{Field: "x"}}}}, nil, false, `rules[1].where[0].field: "x" must begin with`},
		{"a name twice", []rule.Rule{named("a", 30), named("a", 40)}, nil, false, `rules[1].name: "a" is already used by another rule: choose another name`},
		{"a name twice, by default", []rule.Rule{{Events: file, Priority: 30}, {Events: file, Priority: 40}}, nil, false, `rules[1].name: "file.changed" is already used`},
		{"rules too large together", many, nil, false, "rules: is 262889 bytes as JSON, must be at most 262144"},
		{"rules that just fit", many[:7], nil, false, ""},

		{
			"a rule that the fallback hides",
			[]rule.Rule{{Events: file}},
			nil, false,
			"rules[0].priority: 0 is below the default rule fallback (*, priority 10), which would handle its events: set a priority above 10",
		},
		{"a rule beside the fallback", []rule.Rule{{Events: file, Priority: 10}}, nil, false, ""},
		{"* below the fallback", []rule.Rule{{Events: []string{"*"}, Priority: 9}}, nil, false, "9 is below the default rule fallback"},
		{"* below the others", []rule.Rule{{Events: []string{"*"}, Priority: 10}}, nil, false, ""},
		{"a conditional rule", []rule.Rule{{Events: file, Where: []rule.Condition{{Field: "id", Prefix: "a"}}}}, nil, false, "0 is below"},
		{"a disabled rule", []rule.Rule{{Events: file, Disabled: true}}, nil, false, ""},
		{"the highest that hides it is named", []rule.Rule{{Name: "s", Events: []string{"session.created"}}}, nil, false, "0 is below the default rule session (session.*, priority 50), which would handle its events: set a priority above 50"},
		{"a pattern", []rule.Rule{{Name: "s", Events: []string{"stream.x.*"}, Priority: 15}}, nil, false, "15 is below the default rule stream (stream.*, priority 20)"},
		{"a pattern with more in it than the default", []rule.Rule{{Name: "b", Events: []string{"background_task.*"}, Priority: 15}}, nil, false, ""},
		{"two types of a default rule", []rule.Rule{{Name: "b", Events: both[1:2], Priority: 15}}, nil, false, "15 is below the default rule background_task (background_task.completed, background_task.failed, priority 80)"},
		{"all of its types, by different rules", []rule.Rule{{Name: "b", Events: both, Priority: 15}}, nil, false, "15 is below the default rule stream"},
		{"all but one of its types", []rule.Rule{{Name: "b", Events: append(both[:3:3], "x"), Priority: 15}}, nil, false, ""},
		{"a default rule that the source replaces", []rule.Rule{{Events: file}}, replaced, false, ""},
		{"no default rules", []rule.Rule{{Events: file}, {Events: []string{"user_query"}, Agent: agent}}, nil, true, ""},
		{"no default rules but the pass-through", []rule.Rule{{Events: []string{"stream.text"}}}, nil, true, "0 is below the default rule stream"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := rule.NewSet(rule.Config{Rules: tc.rules, Source: tc.source, WithoutDefaults: tc.bare})
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.Nil(t, s)
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestReachable(t *testing.T) {
	r := named("a", 0)
	require.ErrorContains(t, rule.Reachable(r, nil), "set a priority above 10")
	require.ErrorContains(t, rule.Reachable(r, []rule.Rule{r, named("b", 0)}), "set a priority above 10")
	require.NoError(t, rule.Reachable(r, []rule.Rule{r, {Name: rule.NameFallback, Events: file}}))
	require.NoError(t, rule.Reachable(rule.Rule{Name: rule.NameFallback, Events: []string{"*"}}, nil), "it replaces the one that would hide it")
	require.NoError(t, rule.Reachable(rule.Rule{}, nil), "which is no rule")
}

func TestSpecsAreCheap(t *testing.T) {
	source := &list{}
	source.set(named("b", 30))
	s, err := rule.NewSet(rule.Config{Rules: []rule.Rule{named("a", 20)}, Source: source})
	require.NoError(t, err)
	s.Specs()
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Specs() }), "nothing has changed")
}

func TestSetForMany(t *testing.T) {
	source := &list{}
	s, err := rule.NewSet(rule.Config{Source: source})
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 50 {
				if err := s.Register(named(fmt.Sprintf("r%d.%d", i, n), 20+n)); err != nil {
					t.Error(err)
				}
				source.set(named("moving", 20+n))
			}
		})
		all.Go(func() {
			for range 200 {
				specs := s.Specs()
				for i := 1; i < len(specs); i++ {
					if specs[i-1].Priority < specs[i].Priority {
						t.Errorf("%s stands before %s", specs[i-1].Name, specs[i].Name)
					}
				}
				if _, ok := s.Rule(rule.NameFallback); !ok {
					t.Error("no fallback")
				}
			}
		})
	}
	all.Wait()
	require.Len(t, order(s), 4*50+1)
}
