package redact

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func all(t testing.TB) *Redactor {
	t.Helper()
	r, err := New(Config{Patterns: []Pattern{Cards(), Keys(), Emails(), {Name: "customer", Expression: `\bC-\d{4,}\b`}}})
	require.NoError(t, err)
	return r
}

func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a card", "My card is 4111111111111111.", "My card is [card]."},
		{"with spaces", "4111 1111 1111 1111", "[card]"},
		{"with hyphens and no-break spaces", "5555-5555-5555-4444 or 4111\u00a01111\u00a01111\u00a01111", "[card] or [card]"},
		{"with typographic hyphens and spaces", "4111\u20111111\u20111111\u20111111 or 4111\u202f1111\u202f1111\u202f1111", "[card] or [card]"},
		{"American Express", "3782 822463 10005", "[card]"},
		{"with its expiry", "4111 1111 1111 1111 12/28", "[card] 12/28"},
		{"after another number", "12 4111 1111 1111 1111", "12 [card]"},
		{"after a digit with which a shorter number has a check digit", "6 4111 1111 1111 1111", "[card]"},
		{"a fraction", "52.52000659999999 and 4.111111111111111", "52.52000659999999 and 4.111111111111111"},
		{"a key behind an escape", `{"log":"token:\nsk-` + strings.Repeat("a1", 12) + `"} and`, `{"log":"token:[key]"} and`},
		{"a key behind an underscore", "my_sk-" + strings.Repeat("a1", 12) + " and _AKIA" + strings.Repeat("A1", 8) + "_x", "my[key] and [key]x"},
		{"a key behind a tab", "\tsk-" + strings.Repeat("a1", 12), "\t[key]"},
		{"a card behind an escape", `log: "\u00094111111111111111" and "\t4111111111111111"`, `log: "\u0009[card]" and "\t[card]"`},
		{"a card behind digits that are no escape", `u00094111111111111111`, `u00094111111111111111`},
		{"a key of Threadmill", "tmk_abc_" + strings.Repeat("A1", 20), "[key]"},
		{"a wrong check digit", "4111 1111 1111 1112", "4111 1111 1111 1112"},
		{"a time in nanoseconds", "1764155123456789012", "1764155123456789012"},
		{"a part of a longer number", "994111111111111111199", "994111111111111111199"},
		{"an address", "Write to Ann.O'Hara+x@mail.example.co.uk!", "Write to [email]!"},
		{"an address of another script", "grüße an jürgen@bücher.example", "grüße an [email]"},
		{"no address", "me @ home, a@b", "me @ home, a@b"},
		{"a token", "Authorization: Bearer abcdefghijklmnop.qrst", "Authorization: [key]"},
		{"keys of providers", "sk-" + strings.Repeat("a1", 12) + " AKIA" + strings.Repeat("A1", 8) + " ghp_" + strings.Repeat("a1", 12), "[key] [key] [key]"},
		{"a private key", "a\n-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nabc\n-----END RSA PRIVATE KEY-----\nb", "a\n[key]\nb"},
		{"a private key that is cut off", "-----BEGIN PRIVATE KEY-----\nMIIE", "[key]"},
		{"a password in a URL", "postgres://ann:secret@db/app", "postgres[key]db/app"},
		{"an own pattern", "customers C-1234 and XC-1234", "customers [customer] and XC-1234"},
		{"overlapping matches", "C-4111111111111111@mail.example", "[email]"},
		{"a JSON document", `{"card": 4111111111111111, "note":"C-1234",  "at":1764155123456}`, `{"card": "[card]", "note":"[customer]",  "at":1764155123456}`},
		{"no JSON document", `{"card": 4111111111111111`, `{"card": [card]`},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := all(t)
			got := r.Text(c.in)
			assert.Equal(t, c.want, got)
			assert.Equal(t, got, r.Text(got), "redacted twice")
		})
	}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		keep           []string
	}{
		{"escapes", `{"a":"4111\u00201111 1111\u00201111"}`, `{"a":"[card]"}`, nil},
		{"unchanged byte by byte", " {\"a\" : [1.50, \"<x>\", null , true]}\n", " {\"a\" : [1.50, \"<x>\", null , true]}\n", nil},
		{"names", `{"a@b.example":1,"c@b.example":{"d@b.example":2},"[email]2":3}`, `{"[email]":1,"[email]3":{"[email]4":2},"[email]2":3}`, nil},
		{"keys behind _ and tabs", `{"_sk-abcdefghijklmnopqrstuv":"\tsk-abcdefghijklmnopqrstuv","\t4111111111111111":"_4111111111111111"}`, `{"[key]":"\t[key]","\t[card]":"_[card]"}`, nil},
		{"a document in a name", `{"[\"4111\\u00201111 1111 1111\"]":1}`, `{"[\"[card]\"]":1}`, nil},
		{"documents in documents", within(8, `4111111111111111`), within(8, `"[card]"`), nil},
		{"too many documents", within(9, `4111111111111111`), within(9, `[card]`), nil},
		{"too deep", deep(`4111111111111111`), deep(`[card]`), nil},
		{"kept", `{"id":"a@b.example","text":"a@b.example","in":{"id":"a@b.example"}}`, `{"id":"a@b.example","text":"[email]","in":{"id":"[email]"}}`, []string{"id"}},
		{"an id has no parts", `{"id":{"x":["a@b.example"]}}`, `{"id":{"x":["[email]"]}}`, []string{"id"}},
		{"measures", `{"lat":52.52000659999999,"e":4.111111111111111e15,"n":4111111111111111}`, `{"lat":52.52000659999999,"e":4.111111111111111e15,"n":"[card]"}`, nil},
		{"a document in a string", `{"args":"{\"card\":4111111111111111}"}`, `{"args":"{\"card\":\"[card]\"}"}`, nil},
		{"a string", `"4111111111111111"`, `"[card]"`, nil},
		{"no JSON", `4111111111111111 and`, `[card] and`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, string(all(t).JSON(json.RawMessage(c.in), c.keep...)))
		})
	}
}

