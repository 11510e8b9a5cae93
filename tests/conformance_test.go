package tests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// row is a line of a table of docs/conformance.md.
type row struct {
	id, text, state string
	tests           []string
}

// States of a row. A row that comes later names what it comes with.
const (
	stateDone        = "done"
	stateThisRelease = "this release"
	stateLater       = "later: "
)

var (
	rowID    = regexp.MustCompile(`^(S[0-4]-[A-Za-z0-9_]+|X[0-9]+)$`)
	idInName = regexp.MustCompile(`\b(S[0-4][-_][A-Za-z0-9_]+|X[0-9]+)\b`)
	numbered = regexp.MustCompile(`^(S[0-4]-T|S[0-4]-A|S[0-4]-|X)([0-9]+)$`)
)

// lists has the number of rows of each kind.
var lists = map[string]int{
	"S0-": 43, "S0-T": 6, "S1-": 38, "S2-": 73, "S3-": 61, "S3-A": 6, "S4-": 109, "S4-T": 22, "X": 16,
}

// namedRows is the number of rows of S3 with a name instead of a number.
const namedRows = 32

func TestConformance(t *testing.T) {
	text, err := os.ReadFile("../docs/conformance.md")
	require.NoError(t, err)
	rows, err := readRows(string(text))
	require.NoError(t, err)
	t.Run("every row stands there once", func(t *testing.T) {
		require.Empty(t, missingRows(rows, lists, namedRows))
	})
	t.Run("what is done has a test that says so, and nothing else has one", func(t *testing.T) {
		sources, err := readTests(os.DirFS(".."))
		require.NoError(t, err)
		require.Contains(t, sources.folders, "TestConformance", "the sources of tests are found")
		require.Empty(t, sources.unproved(rows))
	})
	states := map[string]int{}
	for _, r := range rows {
		states[r.state]++
	}
	for _, state := range slices.Sorted(maps.Keys(states)) {
		t.Logf("%d %s", states[state], state)
	}
}

// TestConformanceIsWatched: a row without a proof is found.
func TestConformanceIsWatched(t *testing.T) {
	const head = "| row | what holds | state | test |\n|---|---|---|---|\n"
	for name, tt := range map[string]struct{ table, want string }{
		"unknown state": {"| S0-01 | it holds | soon | |", `row S0-01: state "soon"`},
		"no such id":    {"| S9-01 | it holds | done | |", `row "S9-01"`},
		"no theme":      {"| S0-01 | it holds | later: | |", `row S0-01: state "later:"`},
		"short":         {"| S0-01 | it holds |", "4 cells"},
		"no phrase":     {"| S0-01 |  | done | |", "says nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readRows(head + tt.table)
			require.ErrorContains(t, err, tt.want)
		})
	}
	rows, err := readRows(head + "| S0-01 | one | done | `TestOne`, `TestTwo/S0-01` |\n| S0-03 | three | later: more | |\n| S0-03 | again | this release | |\n| S3-name | named | done | |")
	require.NoError(t, err)
	require.Equal(t, []string{"TestOne", "TestTwo/S0-01"}, rows[0].tests)
	require.Equal(t, []string{"S0-02 is missing", "S0-03 stands there twice", "2 rows have names instead of numbers, 1 expected"},
		missingRows(append(rows, row{id: "S3-other"}), map[string]int{"S0-": 3}, 1))
	sources := testSources{
		folders: map[string][]string{"TestOne": {"store"}, "TestTwo": {"tests", "llm"}},
		names:   map[string]map[string]bool{"S0-01": {"llm": true}},
	}
	require.Equal(t, []string{
		"S0-01: nothing in TestOne's folder has the row in its name",
		"S3-name: done, but no test is named",
	}, sources.unproved(rows))
	sources.names["S0-03"] = map[string]bool{"llm": true}
	require.Contains(t, sources.unproved(rows), "S0-03: later: more, but a test in llm has the row in its name")
	rows[0].tests = []string{"TestGone"}
	require.Contains(t, sources.unproved(rows), "S0-01: there is no test TestGone")
}

// readRows reads the tables of a Markdown text.
func readRows(text string) ([]row, error) {
	var rows []row
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| row |") {
			continue
		}
		r, err := readRow(line)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func readRow(line string) (row, error) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 4 {
		return row{}, fmt.Errorf("a row has 4 cells, this one %d: %s", len(cells), line)
	}
	r := row{id: strings.TrimSpace(cells[0]), text: strings.TrimSpace(cells[1]), state: strings.TrimSpace(cells[2])}
	theme, later := strings.CutPrefix(r.state+" ", stateLater)
	switch {
	case !rowID.MatchString(r.id):
		return row{}, fmt.Errorf("row %q has no id of a list", r.id)
	case r.text == "":
		return row{}, fmt.Errorf("row %s says nothing", r.id)
	case later && strings.TrimSpace(theme) != "", r.state == stateDone, r.state == stateThisRelease:
	default:
		return row{}, fmt.Errorf("row %s: state %q is none of done, this release, later: theme", r.id, r.state)
	}
	for name := range strings.SplitSeq(cells[3], ",") {
		if name = strings.Trim(name, " `"); name != "" {
			r.tests = append(r.tests, name)
		}
	}
	return r, nil
}

