package strictjson

import (
	"encoding/json"
	"strings"
	"testing"

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
		"empty name twice":      {`{"":1,"":2}`, ": is given twice"},
		"more after the value":  {`{} {}`, "after top-level value"},
		"a comma too many":      {`[1,]`, "invalid character ']'"},
		"nothing":               {" \n", "unexpected end of JSON input"},
		"not UTF-8":             {"\"a\xff\"", "the text is not UTF-8"},
		"half a character":      {`{"a":"\ud800"}`, `\ud800 is half of a character`},
		"the other half":        {`"\\\udc00"`, `\udc00 is half of a character`},
		"two first halves":      {`"\ud83d\ud83d\ude00"`, `\ud83d is half of a character`},
		"a half before others":  {`"\ud83d\n"`, `\ud83d is half of a character`},
		"a half in a name":      {`{"\uDFFF":1}`, `\uDFFF is half of a character`},
		"too deep":              {strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), "more than 1000 levels"},
		"much too deep":         {strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), "exceeded max depth"},
		"a number out of shape": {`01`, "invalid character '1'"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.text)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := Parse(strings.Repeat("[", MaxDepth) + "1" + strings.Repeat("]", MaxDepth))
	require.NoError(t, err)
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
		if !strings.Contains(strings.ToLower(text), "ufffd") && !strings.Contains(text, "\ufffd") {
			require.NotContains(t, string(again), "\ufffd", "a character was replaced")
		}
	})
}
