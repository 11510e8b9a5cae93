package console

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/threadmill/threadmill/internal/text/term"
)

// written are the complete lines, a line of dashes, and the rest.
func written(f *flow, width int, texts ...term.Text) string {
	var out strings.Builder
	for _, text := range texts {
		for _, line := range f.add(text, width) {
			out.WriteString(line.String() + "\n")
		}
	}
	return out.String() + "---\n" + f.open().String()
}

func says(text string) term.Text { return term.Text{{Style: term.Prose, Text: text}} }

var (
	heading = term.Text{{Style: term.Cyan, Text: "demo › "}}
	end     = term.Text{{Style: term.Prose}}
	lineEnd = term.Text{{Text: "\n"}}
)

func TestLines(t *testing.T) {
	f := &flow{}
	assert.Equal(t, "one\n---\ntwo", written(f, 80, term.Text{{Text: "one\ntw"}, {Style: term.Dim, Text: "o"}}))
	assert.Equal(t, "two three\n\nfour\n---\n", written(f, 80, term.Text{{Text: " three\n\nfour\n"}}))
}

func TestProseIsCompleteBlockByBlock(t *testing.T) {
	f := &flow{}
	assert.Equal(t, "---\ndemo › Some **bo", written(f, 80, heading, says("Some **bo")), "it may go on")
	assert.Equal(t, "---\ndemo › Some **bold** words.\n\n", written(f, 80, says("ld** words.\n\n")), "nobody knows whether the next line goes on")
	assert.Equal(t, "demo › Some bold words.\n---\n- a", written(f, 80, says("- a")))
	assert.Equal(t, "---\n- a\n- b\n", written(f, 80, says("\n- b\n")))
	assert.Equal(t, "\n• a\n• b\n---\n", written(f, 80, end), "a line without text divides blocks")
	assert.Equal(t, "next\n---\n", written(f, 80, term.Text{{Text: "next\n"}}))
}

func TestProseEndsItsLine(t *testing.T) {
	for name, text := range map[string]string{"with a line feed": "hello\n", "without": "hello"} {
		t.Run(name, func(t *testing.T) {
			f := &flow{}
			texts := []term.Text{heading, says(text), end}
			if name == "without" {
				texts = append(texts, lineEnd)
			}
			assert.Equal(t, "demo › hello\nnext\n---\n", written(f, 80, append(texts, term.Text{{Text: "next\n"}})...))
		})
	}
}

func TestCodeIsNotDivided(t *testing.T) {
	f := &flow{}
	assert.Equal(t, "---\n```go\na\n\nb\n", written(f, 80, says("```go\na\n\nb\n")))
	assert.Equal(t, "  a\n  \n  b\n---\nafter", written(f, 80, says("```\n\nafter")))
}

func TestProse(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"heading":                 {"# A title", "demo ›\nA title"},
		"numbers":                 {"3. a\n4. b", "demo ›\n3. a\n4. b"},
		"nested list":             {"- a\n  - b\n- c", "demo ›\n• a\n  • b\n• c"},
		"loose list":              {"- a\n\n  more\n- b", "demo ›\n• a\n\n  more\n• b"},
		"quote":                   {"> a\n> b", "demo ›\n│ a\n│ b"},
		"link":                    {"see [docs](https://example.com/x) and https://example.com", "demo › see docs (https://example.com/x)\nand https://example.com"},
		"script":                  {"<script>alert(1)</script> [x](javascript:alert(1))", "demo › <script>alert(1)</script>\n[x](javascript:alert(1))"},
		"table":                   {"| a | bb |\n|---|---|\n| ccc | d |", "demo ›\na   │ bb\n────┼───\nccc │ d"},
		"rule":                    {"a\n\n---\n\nb", "demo › a\n\n───\n\nb"},
		"line feeds":              {"a\nb", "demo › a\nb"},
		"long":                    {"one two three four five six seven eight nine ten", "demo › one two three four five six seven\neight nine ten"},
		"escape":                  {"\x1b[31mred\u202e", `demo › \u001b[31mred\u202e`},
		"entity":                  {"&#27;[31mred &#x202e;", `demo › \u001b[31mred \u202e`},
		"code in a line":          {"use `a  b`", "demo › use a  b"},
		"words of several styles": {"one two three four five six s**even**. eight", "demo › one two three four five six\nseven. eight"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for _, line := range prose(c.source, heading, 40) {
				lines = append(lines, strings.TrimRight(term.Render(line, false), " "))
			}
			assert.Equal(t, c.want, strings.Join(lines, "\n"))
		})
	}
}
