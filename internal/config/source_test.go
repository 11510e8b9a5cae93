package config

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
)

// followed is a Source over a file, with a clock that the test moves.
type followed struct {
	*testing.T
	source *Source
	dir    string
	path   string
	log    bytes.Buffer
	clock  time.Time
}

func follow(t *testing.T, content string) *followed {
	t.Helper()
	f := &followed{T: t, dir: t.TempDir(), clock: time.Now()}
	f.path = filepath.Join(f.dir, "threadmill.yaml")
	f.write(f.path, content)
	var err error
	f.source, err = open(f.path, slog.New(slog.NewTextHandler(&f.log, nil)), func() time.Time { return f.clock },
		[]Option{Env(env("K", "k"))})
	require.NoError(t, err)
	return f
}

// write gives all versions the same time, as a coarse file system may.
func (f *followed) write(path, content string) {
	f.Helper()
	require.NoError(f, os.WriteFile(path, []byte(content), 0o600))
	require.NoError(f, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
}

// later moves the clock past the next check and returns the default agent.
func (f *followed) later() agent.Agent {
	f.Helper()
	f.clock = f.clock.Add(checkEvery)
	return f.now()
}

func (f *followed) now() agent.Agent {
	f.Helper()
	a, err := f.source.Agent(context.Background(), "default", "")
	require.NoError(f, err)
	return a
}

func (f *followed) logged(text string) int { return strings.Count(f.log.String(), text) }

const mistakes = "the configuration has mistakes"

func prompt(s string) string {
	return "agents:\n  - name: a\n    model: demo/demo\n    instructions: " + s + "\n"
}

func TestSourceFollowsTheFile(t *testing.T) {
	f := follow(t, prompt("one"))
	require.Equal(t, "one", f.now().Instructions)

	f.write(f.path, prompt("two"))
	require.Equal(t, "one", f.now().Instructions, "looked within the second")
	require.Equal(t, "two", f.later().Instructions)
	require.Equal(t, 1, f.logged("was read again"))

	f.later()
	require.Equal(t, 1, f.logged("was read again"), "read although nothing had changed")

	f.write(f.path, prompt("six"))
	require.Equal(t, "six", f.later().Instructions, "a change that keeps size and time")

	f.write(f.path, prompt("seven"))
	f.clock = f.clock.Add(-time.Hour)
	require.Equal(t, "seven", f.now().Instructions, "after the clock was set back")

	_, err := f.source.Agent(context.Background(), "default", "b")
	require.ErrorIs(t, err, agent.ErrUnknown)
	f.write(f.path, prompt("x")+"  - {name: B, model: demo/demo}\n")
	f.later()
	b, err := f.source.Agent(context.Background(), "other", "b")
	require.NoError(t, err)
	require.Equal(t, "B", b.Name)
}

func TestSourceKeepsTheLastGood(t *testing.T) {
	f := follow(t, prompt("good"))
	f.write(f.path, "agents:\n  - name: a\n    modle: demo/demo\n")
	for range 3 {
		require.Equal(t, "good", f.later().Instructions)
	}
	require.Equal(t, 1, f.logged(mistakes), f.log.String())
	require.Contains(t, f.log.String(), `:3:5: agents[0].modle: unknown field; did you mean`)

	f.write(f.path, "agents: []\n")
	require.Equal(t, "good", f.later().Instructions)
	require.Equal(t, 2, f.logged(mistakes), "another mistake is logged again")

	require.NoError(t, os.Remove(f.path))
	for range 3 {
		require.Equal(t, "good", f.later().Instructions)
	}
	require.Equal(t, 3, f.logged(mistakes), f.log.String())

	f.write(f.path, prompt("mended"))
	require.Equal(t, "mended", f.later().Instructions)
	require.Equal(t, 3, f.logged(mistakes), f.log.String())
}

func TestSourceFollowsInstructionsFiles(t *testing.T) {
	f := follow(t, prompt("inline"))
	file := filepath.Join(f.dir, "prompt.md")
	const refers = "agents: [{name: a, model: demo/demo, instructionsFile: prompt.md}]\n"

	f.write(f.path, refers)
	require.Equal(t, "inline", f.later().Instructions, "the file is not there yet")
	require.Equal(t, 1, f.logged(mistakes))

	f.write(file, "one")
	require.Equal(t, "one", f.later().Instructions)
	f.write(file, "two")
	require.Equal(t, "two", f.later().Instructions)
	require.Equal(t, []string{f.path, file}, f.source.Config().Files)

	f.write(file, "")
	require.Equal(t, "two", f.later().Instructions)
	require.Equal(t, 2, f.logged(mistakes))
	f.write(file, "three")
	require.Equal(t, "three", f.later().Instructions)
}

func TestSourceDoesNotChangeProviders(t *testing.T) {
	const local = "models:\n  local: {type: openai, baseURL: http://127.0.0.1:1/v1}\n"
	f := follow(t, local+prompt("one"))
	models, tools := f.source.Config().Models, f.source.Config().Tools

	f.write(f.path, local+"tools: {shell_cmd: {timeout: 5s}}\n"+prompt("two"))
	require.Equal(t, "two", f.later().Instructions, "the agent does not depend on what needs a restart")
	require.Equal(t, 1, f.logged("restart to apply that"))
	require.Equal(t, tools, f.source.Config().Tools)

	f.write(f.path, local+"tools: {shell_cmd: {timeout: 5s}}\n"+prompt("three"))
	f.later()
	require.Equal(t, 1, f.logged("restart to apply that"), "said once")

	f.write(f.path, strings.Replace(local, ":1/", ":2/", 1)+strings.Replace(prompt("four"), "demo/demo", "local/x", 1))
	require.Equal(t, "three", f.later().Instructions)
	require.Contains(t, f.log.String(), `agent \"a\" uses provider \"local\", which is new or has changed: restart to use it`)

	f.write(f.path, local+strings.Replace(prompt("five"), "demo/demo", "local/x", 1))
	require.Equal(t, "local/x", f.later().Model, "the provider is as at the start")
	require.Equal(t, models, f.source.Config().Models)
}

// TestSourceDoesNotChangeHooks: an edit of them applies with a restart, and says so.
func TestSourceDoesNotChangeHooks(t *testing.T) {
	guard := func(queue string) string {
		return "hooks: [{name: guard, workflow: {type: Guard, taskQueue: " + queue + "}, filter: {agents: [a]}}]\n"
	}
	const restart = `msg="hooks have changed: restart to apply that"`
	f := follow(t, guard("one")+prompt("one"))
	hooks := f.source.Config().Hooks
	require.Len(t, hooks, 1)

	f.write(f.path, guard("one")+prompt("two"))
	require.Equal(t, "two", f.later().Instructions)
	require.Zero(t, f.logged("restart"), "the same hooks, read again: %s", f.log.String())

	f.write(f.path, guard("two")+prompt("three"))
	require.Equal(t, "three", f.later().Instructions, "the agents do not wait for the restart")
	require.Equal(t, hooks, f.source.Config().Hooks)
	require.Equal(t, 1, f.logged(restart), f.log.String())

	f.write(f.path, prompt("four"))
	require.Equal(t, "four", f.later().Instructions)
	require.Equal(t, hooks, f.source.Config().Hooks, "one that is gone from the file is asked until the restart")
	require.Equal(t, 1, f.logged(restart), "said once")

	f.write(f.path, "temporal: {staleAfter: 20s}\n"+prompt("five"))
	require.Equal(t, "five", f.later().Instructions)
	require.Zero(t, f.source.Config().StaleAfter)
	require.Equal(t, 1, f.logged("hooks, settings of Temporal have changed: restart to apply that"), f.log.String())

	f.write(f.path, guard("one")+prompt("six"))
	f.later()
	require.Equal(t, 2, f.logged("have changed: restart"), "all is as at the start again")
	f.write(f.path, guard("three")+prompt("seven"))
	f.later()
	require.Equal(t, 2, f.logged(restart))

	f.write(f.path, strings.Replace(guard("one"), "[a]", "[b]", 1)+prompt("eight"))
	require.Equal(t, "seven", f.later().Instructions, "mistakes in hooks are mistakes of the file")
	require.Contains(t, f.log.String(), `hooks[0].filter.agents[0]: unknown agent`)
}

// TestSourceDoesNotChangeTitles: so do they.
func TestSourceDoesNotChangeTitles(t *testing.T) {
	f := follow(t, "titleModel: demo/small\n"+prompt("one"))
	f.write(f.path, "titleModel: demo/large\n"+prompt("two"))
	require.Equal(t, "two", f.later().Instructions)
	require.Equal(t, "demo/small", f.source.Config().TitleModel)
	require.Equal(t, 1, f.logged("settings of titles have changed: restart to apply that"), f.log.String())
}

func TestSourceForMany(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.yaml")
	require.NoError(t, os.WriteFile(path, []byte(prompt("first")), 0o600))
	var mu sync.Mutex
	clock := time.Now()
	s, err := open(path, nil, func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		clock = clock.Add(checkEvery)
		return clock
	}, nil)
	require.NoError(t, err)
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 200 {
				if a, err := s.Agent(context.Background(), "", "A"); err != nil || a.Name != "a" {
					t.Errorf("got %v, %v", a, err)
				}
			}
		})
	}
	for _, text := range []string{"more", "and more", "last one"} {
		next := filepath.Join(dir, "next")
		require.NoError(t, os.WriteFile(next, []byte(prompt(text)), 0o600))
		require.NoError(t, os.Rename(next, path))
	}
	readers.Wait()
	a, err := s.Agent(context.Background(), "", "")
	require.NoError(t, err)
	require.Equal(t, "last one", a.Instructions)
}

func TestOpenRefusesMistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	_, err := Open(path, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("agents: []\n"), 0o600))
	_, err = Open(path, nil)
	var mistake *Error
	require.ErrorAs(t, err, &mistake)
	require.Equal(t, path, mistake.File)
	require.NoError(t, os.WriteFile(path, []byte(prompt("x")), 0o600))
	s, err := Open(path, nil)
	require.NoError(t, err)
	require.Len(t, s.Config().Agents, 1)
}

// TestSourceKeepsAgentsUnderTheirRules: approval rules and tools apply from the start on, so an agent or
// a tool with another name waits for the restart.
func TestSourceKeepsAgentsUnderTheirRules(t *testing.T) {
	file := func(agent, tool string) string {
		return "agents: [{name: " + agent + ", model: demo/demo, tools: [" + tool + "], instructions: " + agent + " " + tool + "}]\n" +
			"tools: {client: [{name: " + tool + "}]}\n" +
			"approvalRules: [{name: ask, agents: [" + agent + "], tools: [" + tool + "], effect: ask}]\n"
	}
	f := follow(t, file("clerk", "refund"))
	f.write(f.path, file("cashier", "refund"))
	require.Equal(t, "clerk refund", f.later().Instructions)
	require.Contains(t, f.log.String(), `approvalRules[0].agents[0]: unknown agent \"clerk\"`)
	f.write(f.path, file("clerk", "pay_back"))
	require.Equal(t, "clerk refund", f.later().Instructions)
	require.Contains(t, f.log.String(), `agents[0].tools[0]: unknown tool \"pay_back\"`)
}