// deep returns a document that is deeper than package json reads.
func deep(value string) string {
	return strings.Repeat("[", 20_000) + value + strings.Repeat("]", 20_000)
}

// within returns a document that is within a number of others.
func within(n int, document string) string {
	document = "[" + document + "]"
	for range n {
		raw, _ := json.Marshal([]string{document})
		document = string(raw)
	}
	return document
}

// Each name is tried once: the names that are allocated show the work.
func TestJSONOfManyNamesIsNotQuadratic(t *testing.T) {
	r := all(t)
	work := func(names int) float64 {
		var b strings.Builder
		for i := range names {
			fmt.Fprintf(&b, `,"n%d@mail.example":1`, i)
		}
		document := json.RawMessage("{" + b.String()[1:] + "}")
		return testing.AllocsPerRun(1, func() {
			require.Contains(t, string(r.JSON(document)), fmt.Sprintf(`,"[email]%d":1}`, names))
		})
	}
	require.Less(t, work(4000), 10*work(500))
}

func TestValue(t *testing.T) {
	r := all(t)
	assert.Equal(t, map[string]any{"to": "[email]", "n": json.Number("9007199254740993")}, r.Map(map[string]any{"to": "a@b.example", "n": 9007199254740993}))
	same := map[string]any{"n": 1}
	assert.Equal(t, same, r.Map(same))
	assert.Nil(t, r.Value(nil))
}

func TestFunc(t *testing.T) {
	r, err := New(Config{Patterns: []Pattern{Cards()}, Func: func(text string) string {
		if strings.Contains(text, "panic") {
			panic("4111111111111111")
		}
		return strings.ReplaceAll(text, "Ann", "someone")
	}})
	require.NoError(t, err)
	assert.Equal(t, "someone pays with [card]", r.Text("Ann pays with 4111111111111111"))
	assert.Equal(t, `["someone"]`, r.Text(`["Ann"]`))
	assert.Equal(t, "[redacted]", r.Text("a panic"))
	s := r.Stream()
	assert.Empty(t, s.Write("A")+s.Write("nn "))
	assert.Equal(t, "someone ", s.Flush())
}

