package examples

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/process"
)

var update = flag.Bool("update", false, "write the output of examples anew")

// TestExamples runs every program in examples/ and compares its output with its output.txt; -update
// writes that file.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/*/main.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	listed, err := os.ReadFile("../../examples/README.md")
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		// These two run until they are stopped: see TestOwnMain and TestRefundDesk.
		if name := filepath.Base(filepath.Dir(file)); name != "own-main" && name != "refunds" {
			names = append(names, name)
		}
	}
	binaries := buildExamples(t, names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, string(listed), "`go run ./examples/"+name+"`", "examples/README.md lists it")
			golden := "../../examples/" + name + "/output.txt"
			got := runExample(t, name, filepath.Join(binaries, name))
			// A webhook says "queued" again while the store does not have the event yet, of which the thread has one all the same.
			got = strings.Replace(got, "delivered again: 202, queued", "delivered again: 202, duplicate", 1)
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// runExample runs an example where its README does, and returns its standard output.
func runExample(t *testing.T, name, binary string) string {
	t.Helper()
	taskQueue := "example-" + signals.NewID()
	if name == "plain-temporal" {
		// It has no worker.
		taskQueue = harness.New(t, harness.Options{}).TaskQueue
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-task-queue", taskQueue)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+harness.Temporal(t).Addr(), "TEMPORAL_NAMESPACE=default",
		"TEMPORAL_CONFIG_FILE="+filepath.Join(t.TempDir(), "none.toml"), "OPENAI_API_KEY=")
	return string(process.Output(t, cmd))
}

// blocksOf returns the code blocks of a language in a document.
func blocksOf(t *testing.T, path, language string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var blocks []string
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, block[1])
	}
	require.NotEmpty(t, blocks)
	return blocks
}

// TestReadmeProgram checks that the Go code in the README is the code of an example.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("../../examples/tool/main.go")
	require.NoError(t, err)
	for _, block := range blocksOf(t, "../../README.md", "go") {
		require.Contains(t, string(program), block)
	}
}

// TestOwnProgramGuide checks that the Go code in docs/your-own-program.md is the code of the example, and its YAML
// that of the example's file.
func TestOwnProgramGuide(t *testing.T) {
	t.Parallel()
	for language, file := range map[string]string{"go": "main.go", "yaml": "threadmill.yaml"} {
		code, err := os.ReadFile("../../examples/own-main/" + file)
		require.NoError(t, err)
		for _, block := range blocksOf(t, "../../docs/your-own-program.md", language) {
			require.Contains(t, string(code), block)
		}
	}
}

// TestTestingGuide checks that the Go code in docs/testing.md is that of tests, and its transcript that of one.
func TestTestingGuide(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, file := range []string{"threadmilltest/desk_test.go", "examples/tool/main_test.go"} {
		text, err := os.ReadFile("../../" + file)
		require.NoError(t, err)
		code.Write(text)
	}
	for _, block := range blocksOf(t, "../../docs/testing.md", "go") {
		require.Contains(t, code.String(), block)
	}
	transcript, err := os.ReadFile("../../threadmilltest/testdata/refund.txt")
	require.NoError(t, err)
	require.Equal(t, []string{string(transcript)}, blocksOf(t, "../../docs/testing.md", "text"))
}

// TestFirstAppGuide checks that the Go code in docs/first-app.md is that of examples, and that what they print and the transcript are theirs.
func TestFirstAppGuide(t *testing.T) {
	t.Parallel()
	read := func(files ...string) string {
		var all strings.Builder
		for _, file := range files {
			text, err := os.ReadFile("../../examples/" + file)
			require.NoError(t, err)
			all.Write(text)
		}
		return all.String()
	}
	const guide = "../../docs/first-app.md"
	code := read("hello/main.go", "invoices/main.go", "invoices/hooks.go", "invoices/invoices_test.go")
	for _, block := range blocksOf(t, guide, "go") {
		require.Contains(t, code, block)
	}
	require.Equal(t, []string{
		"$ go run ./hello\n" + read("hello/output.txt"), "$ go run . 2>/dev/null\n" + read("invoices/output.txt"),
	}, blocksOf(t, guide, "console"))
	require.Equal(t, []string{read("invoices/testdata/pay.txt")}, blocksOf(t, guide, "text"))
}

// TestHooksGuide checks that the Go code in docs/hooks.md is the code of examples, and its JSON the
// input, results and records of hook workflows.
func TestHooksGuide(t *testing.T) {
	t.Parallel()
	var programs strings.Builder
	for _, name := range []string{"guardrail/main.go", "custom/main.go", "refunds/desk.go"} {
		program, err := os.ReadFile("../../examples/" + name)
		require.NoError(t, err)
		programs.Write(program)
	}
	for _, block := range blocksOf(t, "../../docs/hooks.md", "go") {
		require.Contains(t, programs.String(), block)
	}
	seen := map[string]event.Event{}
	for _, block := range blocksOf(t, "../../docs/hooks.md", "json") {
		switch {
		case strings.HasPrefix(block, `{"hook"`):
			var in hook.Request
			readWhole(t, block, &in)
			e, err := in.Decode()
			require.NoError(t, err, block)
			require.Equal(t, harness.JSON(t, in.Event), harness.JSON(t, e))
			seen[e.EventType()] = e
		case strings.Contains(block, `"outcome"`):
			var decided event.Interception
			readWhole(t, block, &decided)
		default:
			var verdict hook.Verdict
			readWhole(t, block, &verdict)
			answer, err := verdict.Read(event.MessageEvent{CreatedBy: event.CreatedByUser, ThreadID: "t1"})
			require.NoError(t, err, block)
			require.NotEqual(t, event.OutcomePassed, answer.Outcome)
		}
	}
	require.Len(t, seen, 4, "a message, calls, a model call, an event of one's own")
}

// TestSubAgentsGuide checks that the Go code in docs/sub-agents.md is the code of an example, its
// YAML valid, and its JSON as viewers receive it.
func TestSubAgentsGuide(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("../../examples/research/main.go")
	require.NoError(t, err)
	for _, block := range blocksOf(t, "../../docs/sub-agents.md", "go") {
		require.Contains(t, string(program), block)
	}
	for _, block := range blocksOf(t, "../../docs/sub-agents.md", "yaml") {
		key := func(name string) string { return map[string]string{"OPENAI_API_KEY": "test"}[name] }
		c, err := config.Parse("threadmill.yaml", []byte(block), "", config.Env(key))
		require.NoError(t, err, block)
		require.Contains(t, c.Agents[0].Tools, builtin.CallAgent)
	}
	for _, block := range blocksOf(t, "../../docs/sub-agents.md", "json") {
		for line := range strings.Lines(block) {
			var e event.AgentEvent
			readWhole(t, line, &e)
			require.Equal(t, builtin.CallAgent, e.ToolName)
		}
	}
}

// TestKnowledgeGuide checks that the Go code in docs/knowledge.md is the code of an example.
func TestKnowledgeGuide(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("../../examples/rag/main.go")
	require.NoError(t, err)
	for _, block := range blocksOf(t, "../../docs/knowledge.md", "go") {
		require.Contains(t, string(program), block)
	}
}

// readWhole decodes JSON with known fields only, and checks that encoding it again changes nothing.
func readWhole[T any](t *testing.T, block string, into *T) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(block))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(into), block)
	require.JSONEq(t, block, harness.JSON(t, into))
}