// TestSourceWithAChain: a file with a fallback chain is followed, and what the chain consists of stays as it was at the start.
func TestSourceWithAChain(t *testing.T) {
	chain := func(content, second string) string {
		return "models:\n  both: {type: fallback, chain: [demo/demo, " + second + "]}\nagents:\n  - {name: a, model: both, instructions: " + content + "}\n"
	}
	f := follow(t, chain("one", "demo/verse"))
	f.write(f.path, chain("two", "demo/verse"))
	require.Equal(t, "two", f.later().Instructions, f.log)
	f.write(f.path, chain("three", "demo/other"))
	require.Equal(t, "three", f.later().Instructions, f.log)
	require.Equal(t, 1, f.logged("models have changed: restart"), f.log)

	f = follow(t, prompt("one"))
	f.write(f.path, chain("two", "demo/verse"))
	require.Equal(t, "one", f.later().Instructions)
	require.Equal(t, 1, f.logged(`fallback chain \"both\", which is new: restart to use it`), f.log)
}

// TestSourceRevokesKeys: a key that is taken out of the file, or expires, is no longer valid, whatever else is wrong with the file.
func TestSourceRevokesKeys(t *testing.T) {
	const list = "apiKeys:\n"
	key := func(name, more string) string {
		return fmt.Sprintf("  - {name: %s, hash: \"sha256:%064x\", roles: [admin]%s}\n", name, name, more)
	}
	f := follow(t, prompt("one")+list+key("ann", "")+key("bob", ""))
	names := func() (out []string) {
		f.later()
		for _, k := range f.source.APIKeys() {
			out = append(out, k.Name)
		}
		return out
	}
	require.Equal(t, []string{"ann", "bob"}, names())
	f.write(f.path, "agents: 7\n"+list+key("bob", "")+key("eve", ""))
	require.Equal(t, []string{"bob"}, names(), "a new key is not taken from a file with mistakes")
	require.Equal(t, "one", f.now().Instructions)
	f.write(f.path, "agents: 7\n"+list+key("bob", ", expires: 2020-01-01T00:00:00Z"))
	require.Equal(t, []string{"bob"}, names())
	require.Equal(t, 2020, f.source.APIKeys()[0].ExpiresAt.Year())
	f.write(f.path, "agents: 7\n"+list+"  - {name: carol}\n")
	require.Equal(t, []string{"bob"}, names(), "the list itself has a mistake")
	f.write(f.path, "agents: 7\n")
	require.Equal(t, []string{"bob"}, names(), "the list is not there")
	f.write(f.path, "agents: 7\napiKeys: []\n")
	require.Empty(t, names())
}
