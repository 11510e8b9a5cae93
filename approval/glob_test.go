package approval

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob string
		yes  []string
		no   []string
	}{
		{"git status", []string{"git status"}, []string{"git status ", "git  status", "Git status", "git\tstatus", "git statu", ""}},
		{"git status*", []string{"git status", "git status -s", "git status --porcelain=v2", "git status 100%"}, []string{
			"git status; rm -rf /", "git status;rm", "git status\nrm", "git status\r\nrm", "git status $(x)", "git status `x`", "git status && rm",
			"git status & rm", "git status | sh", "git status > f", "git status < f", "git status 'a'", `git status "a"`, `git status \`,
			"git status {a}", "git status [a]", "git status (a)", "git status !1", "git status #", "git status ~", "git status *", "git status ?",
			"git status ^x", "git status src/a", "git status\x00", "git status\x7f", "git status\t-s", "git status\u00a0-s", "git status \u202e",
			"git status\u2028rm", "git status\uff1brm", "git status\u037erm", "GIT STATUS", "git stash", " git status",
		}},
		{"*", []string{"", "a", "é ü 漢字 ٣", "a-b_c.d=e:f,g+h%i@j"}, []string{"a/b", "a\nb", "e\u0301", "\U0001f600", "a\ufffd", "a\xff"}},
		{"**", []string{"", "a", "a/b", "/", "/a/b c"}, []string{"a;b", "/a/../b", "..", "../a", "a/..", "~/a", "a\nb"}},
		{"***", []string{"a/b"}, []string{"a|b"}},
		{"/desk/docs/**", []string{"/desk/docs/", "/desk/docs/a.md", "/desk/docs/a/b", "/desk/docs/./a", "/desk/docs/a..b", "/desk/docs/...", "/desk/docs/.git"}, []string{
			"/desk/docs", "/desk/docs/../x", "/desk/docs/a/../../x", "/desk/docs/..", "/desk/docs/a/..", "/desk/docsx/a", "/desk/Docs/a",
			"/desk/docs/%2e%2e/x", "/desk/docs/%2E./x", "/desk/docs/..%2fx", "/desk/docs/%252e%252e/x", "/desk/docs/%c0%ae%c0%ae/x", "/desk/docs/a%00b",
			"/desk/docs/a\\..\\b", "/desk/docs/\u2024\u2024/x", "/desk/docs/\uff0e\uff0e/x", "/desk/d\u043ecs/a", "/etc/passwd", "x/desk/docs/a",
		}},
		{"/desk/*/a", []string{"/desk/x/a", "/desk//a"}, []string{"/desk/x/y/a", "/desk/../a", "/desk/x/aa"}},
		{"../*", nil, []string{"../a", "../", "a"}},
		{"../a", []string{"../a"}, []string{"../b"}},
		{"cat *", []string{"cat a", "cat a..b", "cat v1..v2", "cat ...", "cat a...b"}, []string{"cat ..", "cat ../a", "cat a ..", "cat --dir=..", "cat -I..", "cat a..", "cat ..a", "cat a:.."}},
		{"go test ./...*", []string{"go test ./...", "go test ./... -run X"}, []string{"go test ./..", "go test ./.../.."}},
		{"a?b", []string{"a?b"}, []string{"axb"}},
		{"a?*", []string{"a?", "a?b"}, []string{"ab", "axb"}},
		{"a[bc]*", []string{"a[bc]", "a[bc]d"}, []string{"ab", "ac"}},
		{`a\*`, []string{`a\`, `a\b`}, []string{"a*", "ab"}},
		{"a.b*", []string{"a.b"}, []string{"axb"}},
		{"(a|b)+*", []string{"(a|b)+"}, []string{"a", "ab"}},
		{"*a*b*", []string{"ab", "xaxbx", "aabb"}, []string{"ba", "a/b"}},
		{"x*é", []string{"xé"}, []string{"xe\u0301"}},
		{"", []string{""}, []string{"a"}},
		{"a\xff*", nil, []string{"a\xff", "a\ufffd"}},
		{"a\ufffd*", []string{"a\ufffd"}, []string{"a\xff"}},
		{"\xff", []string{"\xff"}, nil},
	} {
		for _, value := range c.yes {
			require.NoError(t, match(c.glob, value), "%q covers %q", c.glob, value)
		}
		for _, value := range c.no {
			require.Error(t, match(c.glob, value), "%q does not cover %q", c.glob, value)
		}
	}
}

func TestGlobBounds(t *testing.T) {
	require.ErrorContains(t, match(strings.Repeat("a", maxGlob)+"*", "a"), "at most 1024 bytes")
	require.ErrorContains(t, match(strings.Repeat("**a", maxWildcards+1), "a"), "20 wildcards")
	require.ErrorContains(t, match("*", strings.Repeat("a", maxCovered+1)), "longer than 65536 bytes")
	require.NoError(t, match(strings.Repeat("**a", maxWildcards), strings.Repeat("a", maxWildcards)))
	long := strings.Repeat("a", maxCovered+1)
	require.NoError(t, match(long, long), "without a wildcard, any length will do")

	t.Run("the worst takes no time", func(t *testing.T) {
		start := time.Now()
		require.Error(t, match(strings.Repeat("*a", maxWildcards)+"*b", strings.Repeat("a", maxCovered)))
		require.Less(t, time.Since(start), 5*time.Second)
	})
}

// FuzzGlob: a match never widens. What is covered has the literal parts in their place, and
// between them nothing but what a wildcard stands for.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"git status*", "git status -s"},
		{"git status*", "git status; rm"},
		{"/desk/docs/**", "/desk/docs/a/b"},
		{"/desk/docs/**", "/desk/docs/../b"},
		{"*a*b*", "xxaxxbxx"},
		{"**", "a/b"},
		{"a?[b]*", "a?[b]c"},
		{"", ""},
		{"*", "\xff"},
		{"a\ufffd*", "a\xff"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, glob, value string) {
		covered := match(glob, value) == nil
		if !strings.Contains(glob, "*") {
			require.Equal(t, glob == value, covered)
			return
		}
		fits := utf8.ValidString(value) && utf8.ValidString(glob) && fitsSlowly(glob, value)
		if covered {
			require.True(t, fits, "%q must not cover %q", glob, value)
			for _, segment := range strings.FieldsFunc(value, func(r rune) bool { return r == '/' || r == ' ' || r == '=' || r == ':' }) {
				require.NotEqual(t, "..", segment)
			}
			return
		}
		if fits && !strings.Contains(value, "..") && !strings.Contains(value, "%") && len(glob) <= maxGlob && wildcards(glob) <= maxWildcards && len(value) <= maxCovered {
			t.Errorf("%q must cover %q", glob, value)
		}
	})
}

// fitsSlowly says what a glob is in another way: position by position.
func fitsSlowly(glob, value string) bool {
	// at[i] = the glob up to here fits the first i bytes of the value.
	at := make([]bool, len(value)+1)
	at[0] = true
	for glob != "" {
		stars := len(glob) - len(strings.TrimLeft(glob, "*"))
		next := make([]bool, len(value)+1)
		if stars == 0 {
			for i := range len(value) {
				next[i+1] = at[i] && value[i] == glob[0]
			}
			at, glob = next, glob[1:]
			continue
		}
		for i := 0; i <= len(value); i++ {
			if !at[i] {
				continue
			}
			next[i] = true
			for j := i; j < len(value); {
				r, size := utf8.DecodeRuneInString(value[j:])
				if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.=:,+%@ ", r) && (stars == 1 || r != '/') {
					break
				}
				j += size
				next[j] = true
			}
		}
		at, glob = next, glob[stars:]
	}
	return at[len(value)]
}
