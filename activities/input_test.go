package activities

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tool"
)

// TestQuestionKind: a question without a kind is a form.
func TestQuestionKind(t *testing.T) {
	need := &tool.InputRequired{Questions: []event.InputQuestion{{ID: "when", Message: "When?"}}}
	require.NoError(t, (&toolRun{}).checkInput(need))
	require.Equal(t, event.InputForm, need.Questions[0].Kind)
	need.Questions[0].Kind = "shape"
	require.EqualError(t, (&toolRun{}).checkInput(need), `the tool's question "when" has the unknown kind "shape"`)
}

// TestQuestionIDs: threads keep the ids of all questions, so they have to be short.
func TestQuestionIDs(t *testing.T) {
	for id, want := range map[string]string{
		strings.Repeat("i", maxQuestionID):   "",
		strings.Repeat("i", maxQuestionID+1): "the id of the tool's question 1 is 129 bytes, must be at most 128",
		"":                                   "the tool's question 1 has no id of its own",
	} {
		err := (&toolRun{}).checkInput(&tool.InputRequired{Questions: []event.InputQuestion{{ID: id, Kind: event.InputForm, Message: "When?"}}})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
}
