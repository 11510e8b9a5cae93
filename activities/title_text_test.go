package activities

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestModelTitle(t *testing.T) {
	for _, c := range []struct{ name, reply, title string }{
		{"as it is", "Trip to Lisbon", "Trip to Lisbon"},
		{"spaces", "\n\n  Trip \t to\u00a0Lisbon \n", "Trip to Lisbon"},
		{"quotes", `"Trip to Lisbon"`, "Trip to Lisbon"},
		{"curly quotes", "“Trip to ‘Lisbon’”", "Trip to ‘Lisbon’"},
		{"other quotes", "«Trip» „to“ 「Lisbon」", "Trip to Lisbon"},
		{"quotes inside", `Why "Lisbon" in "May"`, "Why Lisbon in May"},
		{"single quotes", "'Trip to Lisbon.'", "Trip to Lisbon"},
		{"apostrophes", "Lisbon's best trams and boats' times", "Lisbon's best trams and boats' times"},
		{"a period", "Trip to Lisbon.", "Trip to Lisbon"},
		{"a period behind the quotes", `"Trip to Lisbon".`, "Trip to Lisbon"},
		{"a period in the middle", "Node.js in Version 2.0", "Node.js in Version 2.0"},
		{"a question", "Where is Lisbon?", "Where is Lisbon?"},
		{"a label", "Title: Trip to Lisbon", "Trip to Lisbon"},
		{"a label in bold", "**Title:** *Trip* to __Lisbon__.", "Trip to Lisbon"},
		{"a heading", "## Trip to `Lisbon`", "Trip to Lisbon"},
		{"lists and quotations", "> 1. - Trip to Lisbon", "Trip to Lisbon"},
		{"a link", "[Trip](https://example.com/x_y) to ![Lisbon](a.png)", "Trip to Lisbon"},
		{"stars and lines that mean something", "2 * 3 of snake_case", "2 * 3 of snake_case"},
		{"several", "Trip to Lisbon\nA week away", "Trip to Lisbon"},
		{"what leads up to it", "Here is a title:\n\nTrip to Lisbon", "Trip to Lisbon"},
		{"fences", "```text\nTrip to Lisbon\n```", "Trip to Lisbon"},
		{"what the model thought", "<think>\nThey want\n\na trip.\n</think>\n\nTrip to Lisbon", "Trip to Lisbon"},
		{"thoughts without an end", "<think>\nThey want a trip", ""},
		{"other scripts", "リスボンへの旅行。", "リスボンへの旅行"},
		{"signs that nobody sees", "Trip\u202e to\u0007 Lisbon\xff", "Trip to Lisbon"},
		{"nothing", "", ""},
		{"nothing readable", "***\n—\n…", ""},
		{"twelve words", "one two three four five six seven eight nine ten eleven twelve", "one two three four five six seven eight nine ten eleven twelve"},
		{"an answer", "one two three four five six seven eight nine ten eleven twelve thirteen", ""},
		{"long words", strings.Repeat("wordwordword ", 8), strings.TrimSpace(strings.Repeat("wordwordword ", 6))},
	} {
		t.Run("S4-102 "+c.name, func(t *testing.T) { require.Equal(t, c.title, modelTitle(c.reply)) })
	}
}

func TestPlainTitle(t *testing.T) {
	person := func(text string) statement { return statement{"ann", text, true} }
	other := func(text string) statement { return statement{"bob", text, false} }
	for _, c := range []struct {
		name  string
		said  []statement
		title string
	}{
		{"what a person said", []statement{person("plan a trip")}, "plan a trip"},
		{"people come first", []statement{other("Hello, I am Bob"), person("hi")}, "hi"},
		{"without people", []statement{other("It is noon.")}, "It is noon"},
		{"mentions", []statement{person("@planner, @critic: plan a trip")}, "plan a trip"},
		{"a mention alone", []statement{person("@planner")}, "@planner"},
		{"a mention on a line of its own", []statement{person("@planner \nplan a trip")}, "@planner"},
		{"the first line that says something", []statement{person("---\n\nplan\na trip")}, "plan"},
		{"a colon at the end", []statement{person("Translate this:\nhello")}, "Translate this"},
		{"the first text that says something", []statement{person("?!"), person("plan a trip")}, "plan a trip"},
		{"nothing", []statement{person("?!"), other("…")}, ""},
		{
			"shortened",
			[]statement{person("Please plan a trip to Lisbon in May for four people who like trams, boats and fado.")},
			"Please plan a trip to Lisbon in May for four people who like trams, boats and",
		},
	} {
		t.Run("S4-103 "+c.name, func(t *testing.T) { require.Equal(t, c.title, plainTitle(c.said)) })
	}
}

func TestCutAtWord(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"one two", 7, "one two"},
		{"one two", 6, "one"},
		{"one two", 3, "one"},
		{"one two", 4, "one"},
		{"one, two", 5, "one"},
		{"one", 2, "on"},
		{"éé", 3, "é"},
		{"ééé", 1, ""},
	} {
		require.Equal(t, c.want, cutAtWord(c.s, c.n), "%q at %d", c.s, c.n)
	}
}

// FuzzTitle: any text of a model or a person becomes one short line.
func FuzzTitle(f *testing.F) {
	for _, s := range []string{"Trip to Lisbon", "# **Title:** \"x\".", "<think>a</think>b", "```\na\n```", "@a @b: c", strings.Repeat("é", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, title := range []string{modelTitle(s), plainTitle([]statement{{"ann", s, true}})} {
			require.True(t, utf8.ValidString(title))
			require.LessOrEqual(t, len(title), maxTitle)
			require.NotContains(t, title, "\n")
			require.Equal(t, strings.TrimSpace(title), title)
			require.True(t, title == "" || readable(title), "%q", title)
		}
	})
}
