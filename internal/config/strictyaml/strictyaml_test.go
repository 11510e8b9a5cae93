package strictyaml

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// indented nests mappings, one a line.
func indented(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	for name, text := range map[string]string{
		"empty":             "",
		"deep enough":       indented(MaxDepth),
		"flow, deep enough": strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
		"side by side":      strings.Repeat("agents:\n  - name: x\n    tools: [a, {b: c}]\n", 2000),
		"text":              "a: |\n  " + strings.Repeat("[{- ", 200) + "\nb: \"" + strings.Repeat("[", 200) + "\"\nc: '" + strings.Repeat("{", 200) + "' # " + strings.Repeat("[", 200),
		"some aliases":      "a: &x 1\nb: [" + strings.Repeat("*x, ", maxAliases) + "]",
	} {
		require.NoError(t, Check([]byte(text)), name)
	}
	for name, c := range map[string]struct {
		text, problem string
		line          int
	}{
		"flow":          {"a: 1\nb: " + strings.Repeat("[", 50_000), "more than 64 levels", 2},
		"closed":        {strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000), "more than 64 levels", 1},
		"flow mappings": {strings.Repeat("{a: ", 50_000), "more than 64 levels", 1},
		"list in list":  {strings.Repeat("- ", 50_000) + "a", "more than 64 levels", 1},
		"keys":          {strings.Repeat("? ", 50_000) + "a", "more than 64 levels", 1},
		"indented":      {indented(1000), "more than 64 levels", MaxDepth + 2},
		"tags":          {strings.Repeat("!!a ", 50_000), "more than 64 levels", 1},
		"anchors":       {strings.Repeat("&a ", 50_000), "more than 64 levels", 1},
		"large":         {strings.Repeat("a", MaxSize+1), "at most 1048576", 1},
		"aliases":       {"a: &x [1]\nb: [" + strings.Repeat("*x, ", maxAliases+1) + "]", "more than 10 aliases", 2},
	} {
		var problem *Error
		require.ErrorAs(t, Check([]byte(c.text)), &problem, name)
		require.Contains(t, problem.Problem, c.problem, name)
		require.Equal(t, c.line, problem.Line, name)
	}
}
