package check

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Failing400 is a provider's error that is not retried.
var Failing400 = llmtest.Status(http.StatusBadRequest, "")

// Shown is the input of one model call.
type Shown struct {
	llm.Request
	Raw string
}

// ModelsOf are the model calls whose messages contain text.
func ModelsOf(w *harness.Harness, text string) []Shown {
	w.T.Helper()
	return slices.DeleteFunc(ModelCalls(w), func(s Shown) bool {
		return !slices.ContainsFunc(s.Messages, func(m llm.Message) bool { return strings.Contains(m.Content, text) })
	})
}

// Instructions are the first system message, without the rules for tools at its end.
func (s Shown) Instructions() string {
	text, _, _ := strings.Cut(s.Messages[0].Content, "\n\nRules for tools:\n")
	return text
}

// Offered are the names of the tools in the call.
func (s Shown) Offered() (names []string) {
	for _, one := range s.Tools {
		names = append(names, one.Name)
	}
	return names
}

// ModelCalls returns the input of each model call.
func ModelCalls(w *harness.Harness) []Shown {
	w.T.Helper()
	var out []Shown
	for _, r := range w.Provider.Requests() {
		out = append(out, Shown{r.Conversation, string(r.Body)})
	}
	return out
}

// RequireAnswered checks a rule of every provider: the messages after one with calls are the
// results of these calls, one each.
func RequireAnswered(t *testing.T, messages []llm.Message) {
	t.Helper()
	for i := 0; i < len(messages); i++ {
		var asked, answered []string
		for _, c := range messages[i].ToolCalls {
			asked = append(asked, c.ID)
		}
		for range asked {
			i++
			require.Less(t, i, len(messages), "calls %v are not answered", asked)
			require.Equal(t, event.RoleTool, messages[i].Role)
			answered = append(answered, messages[i].ToolCallID)
		}
		require.ElementsMatch(t, asked, answered)
		if i+1 < len(messages) {
			require.NotEqual(t, event.RoleTool, messages[i+1].Role, "a result without its call")
		}
	}
}
