package tests

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/checker"
	"github.com/oasdiff/oasdiff/diff"
	"github.com/oasdiff/oasdiff/load"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// openAPI is the stored OpenAPI document: what clients rely on.
const openAPI = "../docs/openapi.json"

// TestOpenAPI compares the served document with the stored one. -update stores the served one, unless
// it would break clients. A change that has to break them deletes the file first, and says so in
// CHANGELOG.md.
func TestOpenAPI(t *testing.T) {
	w := harness.New(t, harness.Options{})
	served := document(t, w.API.URL)
	stored, err := os.ReadFile(openAPI)
	if !*update || !os.IsNotExist(err) {
		require.NoError(t, err)
		broken := breaking(t, stored, served)
		require.Empty(t, broken, "these changes break clients")
	}
	if *update {
		require.NoError(t, os.WriteFile(openAPI, served, 0o644))
		stored = served
	}
	require.JSONEq(t, string(stored), string(served), "docs/openapi.json is not what the server serves: go test ./tests -run TestOpenAPI -update")

	t.Run("a breaking change is found", func(t *testing.T) {
		for _, change := range []struct{ old, new string }{
			{`"/v1/threads/{id}/interrupt"`, `"/v1/threads/{id}/stop"`},
			{`"toolCallId": {`, `"callId": {`},
			{`"turn_ended"`, `"turn_over"`},
		} {
			require.Contains(t, string(stored), change.old)
			assert.NotEmpty(t, breaking(t, stored, []byte(strings.ReplaceAll(string(stored), change.old, change.new))), change.new)
		}
	})
	t.Run("everything is described", func(t *testing.T) {
		var doc struct {
			Paths      map[string]map[string]operation
			Components struct{ Schemas map[string]schema }
		}
		require.NoError(t, json.Unmarshal(served, &doc))
		for path, operations := range doc.Paths {
			for method, op := range operations {
				assert.NotEmpty(t, op.Summary, "%s %s", method, path)
				for _, parameter := range op.Parameters {
					assert.NotEmpty(t, parameter.Description, "%s %s: %s", method, path, parameter.Name)
				}
			}
		}
		for name, one := range doc.Components.Schemas {
			for field, property := range one.Properties {
				assert.NotEmpty(t, property.Description, "%s.%s", name, field)
			}
		}
	})
	file := filepath.Join(t.TempDir(), "openapi.json")
	require.NoError(t, os.WriteFile(file, served, 0o600))
	t.Run("a linter reports nothing", func(t *testing.T) {
		out := proc.Output(t, testenv.Node(t, "node_modules/@redocly/cli/bin/cli.js", "lint", "--format=json", "--max-problems=1000", file))
		var report struct {
			Totals   struct{ Errors, Warnings, Ignored int }
			Problems []any
		}
		require.NoError(t, json.Unmarshal(out, &report), string(out))
		assert.Empty(t, report.Problems)
		assert.Zero(t, report.Totals)
	})
	t.Run("another linter reports nothing", func(t *testing.T) {
		rules := filepath.Join(t.TempDir(), "rules.yaml")
		require.NoError(t, os.WriteFile(rules, []byte("extends: [\"spectral:oas\"]\n"), 0o600))
		proc.Output(t, testenv.Node(t, "node_modules/@stoplight/spectral-cli/dist/index.js", "lint", "--ruleset", rules, "--fail-severity", "hint", file))
	})
	t.Run("types of clients", func(t *testing.T) {
		dir := t.TempDir()
		proc.Output(t, testenv.Node(t, "node_modules/openapi-typescript/bin/cli.js", file, "--output", filepath.Join(dir, "api.d.ts")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "use.ts"), []byte(typesInUse), 0o600))
		proc.Output(t, testenv.Node(t, "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--typeRoots", dir, "--skipLibCheck", "false", filepath.Join(dir, "use.ts")))
	})
}

type operation struct {
	Summary    string
	Parameters []struct{ Name, Description string }
}

type schema struct {
	Properties map[string]struct{ Description string }
}

// typesInUse is what a frontend does with an agent event: the type says which fields there are.
const typesInUse = `
import type { components } from "./api";
type AgentEvent = components["schemas"]["AgentEvent"];
export function show(e: AgentEvent): string {
  switch (e.type) {
    case "stream":
    case "thought":
      return e.content;
    case "message":
      return e.message.senderType + e.message.content;
    case "tool_call":
      return e.toolName + e.toolArgs;
    case "tool_result":
      return e.output + (e.isError ? "!" : "");
    case "approval_request":
      return e.request.arguments;
    case "status":
      return e.status.turn ?? e.status.status;
    case "error":
      // @ts-expect-error an error has no output
      e.output;
      return e.error;
    default:
      // @ts-expect-error the other types have no content
      e.content;
      return e.type;
  }
}
`

// document returns the OpenAPI document of a server, indented, without the server's version.
func document(t *testing.T, url string) []byte {
	t.Helper()
	response, err := http.Get(url + "/openapi.json")
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	data, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(data, &doc))
	doc["info"].(map[string]any)["version"] = "0"
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	require.NoError(t, encoder.Encode(doc))
	return out.Bytes()
}

// breaking returns the changes from one document to another that break clients.
func breaking(t *testing.T, from, to []byte) []string {
	t.Helper()
	read := func(data []byte) *load.SpecInfo {
		info, err := load.NewSpecInfoFromData(openapi3.NewLoader(), data, "openapi.json")
		require.NoError(t, err)
		return info
	}
	report, sources, err := diff.GetWithOperationsSourcesMap(diff.NewConfig(), read(from), read(to))
	require.NoError(t, err)
	var out []string
	for _, change := range checker.CheckBackwardCompatibility(checker.NewConfig(checker.GetAllChecks()), report, sources) {
		// Clients ignore types of agent event that they do not know: later versions may add some.
		if change.GetLevel() == checker.ERR && change.GetId() != checker.ResponsePropertyOneOfAddedId {
			out = append(out, change.GetUncolorizedText(checker.NewDefaultLocalizer()))
		}
	}
	return out
}