// missingRows compares rows with the lengths of the lists.
func missingRows(rows []row, lists map[string]int, named int) []string {
	var found []string
	seen, names := map[string]int{}, 0
	for _, r := range rows {
		if seen[r.id]++; seen[r.id] == 2 {
			found = append(found, r.id+" stands there twice")
		}
		if !numbered.MatchString(r.id) {
			names++
		}
	}
	for list, n := range lists {
		form := list + "%02d"
		if list == "X" || strings.HasSuffix(list, "T") || strings.HasSuffix(list, "A") {
			form = list + "%d"
		}
		for i := range n {
			if id := fmt.Sprintf(form, i+1); seen[id] == 0 {
				found = append(found, id+" is missing")
			}
		}
	}
	slices.Sort(found)
	if names != named {
		found = append(found, fmt.Sprintf("%d rows have names instead of numbers, %d expected", names, named))
	}
	return found
}

// testSources has the tests of the source tree.
type testSources struct {
	// folders of each test function, by its name.
	folders map[string][]string

	// names has, for each row, the folders with a test that has it in its name.
	names map[string]map[string]bool
}

// unproved lists the rows that are done without a test that proves it, and those that come later
// though a test has them in its name.
func (s testSources) unproved(rows []row) []string {
	var found []string
	for _, r := range rows {
		if folders := slices.Sorted(maps.Keys(s.names[r.id])); strings.HasPrefix(r.state, stateLater) && len(folders) > 0 {
			found = append(found, fmt.Sprintf("%s: %s, but a test in %s has the row in its name", r.id, r.state, folders[0]))
		}
		if r.state != stateDone {
			continue
		}
		if len(r.tests) == 0 {
			found = append(found, r.id+": done, but no test is named")
		}
		for _, test := range r.tests {
			name, _, _ := strings.Cut(test, "/")
			folders, ok := s.folders[name]
			switch {
			case !ok:
				found = append(found, r.id+": there is no test "+name)
			case !s.stands(r.id, folders):
				found = append(found, r.id+": nothing in "+name+"'s folder has the row in its name")
			}
		}
	}
	return found
}

// stands reports whether a row is in the name of a test in one of the folders, or of a suite that
// may run there.
func (s testSources) stands(id string, folders []string) bool {
	for folder := range s.names[id] {
		if slices.Contains(folders, folder) || forTests(folder) {
			return true
		}
	}
	return false
}

// readTests reads the tests of a tree: test files, and packages for tests.
func readTests(tree fs.FS) (testSources, error) {
	s := testSources{folders: map[string][]string{}, names: map[string]map[string]bool{}}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		folder := path.Dir(name)
		switch {
		case err != nil:
			return err
		case path.Base(folder) == "transcripts" && strings.HasSuffix(name, ".txt"):
			return s.readTranscript(tree, name)
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || path.Base(folder) == "testdata" && entry.Name() != "transcripts"):
			return fs.SkipDir
		case entry.Name() == "conformance_test.go":
			// The rows in this file are examples.
			s.folders["TestConformance"] = []string{folder}
			return nil
		case strings.Contains(name, "/testdata/"):
			return nil
		case strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, ".go") && forTests(folder):
			return s.read(tree, name, folder)
		}
		return nil
	})
	return s, err
}

func (s testSources) read(tree fs.FS, name, folder string) error {
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
				s.folders[n.Name.Name] = append(s.folders[n.Name.Name], folder)
				s.note(strings.TrimPrefix(n.Name.Name, "Test"), folder)
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				s.note(n.Value, folder)
			}
		}
		return true
	})
	return nil
}

// readTranscript reads the cases of a transcript, which are subtests of its package.
func (s testSources) readTranscript(tree fs.FS, name string) error {
	text, err := fs.ReadFile(tree, name)
	for line := range strings.Lines(string(text)) {
		if test, ok := strings.CutPrefix(line, "subtest "); ok {
			s.note(strings.ReplaceAll(test, "_", " "), path.Dir(path.Dir(path.Dir(name))))
		}
	}
	return err
}

// note records the rows in a name: S0-01, or S0_01_Why in the name of a function.
func (s testSources) note(name, folder string) {
	for _, id := range idInName.FindAllString(name, -1) {
		if list, rest, ok := strings.Cut(id, "_"); ok && len(list) == 2 {
			id = list + "-" + rest
		}
		short, _, _ := strings.Cut(id, "_")
		for _, id := range []string{id, short} {
			if s.names[id] == nil {
				s.names[id] = map[string]bool{}
			}
			s.names[id][folder] = true
		}
	}
}
