package strictjson

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want any
	}{
		"every kind":          {` {"a":[1,2.50,-0,1e9,"x",true,null,{}],"b":{"a":[]}} `, map[string]any{"a": []any{json.Number("1"), json.Number("2.50"), json.Number("-0"), json.Number("1e9"), "x", true, nil, map[string]any{}}, "b": map[string]any{"a": []any{}}}},
		"one level each":      {`{"a":{"a":{"a":1}}}`, map[string]any{"a": map[string]any{"a": map[string]any{"a": json.Number("1")}}}},
		"names differ":        {`{"a":1,"A":2," a":3}`, map[string]any{"a": json.Number("1"), "A": json.Number("2"), " a": json.Number("3")}},
		"escapes":             {`"\u0041\ud83d\ude00\\ud800\"\u00e9"`, "A😀\\ud800\"é"},
		"a replacement as is": {`"\ufffd�"`, "\ufffd\ufffd"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.text)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a name twice":          {`{"a":1,"b":2,"a":1}`, "a: is given twice, keep one of them"},
		"a name twice, deep":    {`{"a":[0,{"b":{"c":1,"c":2}}]}`, "a[1].b.c: is given twice"},
		"twice by an escape":    {`{"a":1,"\u0061":2}`, "a: is given twice"},
		"empty name twice":      {`{"":1,"":2}`, "is given twice"},
		"more after the value":  {`{} {}`, "after top-level value"},
		"a comma too many":      {`[1,]`, "invalid character ']'"},
		"nothing":               {" \n", "unexpected end of JSON input"},
		"not UTF-8":             {"\"a\xff\"", "the text is not UTF-8"},
		"half a character":      {`{"a":"\ud800"}`, `\ud800 is half of a character`},
		"the other half":        {`"\\\udc00"`, `\udc00 is half of a character`},
		"two first halves":      {`"\ud83d\ud83d\ude00"`, `\ud83d is half of a character`},
		"a half before others":  {`"\ud83d\n"`, `\ud83d is half of a character`},
		"a half in a name":      {`{"\uDFFF":1}`, `\uDFFF is half of a character`},
		"too deep":              {strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), "more than 64 levels"},
		"much too deep":         {strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), "more than 64 levels"},
		"never closed":          {strings.Repeat("[", 10_000_000), "more than 64 levels"},
		"brackets in a text":    {`"[[` + strings.Repeat("[", 100) + "\\\"" + `[", [`, "invalid character"},
		"many names, one twice": {`{` + manyNames(40) + `,"n17":0}`, "n17: is given twice"},
		"a number out of range": {`{"a":[1e309]}`, "a[0]: the number \"1e309\" is out of range"},
		"a long number":         {strings.Repeat("9", 400), "out of range"},
		"a number out of shape": {`01`, "invalid character '1'"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.text)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := Parse(strings.Repeat("[", MaxDepth) + "1" + strings.Repeat("]", MaxDepth))
	require.NoError(t, err)
	_, err = Parse(`[{` + manyNames(40) + `},{` + manyNames(40) + `},"\\\"[` + strings.Repeat("[{", 100) + `", -1.5E-400, 1e308]`)
	require.NoError(t, err)
}

func manyNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"n%d":{"a":1}`, i)
	}
	return strings.Join(names, ",")
}

type Embedded struct {
	By    string               `json:"by"`
	Extra map[string]*Embedded `json:"extra,omitempty"`
	List  []Embedded           `json:"list"`
}

type Base struct {
	ID string `json:"id"`
}

type outer struct {
	Base
	*Embedded
	Plain   string
	Content string          `json:"content,omitempty"`
	Inner   *Embedded       `json:"inner"`
	Raw     json.RawMessage `json:"raw"`
	Any     any             `json:"any"`
	When    time.Time       `json:"when"`
	Own     own             `json:"own"`
	Hidden  string          `json:"-"`
	Two     [2]Embedded     `json:"two"`
}

// own reads itself: its names are its own affair.
type own struct{ got string }

func (o *own) UnmarshalJSON(data []byte) error {
	o.got = string(data)
	return nil
}

func TestDecode(t *testing.T) {
	var got outer
	require.NoError(t, Decode([]byte(`{"id":"1","by":"ann","Plain":"p","content":"c","inner":{"by":"bob","extra":{"By":{"by":"x"}}},
		"raw":{"By":1,"by":2},"any":{"A":1,"a":2},"when":"2026-01-02T03:04:05Z","own":{"By":1,"by":2},"other":{"deep":[1]},"two":[{"by":"1"}]}`), &got, 0))
	require.Equal(t, "ann", got.By)
	require.Equal(t, "bob", got.Inner.By)
	require.Equal(t, "x", got.Inner.Extra["By"].By)
	require.Equal(t, `{"By":1,"by":2}`, got.Own.got)

	for text, want := range map[string]string{
		`{"id":"1","By":"eve","by":"ann"}`:     "By: is not by: upper and lower case matter",
		`{"by":"ann","BY":"eve"}`:              "BY: is not by",
		`{"ID":"1"}`:                           "ID: is not id",
		`{"plain":"1"}`:                        "plain: is not Plain",
		`{"inner":{"By":"eve"}}`:               "inner.By: is not by",
		`{"inner":{"extra":{"a":{"bY":"e"}}}}`: "inner.extra.a.bY: is not by",
		`{"inner":{"li\u017ft":[]}}`:           "inner.liſt: is not list",
		`{"inner":{"list":[{},{"By":"e"}]}}`:   "inner.list[1].By: is not by",
		`{"two":[{},{"By":"e"}]}`:              "two[1].By: is not by",
		`{"raw":{"a":1,"a":2}}`:                "raw.a: is given twice",
		`{"own":{"a":1,"a":2}}`:                "own.a: is given twice",
		`{"other":` + strings.Repeat("[", MaxDepth+envelope) + strings.Repeat("]", MaxDepth+envelope) + `}`: "more than 64 levels",
		`{"by":1}`: "cannot unmarshal number",
		`[]`:       "cannot unmarshal array",
	} {
		require.ErrorContains(t, Decode([]byte(text), new(outer), 0), want, text)
		require.ErrorContains(t, Decode([]byte(text), new(outer), Known|Envelope), want, text)
	}
	require.ErrorContains(t, Decode([]byte(`{"inner":{"nobody":1}}`), new(outer), Known), "inner.nobody: is not known; known are by, extra, list")
	require.ErrorContains(t, Decode([]byte(`{"Hidden":"x"}`), new(outer), Known), "Hidden: is not known")
	var list []Embedded
	require.ErrorContains(t, Decode([]byte(`[{"By":"x"}]`), &list, 0), "[0].By: is not by")
	long := strings.Repeat("é", 10_000)
	err := Decode([]byte(`{"`+long+`":1}`), new(outer), Known)
	require.Less(t, len(err.Error()), 1000)
}

// FuzzParse: what is taken reads the same everywhere, and is valid JSON.
func FuzzParse(f *testing.F) {
	for _, text := range []string{`{"a":1,"b":[true,null,"\u00e9"]}`, `{"a":1,"a":2}`, `"\ud800"`, `[[[]]]`, `1e5`, ``} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err != nil {
			return
		}
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var want any
		require.NoError(t, dec.Decode(&want))
		require.Equal(t, want, got)
		again, err := json.Marshal(got)
		require.NoError(t, err)
		second, err := Parse(string(again))
		require.NoError(t, err)
		require.Equal(t, got, second)
		if !strings.Contains(strings.ToLower(text), "ufffd") && !strings.Contains(text, "\ufffd") {
			require.NotContains(t, string(again), "\ufffd", "a character was replaced")
		}
	})
}

// FuzzDecode: whatever is accepted, package json reads as the same value without regard to
// the order of names, and it is accepted again once written.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"id":"1","by":"ann","Plain":"p","inner":{"by":"bob","list":[{"by":"x"}]},"raw":[1],"any":{"A":1,"a":null}}`,
		`{"By":"eve","by":"ann"}`, `{"by":"ann","BY":"eve"}`, `{"li\u017ft":[]}`, `{"two":[{},{}]}`, `{"extra":{"x":null}}`, `null`, `[]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got, again outer
		if Decode([]byte(text), &got, 0) != nil {
			return
		}
		// The same names in the reverse order: with a name that package json takes for
		// another, the last would win.
		if got.Embedded == nil {
			got.Embedded = &Embedded{}
		}
		again.Embedded = &Embedded{}
		require.NoError(t, json.Unmarshal(reversed(t, text), &again))
		one, err := json.Marshal(got)
		require.NoError(t, err)
		two, err := json.Marshal(again)
		require.NoError(t, err)
		require.JSONEq(t, string(one), string(two))
	})
}

// reversed writes the outermost object with its fields in the reverse order.
func reversed(t *testing.T, text string) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) != nil || fields == nil {
		return []byte(text)
	}
	names := slices.Sorted(maps.Keys(fields))
	slices.Reverse(names)
	var out []string
	for _, name := range names {
		raw, err := json.Marshal(name)
		require.NoError(t, err)
		out = append(out, string(raw)+":"+string(fields[name]))
	}
	return []byte("{" + strings.Join(out, ",") + "}")
}

func BenchmarkDecode(b *testing.B) {
	post := []byte(`{"id":"01J","inner":{"by":"ann","list":[{"by":"a"}]},"content":"` + strings.Repeat("All work and no play. \\n", 250) + `"}`)
	for name, decode := range map[string]func([]byte, any) error{"encodingjson": json.Unmarshal, "strict": func(data []byte, v any) error { return Decode(data, v, 0) }} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(post)))
			b.ReportAllocs()
			for b.Loop() {
				var v outer
				if err := decode(post, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
