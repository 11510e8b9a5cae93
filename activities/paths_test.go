package activities

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/tool"
)

// newDesk returns a new working directory with links.
func newDesk(t *testing.T) string {
	t.Helper()
	parent, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	desk := filepath.Join(parent, "desk")
	for _, dir := range []string{"docs", "packages/x/src"} {
		require.NoError(t, os.MkdirAll(filepath.Join(desk, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(desk, "docs/a"), nil, 0o600))
	for link, target := range map[string]string{"deep": "packages/x/src", "beside": "docs", "dangling": "docs/none", "ring": "ring", "broken": "docs/a/x"} {
		require.NoError(t, os.Symlink(target, filepath.Join(desk, link)))
	}
	return desk
}

func TestLeadsTo(t *testing.T) {
	desk := newDesk(t)
	here := placeOf(desk)
	const (
		twice   = `leads to one file by the links in it, and to another by its names alone; write it without ".." behind a link`
		notADir = "cannot be followed (not a directory); write a path that exists, or whose folder exists"
	)
	for name, c := range map[string]struct{ path, want, problem string }{
		"a file":                        {path: "docs/a", want: "desk/docs/a"},
		"nothing written":               {path: "", want: "desk"},
		"the directory":                 {path: ".", want: "desk"},
		"an absolute path":              {path: filepath.Join(desk, "docs/a"), want: "desk/docs/a"},
		"an absolute path with ..":      {path: desk + "/docs/../docs/a", want: "desk/docs/a"},
		"a file that is yet to be":      {path: "docs/new", want: "desk/docs/new"},
		"a folder that is yet to be":    {path: "new/file", want: "desk/new/file"},
		"up and down":                   {path: "docs/../docs/a", want: "desk/docs/a"},
		"up from what is yet to be":     {path: "new/../docs/a", want: "desk/docs/a"},
		"up and out":                    {path: "../secret", want: "secret"},
		"through a link":                {path: "deep/f", want: "desk/packages/x/src/f"},
		"up from a link to a neighbour": {path: "beside/../docs/a", want: "desk/docs/a"},
		"a link to nothing":             {path: "dangling", want: "desk/docs/none"},

		"out behind a link":                {path: "deep/../../secret", problem: twice},
		"out behind a link, absolute":      {path: desk + "/deep/../../secret", problem: twice},
		"up from a link to nothing":        {path: "dangling/../a", problem: twice},
		"up from a link that leads astray": {path: "broken/../docs/a", problem: notADir},
		"below a file":                     {path: "docs/a/x", problem: notADir},
		"below a file, and up":             {path: desk + "/docs/a/x/../../b", problem: notADir},
		"round and round":                  {path: "ring/f", problem: "cannot be followed (more than 100 links)"},
		"no name of a file":                {path: "docs/\x00", problem: "cannot be followed (invalid argument)"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := here.leadsTo(c.path)
			if c.problem != "" {
				require.ErrorContains(t, err, c.problem)
				require.NotContains(t, err.Error(), desk, "the model is not told where it works")
				return
			}
			require.NoError(t, err)
			require.Equal(t, filepath.Join(filepath.Dir(desk), c.want), got)
		})
	}
}

// TestLostPlace: a working directory that cannot be resolved.
func TestLostPlace(t *testing.T) {
	desk := newDesk(t)
	lost := placeOf(filepath.Join(desk, "docs/a/x"))
	require.Equal(t, "?unresolved: "+desk+"/docs/a/x", lost.dir)
	require.EqualError(t, lost.lost, "cannot be followed (not a directory)")

	d := tool.Definition{Name: "write", PathArguments: []string{"from", "to"}}
	paths, err := lost.pathsOf(d, `{"from":"`+desk+`/docs/a","other":"x"}`)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"from": desk + "/docs/a"}, paths)
	_, err = lost.pathsOf(d, `{"from":"`+desk+`/docs/a","to":"b"}`)
	require.EqualError(t, err, "Tool parameter validation failed for write: to: begins in the working directory, "+
		"which cannot be followed (not a directory); write an absolute path")
}
