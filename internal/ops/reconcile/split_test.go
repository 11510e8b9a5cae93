package reconcile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/threadmill/threadmill/signals"
)

// TestSplit: no signal is larger than a thread accepts, and nothing is left out.
func TestSplit(t *testing.T) {
	text := strings.Repeat("x", 60<<10)
	all := signals.Restore{Title: "T", TaskNumber: 3}
	for i := range 100 {
		id := fmt.Sprint("c", i)
		all.Results = append(all.Results, signals.ToolResult{ToolCallID: id, Output: text})
		all.Decisions = append(all.Decisions, signals.Decide{ToolCallID: id, Reason: text})
		all.SubAgents = append(all.SubAgents, signals.RestoredSubAgent{ToolCallID: id, Restore: []byte(`"` + text + `"`)})
		all.Posts = append(all.Posts, signals.Post{ID: id, Payload: []byte(`"` + text + `"`)})
		all.Interrupts = append(all.Interrupts, signals.Control{EventID: id, Reason: text})
	}
	for i := range 3 * signals.MaxRestoreIDs {
		all.Known = append(all.Known, fmt.Sprint("e", i))
	}
	var got signals.Restore
	for i, part := range split(all) {
		assert.LessOrEqual(t, len(encoded(part)), 2*maxPart, i)
		assert.LessOrEqual(t, len(part.Known), signals.MaxRestoreIDs)
		assert.False(t, len(got.Posts) > 0 && len(part.Known)+len(part.Decisions)+len(part.SubAgents) > 0, "posts come last")
		if i == 0 {
			got.Title, got.TaskNumber = part.Title, part.TaskNumber
		}
		got.Known, got.Results, got.Decisions = append(got.Known, part.Known...), append(got.Results, part.Results...), append(got.Decisions, part.Decisions...)
		got.SubAgents, got.Posts, got.Interrupts = append(got.SubAgents, part.SubAgents...), append(got.Posts, part.Posts...), append(got.Interrupts, part.Interrupts...)
	}
	assert.Equal(t, all, got)
}
