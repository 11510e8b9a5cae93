package tests

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/conversation"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// A conversation of three agents and two people, and its expected result.
const (
	threeAgents       = "testdata/conversations/three-agents.yaml"
	threeAgentsGolden = "testdata/conversations/three-agents.golden.yaml"
)

// keptIn are the stores in which the conversation is the same.
var keptIn = map[string]harness.Options{"sqlite": {}, "postgres": {Postgres: true}}

// TestConversation plays the conversation. The records and the model calls are always the same.
//
//ci:replayed
func TestConversation(t *testing.T) {
	t.Parallel()
	for name, o := range keptIn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			var published publications
			o.Configure = func(c *threadmill.Config) { s.Configure(c, published.add) }
			s.Harness = harness.New(t, s.options(o))
			ctx, cancel := context.WithTimeout(t.Context(), 4*testenv.Patience) // it has many turns
			defer cancel()
			require.NoError(t, s.Play(ctx, s.Threads, conversation.ThreadID))
			t.Run("S4-33 S4-34 S4-35 S4-36 S4-38 S4-42 S4-44 S4-45 S4-50 S4-102 what is stored and shown", func(t *testing.T) {
				s.requireGolden(t, conversation.ThreadID)
			})
			t.Run("S4-78 S4-80 S4-81 S4-82 what is published is what people have agreed to", func(t *testing.T) {
				s.requirePublished(t, conversation.ThreadID, published.calls(), 1)
			})
		})
	}
}

// scene is a world in which the conversation is played.
type scene struct {
	*conversation.Transcript
	*harness.Harness
	model *conversation.Model
}

func newScene(t *testing.T) *scene {
	t.Helper()
	transcript, err := conversation.Read(threeAgents)
	require.NoError(t, err)
	s := &scene{Transcript: transcript}
	s.model = &conversation.Model{Transcript: transcript, Context: t.Context(), Said: s.said}
	return s
}

// options are those of a world whose model replies as in the transcript, and fails the test on
// input that a provider would reject.
func (s *scene) options(o harness.Options) harness.Options {
	o.Provider.Script = s.model.Script
	return o
}

// said counts the agents' messages in a thread.
func (s *scene) said(ctx context.Context, thread string) (n int, err error) {
	records, err := s.Store.Records(ctx, s.Key(thread), store.Query{Types: []string{event.TypeMessage}})
	for _, r := range records {
		var m event.Message
		if err := json.Unmarshal(r.Payload, &m); err != nil {
			return 0, err
		}
		if m.SenderType == event.CreatedByAgent {
			n++
		}
	}
	return n, err
}

// requireGolden compares the records of a thread with the expected ones.
func (s *scene) requireGolden(t *testing.T, thread string) {
	t.Helper()
	check.Settle(s.Harness, thread)
	require.Empty(t, s.Provider.Violations(), "every provider would take what the models are shown")
	row, err := s.Store.Thread(s.Ctx(), s.Key(thread))
	require.NoError(t, err)
	got, err := s.Render(row, s.Records(thread), s.Provider.Requests())
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(threeAgentsGolden, got, 0o644))
	}
	want, err := os.ReadFile(threeAgentsGolden)
	require.NoError(t, err)
	if harness.Protocol() != "openai" { // whose requests the file has
		require.Equal(t, beforeRequests(want), beforeRequests(got))
		return
	}
	require.Equal(t, string(want), string(got))
}

// ofProvider matches what each provider stores in its own way: parts that only its model can read, and
// tokens of the names in the text.
var ofProvider = regexp.MustCompile(`opaque: .*?, (step:)|inputTokens: [0-9]+`)

// beforeRequests returns the part of a rendered conversation before the requests, for any provider.
func beforeRequests(rendered []byte) string {
	before, _, _ := strings.Cut(string(rendered), "\nshown:")
	before = strings.ReplaceAll(before, "publish failed: ", "publish returned: ") // not all know
	return ofProvider.ReplaceAllString(before, "$1")
}

// requirePublished checks that exactly the approved texts were published, and none too often.
func (s *scene) requirePublished(t *testing.T, thread string, calls map[string]int, most int) {
	t.Helper()
	var allowed []string
	for _, m := range s.Messages(thread) {
		if m.ToolName == "publish" && m.ToolCallID != "" && !m.IsError {
			allowed = append(allowed, m.ToolCallID)
		}
	}
	require.Len(t, allowed, 2)
	require.Len(t, calls, len(allowed))
	for _, id := range allowed {
		require.Contains(t, calls, id)
		require.LessOrEqual(t, calls[id], most)
	}
}

// publications counts the publications of each call.
type publications struct {
	mu     sync.Mutex
	byCall map[string]int
}

func (p *publications) add(_ context.Context, c tool.Call) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byCall == nil {
		p.byCall = map[string]int{}
	}
	p.byCall[c.ID]++
	return nil
}

func (p *publications) calls() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.byCall)
}
