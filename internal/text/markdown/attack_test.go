package markdown_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/threadmill/threadmill/internal/text/markdown"
)

// attacks are texts that cost more than their size, at most size bytes each.
func attacks(size int) map[string]string {
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	rows := func(n int) string {
		return strings.Repeat("|a", n) + "\n" + strings.Repeat("|-", n) + "\n" + strings.Repeat("|\n", (size-4*n)/2)
	}
	ordinals := func() string {
		var out strings.Builder
		for n := 1; out.Len() < size-n-1; n++ {
			out.WriteString(strings.Repeat("`", n) + "a")
		}
		return out.String()
	}
	return map[string]string{
		"table":                rows(size / 8),
		"narrow table":         rows(2),
		"many tables":          fill("|a|b|c|d|\n|-|-|-|-|\n|\n|\n|\n|\n\n"),
		"escaped cells":        "|a\n|-\n" + fill("|`\\|`\n"),
		"quotes":               fill("> "),
		"quoted lines":         fill(strings.Repeat("> ", 60) + "a\n"),
		"blank lines":          strings.Repeat("> ", size/4) + "a\n" + strings.Repeat("\n", size/4),
		"lists":                fill("- "),
		"blank lines in lists": strings.Repeat("- ", size/4) + "a\n" + strings.Repeat("\n", size/2),
		"lists by depth":       strings.Repeat(strings.Repeat("- ", 100)+"a\n\n", size/203),
		"open emphasis":        fill("*a "),
		"closed emphasis":      fill("a* "),
		"both emphasis":        fill("*a_ "),
		"mixed emphasis":       fill("*a **a _a __a ~~a "),
		"nested emphasis":      strings.Repeat("*a ", size/6) + strings.Repeat("b* ", size/6),
		"intraword":            fill("a**b"),
		"brackets":             fill("["),
		"closed brackets":      strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"links":                fill("[a](b)"),
		"nested links":         strings.Repeat("[a", size/6) + strings.Repeat("](b)", size/6),
		"open links":           fill("[a]("),
		"open titles":          fill(`[a](b "`),
		"images":               fill("![[]()"),
		"references":           "[a]: https://e.example/" + strings.Repeat("x", size/2) + "\n\n" + strings.Repeat("[a] ", size/8),
		"definitions":          fill("[a]: b\n"),
		"open definitions":     fill("[a]:\n"),
		"reference labels":     fill("[" + strings.Repeat("a", 900) + "][b]"),
		"code spans":           ordinals(),
		"open code":            fill("`a``"),
		"html":                 fill("<a "),
		"html attributes":      fill(`<a b="`),
		"html attributes 2":    "<a " + fill("b='c' "),
		"comments":             fill("<!--"),
		"declarations":         fill("<!A"),
		"instructions":         fill("<?"),
		"cdata":                fill("<![CDATA["),
		"html blocks":          fill("<div>\n\n"),
		"autolinks":            fill("<a:"),
		"urls":                 fill("http://a.b/( "),
		"urls in one":          fill("*http://a.b/"),
		"www":                  fill("www.a.b "),
		"mails":                fill("a@b.c "),
		"mail":                 fill("a*a") + "@b.c",
		"mails without end":    fill("_a.a@"),
		"parentheses":          "http://a.b/" + fill("("),
		"closing":              "http://a.b/" + fill(")"),
		"entities":             fill("&amp;"),
		"entity":               fill("&a"),
		"escapes":              fill(`\*`),
		"invisible":            fill("\u202e"),
		"control":              fill("\x1b"),
		"fences":               fill("```go\n```\n"),
		"unknown fences":       fill("```x.y\n```\n"),
		"open fences":          fill("~~~~go\n"),
		"headings":             fill("# a\n"),
		"setext":               fill("a\n=\n"),
		"breaks":               fill("a\\\n"),
		"tabs":                 fill("\t"),
		"tabbed lists":         fill("-\ta\n"),
		"numbers":              fill("1. "),
		"numbered lines":       fill("1.\n"),
		"task boxes":           fill("- [ ] a\n"),
		"spaces":               "a" + fill(" ") + "a",
		"rules":                fill("* * *\n"),
	}
}

// allocated returns what a function allocates, in MB. What it holds at any time is less.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

func depth(nodes []markdown.Node) int {
	deepest := 0
	for _, n := range nodes {
		deepest = max(deepest, 1+depth(n.Children))
	}
	return deepest
}

// TestRenderPlain: what exceeds a limit is whole, as text.
func TestRenderPlain(t *testing.T) {
	table := "|a" + strings.Repeat("|a", 1200) + "|\n" + strings.Repeat("|-", 1201) + "|\n" + strings.Repeat("|b|\n", 40)
	got := outline(markdown.Render("before *x*\n\n" + table + "\n*y* after"))
	assert.True(t, strings.HasPrefix(got, "[p before [em x]]\n[p |a|a"), got[:40])
	assert.True(t, strings.HasSuffix(got, "|b|[br ]\n|b|]\n[p [em y] after]\n"), got[len(got)-40:])
	assert.NotContains(t, got, "[t")
	assert.Equal(t, 40, strings.Count(got, "|b|"))

	long := strings.Repeat("a *b* <i>\n\n", 6000)
	assert.Equal(t, "[pre "+long+"]", outline(markdown.Render(long)))
	marks := strings.Repeat("a *b* ", 5000)
	assert.Equal(t, "[pre "+marks+"]", outline(markdown.Render(marks)))
	nested := strings.Repeat("> ", 100) + "x"
	assert.Equal(t, strings.Repeat("> ", 100-32)+"x", strings.Trim(strings.ReplaceAll(outline(markdown.Render(nested)), "[blockquote \n", ""), "[p]\n "))
	links := "[a]: https://e.example/" + strings.Repeat("x", 20_000) + "\n\n" + strings.Repeat("[a] ", 1000)
	assert.Equal(t, "[pre "+links+"]", outline(markdown.Render(links)))
	code := strings.Repeat("return 1\n", 3000)
	assert.Equal(t, "[pre [code "+code+"]]\n", outline(markdown.Render("```go\n"+code+"```")))
}

func FuzzRender(f *testing.F) {
	for _, source := range attacks(2000) {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		var got []markdown.Node
		if mb := allocated(func() { got = markdown.Render(source) }); mb > 256 {
			t.Errorf("allocated %d MB", mb)
		}
		if deepest := depth(got); deepest > 70 {
			t.Errorf("%d elements deep", deepest)
		}
	})
}
