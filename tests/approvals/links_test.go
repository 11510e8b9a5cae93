package approvals

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// files is a thread whose agent works on files below a directory, each of which needs approval.
type files struct {
	talk
	spy *redefined
	dir string
}

func newFiles(t *testing.T) files {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"docs/a", "docs/b", "secret/a", "secret/sub/x", "docs/deep/x"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	s := newRedefined("work", func(d *tool.Definition) { d.PathArguments = []string{"path"} })
	o := newOffice(t, harness.Options{Tools: []tool.Tool{s}, Agents: []agent.Agent{
		{Name: "clerk", Model: "openai/stand-in", Tools: []string{"work"}, WorkingDirectory: dir},
	}})
	return files{o.talk(t), s, dir}
}

// link creates or changes a link.
func (f files) link(target, name string) {
	f.t.Helper()
	at := filepath.Join(f.dir, name)
	if err := os.Remove(at); err != nil {
		require.ErrorIs(f.t, err, os.ErrNotExist)
	}
	require.NoError(f.t, os.Symlink(target, at))
}

func (f files) work(path string) string { return `use work {"path":"` + path + `"}` }

// grants approves the work on a path for the session.
func (f files) grants(path string) {
	f.t.Helper()
	posted, q := f.asks(f.work(path))
	f.decides(signals.DecideAccepted, granting(q))
	f.completes(posted)
	f.runsUnasked(f.work(path))
}

// TestLinksThatLeadElsewhere changes links after their approval.
func TestLinksThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	t.Run("before it runs", func(t *testing.T) {
		f := newFiles(t)
		f.link("docs/a", "current")
		posted, q := f.asks(f.work("current"))
		f.link("secret/a", "current")
		f.decides(signals.DecideAccepted, check.Approving(q))
		next := f.again(q)
		require.Contains(t, next.Reason, "what the call would work on has changed since it was approved")
		require.Equal(t, q.Arguments, next.Arguments)
		require.NotEqual(t, q.Digest, next.Digest)
		require.Empty(t, f.spy.Seen())
		f.decides(signals.DecideAccepted, check.Denying(next))
		f.completes(posted)
		require.Empty(t, f.spy.Seen())
	})
	for name, tc := range map[string]struct{ path, first, then, link string }{
		"a file":                         {"current", "docs/a", "secret/a", "current"},
		"a directory on the way":         {"way/a", "docs", "secret", "way"},
		"a link to nothing":              {"current", "docs/none", "secret/none", "current"},
		"a link to nothing, on the way":  {"way/a", "docs/none", "secret/none", "way"},
		"an absolute path":               {"", "docs/a", "secret/a", "current"},
		"where there was nothing before": {"new", "", "secret/a", "new"},
	} {
		t.Run("a grant: "+name, func(t *testing.T) {
			f := newFiles(t)
			if tc.path == "" {
				tc.path = filepath.Join(f.dir, tc.link)
			}
			if tc.first != "" {
				f.link(tc.first, tc.link)
			}
			f.grants(tc.path)
			f.link(tc.then, tc.link)
			f.denied(f.work(tc.path))
			require.Len(t, f.spy.Seen(), 2)
			if tc.first != "" {
				f.link(tc.first, tc.link)
				f.runsUnasked(f.work(tc.path))
			}
		})
	}
	t.Run("a grant: a path that has two readings by now", func(t *testing.T) {
		f := newFiles(t)
		f.grants("way/../docs/a")
		f.link("secret/sub", "way")
		f.runsUnasked(f.work("way/../docs/a"))
		require.Len(t, f.spy.Seen(), 2, "it does not run")
		require.Contains(t, f.lastShown(), "path: leads to one file by the links in it, and to another by its names alone")
	})
	t.Run("a link to a link", func(t *testing.T) {
		f := newFiles(t)
		f.link("docs/a", "second")
		f.link("second", "first")
		f.grants("first")
		f.link("secret/a", "second")
		f.denied(f.work("first"))
		require.Len(t, f.spy.Seen(), 2)
	})
}

// TestPatternsGoByWhatPathsLeadTo: a pattern does not cover links to other files.
func TestPatternsGoByWhatPathsLeadTo(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	f.link("../secret", "docs/out")
	f.link("../secret/sub", "docs/sub")
	f.link("docs", "in")
	f.link("docs/deep", "deep")
	posted, q := f.asks(f.work("docs/a"))
	d := check.Approving(q)
	d.Scope, d.Pattern = event.ScopePattern, map[string]string{"path": filepath.Join(f.dir, "docs") + "/**"}
	f.decides(signals.DecideAccepted, d)
	f.completes(posted)

	f.runsUnasked(f.work("docs/b"), f.work("in/b"), f.work("./docs/../docs/b"), f.work(filepath.Join(f.dir, "docs/b")))
	require.Len(t, f.spy.Seen(), 5)
	for name, path := range map[string]string{
		"up":                           "docs/../secret/a",
		"elsewhere":                    "secret/a",
		"through a link":               "docs/out/a",
		"to what is not there":         "docs/out/none",
		"the directory itself":         "docs",
		"a directory that begins so":   "docs-old/a",
		"encoded":                      "docs/%2e%2e/secret/a",
		"an absolute path":             "/etc/passwd",
		"up from the file system root": "docs/../../../../../../../../etc/passwd",
	} {
		t.Run(name, func(t *testing.T) {
			f := f
			f.t = t
			before := len(f.spy.Seen())
			f.denied(f.work(path))
			require.Len(t, f.spy.Seen(), before)
		})
	}
	for name, path := range map[string]string{
		"through a link, and then up": "docs/sub/../a",
		"up, for who goes by names":   "deep/../a",
		"below a file":                "docs/a/x/../../b",
	} {
		t.Run("nobody is asked: "+name, func(t *testing.T) {
			f := f
			f.t = t
			before := len(f.spy.Seen())
			f.runsUnasked(f.work(path))
			require.Len(t, f.spy.Seen(), before, "it does not run")
			require.Contains(t, f.lastShown(), "Tool parameter validation failed for work: path: ")
		})
	}
}

// TestShellIsLedElsewhere changes a link to the directory of an approved command.
func TestShellIsLedElsewhere(t *testing.T) {
	t.Parallel()
	o := newOffice(t, harness.Options{})
	f := files{talk: o.talk(t), dir: o.Shell}
	for _, name := range []string{"docs", "secret"} {
		require.NoError(t, os.Mkdir(filepath.Join(f.dir, name), 0o755))
	}
	f.link("docs", "current")
	const call = `use shell_cmd {"command":"echo made >> out","directory":"current"}`
	posted, q := f.asks(call)
	f.decides(signals.DecideAccepted, granting(q))
	f.completes(posted)
	f.runsUnasked(call)
	require.Equal(t, "made\nmade\n", check.Made(f.Harness, "docs/out"))
	f.link("secret", "current")
	f.denied(call)
	require.Empty(t, check.Made(f.Harness, "secret/out"))
}