func TestNilRedactor(t *testing.T) {
	var r *Redactor
	assert.Equal(t, "a@b.example", r.Text("a@b.example"))
	assert.JSONEq(t, `["a@b.example"]`, string(r.JSON(json.RawMessage(`["a@b.example"]`))))
	assert.Equal(t, "a@b.example", r.Stream().Write("a@b.example"))
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		want string
		cfg  Config
	}{
		{"redact: Config.Patterns or Config.Func is required", Config{}},
		{`Config.Patterns[0].Name: "Card" must be 1 to 40 lower-case letters`, Config{Patterns: []Pattern{{Name: "Card", Expression: "x"}}}},
		{"Config.Patterns[0].Expression: is required", Config{Patterns: []Pattern{{Name: "a"}}}},
		{"Config.Patterns[1].Expression: is not a regular expression", Config{Patterns: []Pattern{Cards(), {Name: "a", Expression: "("}}}},
		{"Config.Patterns[0].Expression: matches the empty string", Config{Patterns: []Pattern{{Name: "a", Expression: "x*"}}}},
		{"Config.Patterns[1].Expression: matches the replacement [card]", Config{Patterns: []Pattern{Cards(), {Name: "a", Expression: "card"}}}},
	} {
		_, err := New(c.cfg)
		require.ErrorContains(t, err, c.want)
	}
}

// The pieces that viewers get are together the text that is stored, however a text is cut.
func TestStream(t *testing.T) {
	r := all(t)
	words := []string{
		"4111111111111111", "4111 1111 1111 1111", "ann@mail.example", "C-1234", "C-", " ", "\n", "12", ".", "a", "@", "é", "Bearer ", "abcdefghijklmnopq",
		"-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "\nab", "sk-", "eyJ", "3782 822463 10005", "://", "x:y@", "[card]", "4 ", "5", "-", "\\u0009", "_",
	}
	random := rand.New(rand.NewPCG(1, 7))
	for range 3000 {
		var whole strings.Builder
		for range random.IntN(20) {
			whole.WriteString(words[random.IntN(len(words))])
		}
		text := whole.String()
		s := r.Stream()
		var got strings.Builder
		for rest := text; rest != ""; {
			n := 1 + random.IntN(min(len(rest), 9))
			shown := s.Write(rest[:n])
			got.WriteString(shown)
			rest = rest[n:]
		}
		got.WriteString(s.Flush())
		require.Equal(t, r.plain(text), got.String(), "%q", text)
	}
}

// A stream waits only while a match may follow: a word may become an address.
func TestStreamShows(t *testing.T) {
	s := all(t).Stream()
	var got []string
	for _, piece := range []string{"Hello, ", "your ", "card ", "is 41", "11 1111 ", "1111 1111", ", thanks", "."} {
		got = append(got, s.Write(piece))
	}
	got = append(got, s.Flush())
	assert.Equal(t, []string{"Hello, ", "your ", "card ", "is ", "", "", "[card], ", "", "thanks."}, got)
}

func BenchmarkText(b *testing.B) {
	r := all(b)
	text := strings.Repeat("The quick brown fox jumps over 12 lazy dogs, at 3.50 each. ", 200)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Text(text)
	}
}

func ExampleRedactor_Text() {
	r, err := New(Config{Patterns: []Pattern{Cards(), {Name: "customer", Expression: `C-\d{4}`}}})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Text("C-1234 paid with 4111 1111 1111 1111."))
	// Output: [customer] paid with [card].
}

// TestEqual: redactors are compared by their patterns, and by whether they have a function.
func TestEqual(t *testing.T) {
	of := func(cfg Config) *Redactor {
		r, err := New(cfg)
		require.NoError(t, err)
		return r
	}
	same := func(text string) string { return text }
	patterns := func(expression string) []Pattern {
		return []Pattern{Cards(), Emails(), Keys(), {Name: "customer", Expression: expression}}
	}
	distinct := []Config{
		{Patterns: patterns(`C-\d+`)}, {Patterns: patterns(`D-\d+`)}, {Patterns: patterns(`C-\d+`)[1:]}, {Patterns: patterns(`C-\d+`), Func: same}, {Func: same},
	}
	var none *Redactor
	require.True(t, none.Equal(nil))
	for i, a := range distinct {
		require.False(t, none.Equal(of(a)))
		require.False(t, of(a).Equal(nil))
		for j, b := range distinct {
			require.Equal(t, i == j, of(a).Equal(of(b)), "%d %d", i, j)
		}
	}
}
