package approval

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/strictjson"
)

// shellCall is the call that most tests begin with.
func shellCall(change ...func(*Call)) Call {
	c := Call{
		Namespace: "default", ThreadID: "t1", Agent: "assistant", Tool: "shell_cmd", Arguments: `{"command":"git status","timeout":30}`,
		WorkingDirectory: "/desk", Definition: "sha256:d1",
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func arguments(raw string) func(*Call) { return func(c *Call) { c.Arguments = raw } }

func digestOf(t *testing.T, c Call) string {
	t.Helper()
	digest, err := c.Digest()
	require.NoError(t, err)
	return digest
}

func TestCanonical(t *testing.T) {
	for name, c := range map[string]struct{ arguments, want string }{
		"sorted at every level":   {` { "b" : {"z":1, "a":[{"y":1,"x":2}]}, "a":null } `, `{"a":null,"b":{"a":[{"x":2,"y":1}],"z":1}}`},
		"the order of lists":      {`{"a":[2,1]}`, `{"a":[2,1]}`},
		"numbers as written":      {`{"a":[1,1.0,10e-1,-0,12345678901234567890123]}`, `{"a":[1,1.0,10e-1,-0,12345678901234567890123]}`},
		"texts by characters":     {`{"a":"\u0041\/<&>"}`, `{"a":"A/<&>"}`},
		"texts are not composed":  {`{"a":"e\u0301","b":"é"}`, "{\"a\":\"e\u0301\",\"b\":\"é\"}"},
		"empty":                   {"", `{}`},
		"space":                   {" \n", `{}`},
		"names by their bytes":    {`{"é":1,"z":2,"Z":3}`, `{"Z":3,"z":2,"é":1}`},
		"names differ by case":    {`{"a":1,"A":1}`, `{"A":1,"a":1}`},
		"names differ by a space": {`{"a":1,"a ":1}`, `{"a":1,"a ":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Canonical(c.arguments)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
	for name, c := range map[string]struct{ arguments, want string }{
		"a name twice":            {`{"command":"ls","command":"rm"}`, "command: is given twice"},
		"a name twice, inside":    {`{"a":[{"b":1,"b":1}]}`, "a[0].b: is given twice"},
		"a name twice, by escape": {`{"command":"ls","comm\u0061nd":"rm"}`, "command: is given twice"},
		"a list":                  {`[]`, "it must be a JSON object"},
		"null":                    {`null`, "it must be a JSON object"},
		"text":                    {`"x"`, "it must be a JSON object"},
		"more behind":             {`{} {"command":"rm"}`, "after top-level value"},
		"no JSON":                 {`{command: ls}`, "invalid character"},
		"half a character":        {`{"a":"\ud800"}`, "is half of a character"},
		"not UTF-8":               {"{\"a\":\"\xff\"}", "not UTF-8"},
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			_, err := Canonical(c.arguments)
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.Equal(t, "arguments", field.Field)
			require.ErrorContains(t, err, c.want)

			_, err = shellCall(arguments(c.arguments)).Digest()
			require.ErrorAs(t, err, &field)
			require.ErrorAs(t, shellCall(arguments(c.arguments)).Matches(map[string]string{"command": "*"}), &field)
		})
	}
}

// TestDigestStays: grants are kept by the digest, so it must not change.
func TestDigestStays(t *testing.T) {
	c := shellCall(func(c *Call) {
		c.Tool, c.Paths = "Shell_cmd", map[string]string{"file": "/desk/a", "command": "/bin/<git>"}
	})
	const digest = `{"arguments":{"command":"git status","timeout":30},"paths":{"command":"/bin/<git>","file":"/desk/a"},"tool":"shell_cmd","workingDirectory":"/desk"}`
	require.Equal(t, sha(digest), digestOf(t, c))
	rest, err := c.Rest(map[string]string{"command": "git *"})
	require.NoError(t, err)
	require.Equal(t, sha(`{"arguments":{"timeout":30},"paths":{"command":"","file":"/desk/a"},"tool":"shell_cmd","without":["command"],"workingDirectory":"/desk"}`), rest)
	require.Equal(t, sha(`{"arguments":{},"paths":{},"tool":"a","workingDirectory":""}`), digestOf(t, Call{Tool: "a"}))
}

func sha(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

func TestDigest(t *testing.T) {
	base := digestOf(t, shellCall())
	for name, change := range map[string]func(*Call){
		"S4-81 the tool's name in another case": func(c *Call) { c.Tool = "Shell_CMD" },
		"arguments in another order":            arguments(`{"timeout":30,"command":"git status"}`),
		"arguments written otherwise":           arguments(" {\"command\": \"git\\u0020status\",\n\"timeout\":30} "),
		"who calls is the grant's to compare":   func(c *Call) { c.Agent, c.Namespace, c.ThreadID, c.Definition = "b", "n", "t", "d" },
		"no paths, in another way":              func(c *Call) { c.Paths = map[string]string{} },
	} {
		t.Run("the same: "+name, func(t *testing.T) { require.Equal(t, base, digestOf(t, shellCall(change))) })
	}
	for name, change := range map[string]func(*Call){
		"another tool":              func(c *Call) { c.Tool = "shell" },
		"the Kelvin sign for a K":   func(c *Call) { c.Tool = "shell_cmd\u212a" },
		"another command":           arguments(`{"command":"git statu","timeout":30}`),
		"the command in capitals":   arguments(`{"command":"GIT status","timeout":30}`),
		"a space more":              arguments(`{"command":"git status ","timeout":30}`),
		"a space that looks alike":  arguments("{\"command\":\"git\u00a0status\",\"timeout\":30}"),
		"a letter that looks alike": arguments("{\"command\":\"g\u0456t status\",\"timeout\":30}"),
		"a character of no width":   arguments("{\"command\":\"git\u200b status\",\"timeout\":30}"),
		"the name in capitals":      arguments(`{"Command":"git status","timeout":30}`),
		"an argument more":          arguments(`{"command":"git status","timeout":30,"env":null}`),
		"an argument less":          arguments(`{"command":"git status"}`),
		"a number written longer":   arguments(`{"command":"git status","timeout":30.0}`),
		"a number as text":          arguments(`{"command":"git status","timeout":"30"}`),
		"another directory":         func(c *Call) { c.WorkingDirectory = "/desk/" },
		"no directory":              func(c *Call) { c.WorkingDirectory = "" },
		"a path":                    func(c *Call) { c.Paths = map[string]string{"command": "/bin/git"} },
	} {
		t.Run("S4-81 another: "+name, func(t *testing.T) { require.NotEqual(t, base, digestOf(t, shellCall(change))) })
	}
	t.Run("a path that leads elsewhere", func(t *testing.T) {
		to := func(path string) string {
			return digestOf(t, shellCall(arguments(`{"file":"a"}`), func(c *Call) { c.Paths = map[string]string{"file": path} }))
		}
		require.NotEqual(t, to("/desk/a"), to("/etc/passwd"))
	})
	t.Run("what is no text has no digest", func(t *testing.T) {
		for field, change := range map[string]func(*Call){
			"tool":             func(c *Call) { c.Tool = "a\xff" },
			"workingDirectory": func(c *Call) { c.WorkingDirectory = "/\xfe" },
			"paths.file":       func(c *Call) { c.Paths = map[string]string{"file": "/\xfd"} },
		} {
			_, err := shellCall(change).Digest()
			var wrong *event.FieldError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, field, wrong.Field)
		}
	})
}

func TestRest(t *testing.T) {
	rest := func(c Call, names ...string) string {
		pattern := map[string]string{}
		for _, name := range names {
			pattern[name] = "*"
		}
		digest, err := c.Rest(pattern)
		require.NoError(t, err)
		return digest
	}
	one := shellCall(func(c *Call) { c.Paths = map[string]string{"command": "/bin/a"} })
	two := shellCall(arguments(`{"timeout":30,"command":"make"}`), func(c *Call) { c.Paths = map[string]string{"command": "/bin/b"} })
	require.Equal(t, rest(one, "command"), rest(two, "command"), "neither the argument nor its path counts")
	require.NotEqual(t, rest(one, "command"), rest(shellCall(), "command"), "but that it is one")
	require.NotEqual(t, rest(one, "command"), rest(one, "command", "timeout"))
	require.NotEqual(t, rest(shellCall(), "command"), rest(shellCall(arguments(`{"command":"git status","timeout":60}`)), "command"), "the others do")
	require.NotEqual(t, rest(shellCall(), "command"), rest(shellCall(func(c *Call) { c.WorkingDirectory = "/" }), "command"))
	require.NotEqual(t, rest(one, "timeout"), rest(one, "command"))
	require.Equal(t, `{"command":"git status","timeout":30}`, one.Arguments)
	require.Equal(t, map[string]string{"command": "/bin/a"}, one.Paths, "nothing of the call has changed")

	t.Run("never the digest of a whole call", func(t *testing.T) {
		require.NotEqual(t, digestOf(t, shellCall(arguments(`{}`))), rest(shellCall(arguments(`{"x":"y"}`)), "x"))
	})
}

func TestMatches(t *testing.T) {
	write := Call{
		Tool: "write_file", Arguments: `{"path":"notes/a.md","text":"hi","mode":420,"tags":["a"]}`,
		Paths: map[string]string{"path": "/desk/notes/a.md"},
	}
	for name, c := range map[string]struct {
		pattern map[string]string
		want    string
	}{
		"one":              {map[string]string{"text": "h*"}, ""},
		"several":          {map[string]string{"text": "*", "path": "/desk/notes/*.md"}, ""},
		"the path it is":   {map[string]string{"path": "notes/*.md"}, `pattern.path: "notes/*.md" does not cover the path that the argument leads to, "/desk/notes/a.md"`},
		"one does not fit": {map[string]string{"path": "/desk/**", "text": "H*"}, `pattern.text: "H*" does not cover the argument, "hi": a wildcard covers letters`},
		"no wildcard":      {map[string]string{"text": "ho"}, `pattern.text: "ho" does not cover the argument, "hi": without a wildcard, it has to be the same`},
		"no such argument": {map[string]string{"txt": "*"}, "pattern.txt: the call has no argument of that name"},
		"other case":       {map[string]string{"Text": "*"}, "pattern.Text: the call has no argument of that name"},
		"a number":         {map[string]string{"mode": "*"}, "pattern.mode: the argument is not text"},
		"a list":           {map[string]string{"tags": "*"}, "pattern.tags: the argument is not text"},
		"empty":            {nil, "pattern: is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			err := write.Matches(c.pattern)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("a long argument is not repeated as a whole", func(t *testing.T) {
		long := Call{Tool: "say", Arguments: `{"text":"` + strings.Repeat("é", 5000) + `"}`}
		require.Less(t, len(long.Matches(map[string]string{"text": "a*"}).Error()), 1000)
	})
	t.Run("a path without its argument", func(t *testing.T) {
		c := Call{Tool: "write_file", Arguments: `{}`, Paths: map[string]string{"path": "/desk/a"}}
		require.ErrorContains(t, c.Matches(map[string]string{"path": "/desk/*"}), "the call has no argument of that name")
	})
}

// FuzzCanonical: two canonical forms are equal if and only if the values are, whatever the
// order of names.
func FuzzCanonical(f *testing.F) {
	f.Add(`{"a":1,"b":{"c":[1,2.50,"x"],"d":null}}`, `{"b":{"d":null,"c":[1,2.50,"x"]},"a":1}`)
	f.Add(`{"a":"é"}`, "{\"a\":\"e\u0301\"}")
	f.Add(`{"a":1}`, `{"a":1.0}`)
	f.Add(`{"a":1,"a":2}`, `{}`)
	f.Add(``, ` {} `)
	f.Fuzz(func(t *testing.T, a, b string) {
		first, err := Canonical(a)
		if err != nil {
			return
		}
		again, err := Canonical(string(first))
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))

		value := decoded(t, a)
		var backwards strings.Builder
		writeBackwards(t, &backwards, value)
		again, err = Canonical(backwards.String())
		require.NoError(t, err)
		require.Equal(t, string(first), string(again), "the order of names does not count")

		second, err := Canonical(b)
		if err != nil {
			return
		}
		require.Equal(t, equalValues(value, decoded(t, b)), string(first) == string(second))
	})
}

// decoded reads with Go's own decoder.
func decoded(t *testing.T, arguments string) any {
	t.Helper()
	if strings.TrimSpace(arguments) == "" {
		return map[string]any{}
	}
	dec := json.NewDecoder(strings.NewReader(arguments))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	return v
}

func equalValues(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equalValues)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalValues)
	}
	return a == b
}

func writeBackwards(t *testing.T, out *strings.Builder, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		out.WriteString("{ ")
		names := slices.Sorted(maps.Keys(v))
		slices.Reverse(names)
		for i, name := range names {
			if i > 0 {
				out.WriteString(" ,\n")
			}
			writeBackwards(t, out, name)
			out.WriteString(" :")
			writeBackwards(t, out, v[name])
		}
		out.WriteString("}")
	case []any:
		out.WriteString("[")
		for i, item := range v {
			if i > 0 {
				out.WriteString(",")
			}
			writeBackwards(t, out, item)
		}
		out.WriteString("]")
	default:
		raw, err := strictjson.Encode(v)
		require.NoError(t, err)
		out.Write(raw)
	}
}
