package activities

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/tool"
)

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
