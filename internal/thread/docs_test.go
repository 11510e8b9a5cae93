package thread

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocumentedLimits: the numbers in docs are those of the code.
func TestDocumentedLimits(t *testing.T) {
	for file, texts := range map[string][]string{
		"concepts.md": {
			fmt.Sprintf("The last %d, with at most %d KiB of content, stay and can be retried", maxFailed, maxFailedBytes>>10),
			fmt.Sprintf("a thread remembers the ids of the last %d,%03d posted events", maxPostedIDs/1000, maxPostedIDs%1000),
			fmt.Sprintf("how its last %d turns\nended and the decisions on its last %d tool calls", maxOutcomes, maxDecided),
		},
		"temporal-contract.md": {
			fmt.Sprintf("knows the results of its last %d turns", maxOutcomes),
			fmt.Sprintf("`ended` has the last %d events", maxEnded),
		},
		"http-api.md": {
			fmt.Sprintf("A thread remembers the last %d,%03d ids", maxPostedIDs/1000, maxPostedIDs%1000),
			fmt.Sprintf("keeps the results of its last %d turns", maxOutcomes),
		},
	} {
		text, err := os.ReadFile("../../docs/" + file)
		require.NoError(t, err)
		for _, want := range texts {
			require.Contains(t, string(text), want, file)
		}
	}
}
