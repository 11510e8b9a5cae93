package tool

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestValidateArgumentsOfChangedSchemas: a tool of a server may change its schema under the same name, any
// number of times.
func TestValidateArgumentsOfChangedSchemas(t *testing.T) {
	for i := range 2 * maxCheckers {
		d := Definition{Name: "changes", Parameters: json.RawMessage(fmt.Sprintf(`{"type":"object","required":["n%d"]}`, i))}
		for range 2 {
			require.NoError(t, d.ValidateArguments(fmt.Sprintf(`{"n%d":1}`, i)))
			require.ErrorContains(t, d.ValidateArguments(`{"n":1}`), fmt.Sprint("n", i))
		}
		require.LessOrEqual(t, len(checkers.byKey), maxCheckers)
	}
	require.Error(t, Definition{Name: "changes", Parameters: json.RawMessage(`{"type":7}`)}.ValidateArguments(`{}`))
}
