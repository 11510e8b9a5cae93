package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/tooltest"
)

type order struct {
	Item  string   `json:"item" jsonschema:"what to order"`
	Count int64    `json:"count"`
	Tags  []string `json:"tags,omitempty"`
	To    *address `json:"to,omitempty"`
}

type address struct {
	City string `json:"city"`
}

func orderTool(t *testing.T, opts ...tool.Option) (tool.Tool, *[]order) {
	t.Helper()
	var got []order
	tl, err := tool.Func("order", "Orders an item.", func(_ context.Context, _ tool.Call, in order) (string, error) {
		got = append(got, in)
		return "ordered " + in.Item, nil
	}, opts...)
	require.NoError(t, err)
	return tl, &got
}

func TestFuncInfersParameters(t *testing.T) {
	tl, _ := orderTool(t)
	tooltest.Conforms(t, tl)
	require.JSONEq(t, `{
		"type": "object",
		"properties": {
			"item": {"type": "string", "description": "what to order"},
			"count": {"type": "integer"},
			"tags": {"type": ["null", "array"], "items": {"type": "string"}},
			"to": {"type": ["null", "object"], "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}
		},
		"required": ["item", "count"],
		"additionalProperties": false
	}`, string(tl.Definition().Parameters))
}

func TestFuncWithoutParametersSaysSo(t *testing.T) {
	tl := tool.MustFunc("ping", "Pings.", func(context.Context, tool.Call, struct{}) (string, error) { return "pong", nil })
	require.JSONEq(t, `{"type":"object","properties":{},"additionalProperties":false}`, string(tl.Definition().Parameters))
	require.Equal(t, tool.Result{Output: "pong"}, tooltest.Run(t, tl, " ").Result)
}

func TestArguments(t *testing.T) {
	const prefix = "Error: Tool parameter validation failed for order: "
	for _, c := range []struct{ name, arguments, reason string }{
		{"S4-72 bad JSON", `{"item": "tea", `, "the arguments are not valid JSON: they end too early"},
		{"S4-72 no JSON at all", `tea, please`, "the arguments are not valid JSON: invalid character 'e' in literal true (expecting 'r')"},
		{"S4-72 two values", `{"item":"tea","count":1} {}`, "the arguments are not valid JSON: there is more after the first value, which ends at byte 24"},
		{"S4-73 missing", `{"item":"tea"}`, "count: is required"},
		{"S4-73 empty means {}", ``, "item: is required; count: is required"},
		{"S4-73 wrong type", `{"item":"tea","count":"two"}`, "count: must be an integer, but is a string"},
		{"S4-73 a fraction", `{"item":"tea","count":1.5}`, "count: must be an integer, but is a number"},
		{"S4-73 unknown field", `{"item":"tea","count":1,"colour":"red"}`, "colour: is not a parameter (known: count, item, tags, to)"},
		{"S4-73 other case", `{"Item":"tea","count":1}`, "item: is required; Item: is not a parameter (known: count, item, tags, to)"},
		{
			"S4-73 nested", `{"item":"tea","count":1,"to":{"city":7},"tags":["a",2]}`,
			"tags[1]: must be a string, but is an integer; to.city: must be a string, but is an integer",
		},
		{
			"S4-73 all at once", `{"item":1,"tags":{}}`,
			"count: is required; item: must be a string, but is an integer; tags: must be an array or null, but is an object",
		},
		{"S4-73 not an object", `null`, "arguments: must be an object, but is null"},
		{"S4-73 too large", `{"item":"tea","count":1180591620717411303424}`, "count: number 1180591620717411303424 does not fit"},
		{"S4-73 out of range", `{"item":"tea","count":1e999999999}`, "count: the number \"1e999999999\" is out of range"},
		{"S4-73 tiny is not whole", `{"item":"tea","count":1e-999999999}`, "count: number 1e-999999999 does not fit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tl, got := orderTool(t)
			out := tooltest.Run(t, tl, c.arguments)
			require.NoError(t, out.Err)
			require.Equal(t, tool.Result{Output: prefix + c.reason, IsError: true}, out.Result)
			require.Empty(t, *got, "the function ran")
		})
	}
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	for arguments, want := range map[string]int64{
		`{"item":"x","count":9007199254740993}`:     9007199254740993,
		`{"item":"x","count":9223372036854775807}`:  math.MaxInt64,
		`{"item":"x","count":-9223372036854775808}`: math.MinInt64,
		`{"item":"x","count":3.0}`:                  3,
		`{"item":"x","count":25e2}`:                 2500,
	} {
		tl, got := orderTool(t)
		out := tooltest.Run(t, tl, arguments)
		require.False(t, out.Result.IsError, out.Result.Output)
		require.Equal(t, want, (*got)[0].Count, arguments)
	}

	echo := tool.MustFunc("echo", "Echoes.", func(_ context.Context, _ tool.Call, in map[string]any) (any, error) { return in, nil })
	const precise = `{"a":12345678901234567890123,"b":0.12345678901234567890123,"c":"<&>"}`
	require.Equal(t, precise, tooltest.Run(t, echo, precise).Result.Output)
}

// TestArgumentsReadOneWay: approvers and approval rules see the arguments that the tool gets.
func TestArgumentsReadOneWay(t *testing.T) {
	type in struct {
		To struct {
			City string `json:"city,omitempty"`
			Zip  string `json:"zip,omitempty"`
		} `json:"to"`
	}
	open := json.RawMessage(`{"type":"object","properties":{
		"path":{"type":"string"},
		"to":{"type":"object","properties":{"city":{"type":"string"}}},
		"all":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"}}}}}}`)
	sent := func(context.Context, tool.Call, in) (string, error) { return "sent", nil }
	for _, tl := range []tool.Tool{tool.MustFunc("send", "Sends.", sent), tool.MustFunc("send", "Sends.", sent, tool.Parameters(open))} {
		for arguments, want := range map[string]string{
			`{"to":{"city":"Oslo"},"to":{"zip":"0150"}}`:  `to: is given twice, keep one of them`,
			`{"to":{"city":"Oslo","c\u0069ty":"Bergen"}}`: `to.city: is given twice, keep one of them`,
			`{"to":{"city":"\ud800"}}`:                    `\ud800 is half of a character: write it as a whole`,
		} {
			out := tooltest.Run(t, tl, arguments)
			require.True(t, out.Result.IsError)
			require.Equal(t, "Error: Tool parameter validation failed for send: "+want, out.Result.Output)
			require.EqualError(t, tl.Definition().ValidateArguments(arguments), "Tool parameter validation failed for send: "+want)
		}
	}
	for arguments, want := range map[string]string{
		`{"Path":"/etc/passwd"}`:                  `Path: is not a parameter; did you mean "path"?`,
		`{"path":"/tmp","PATH":"/etc/passwd"}`:    `PATH: is not a parameter; did you mean "path"?`,
		`{"to":{"CITY":"Oslo"}}`:                  `to.CITY: is not a parameter; did you mean "city"?`,
		`{"all":[{"id":1},{"\u0130d":2,"iD":3}]}`: `all[1].iD: is not a parameter; did you mean "id"?`,
	} {
		require.EqualError(t, tool.Definition{Name: "send", Parameters: open}.ValidateArguments(arguments), "Tool parameter validation failed for send: "+want)
	}
	require.NoError(t, tool.Definition{Name: "send", Parameters: open}.ValidateArguments(`{"path":"/tmp","other":1,"Other":2}`))
}

func TestSpecialInputTypes(t *testing.T) {
	type in struct {
		Raw  json.RawMessage `json:"raw"`
		Data []byte          `json:"data"`
		At   time.Time       `json:"at"`
	}
	tl := tool.MustFunc("put", "Puts.", func(_ context.Context, _ tool.Call, in in) (string, error) {
		return string(in.Raw) + " " + string(in.Data) + " " + in.At.Format(time.DateOnly), nil
	})
	out := tooltest.Run(t, tl, `{"raw":{"x":[1]},"data":"aGk=","at":"2026-03-01T10:00:00Z"}`)
	require.Equal(t, tool.Result{Output: `{"x":[1]} hi 2026-03-01`}, out.Result)

	out = tooltest.Run(t, tl, `{"raw":1,"data":"","at":"yesterday"}`)
	require.True(t, out.Result.IsError)
	require.Contains(t, out.Result.Output, `Tool parameter validation failed for put: arguments: `)
	require.Contains(t, out.Result.Output, `"yesterday"`)
}

func TestParametersOption(t *testing.T) {
	type in struct {
		Size string `json:"size"`
		Zip  string `json:"zip,omitempty"`
	}
	tl := tool.MustFunc("pick", "Picks.", func(_ context.Context, _ tool.Call, in in) (string, error) { return in.Size, nil },
		tool.Parameters(json.RawMessage(`{"type":"object","properties":{
			"size":{"enum":["s","m"]},"zip":{"type":"string","pattern":"^[0-9]+$"}},"required":["size"]}`)))
	require.Equal(t, "m", tooltest.Run(t, tl, `{"size":"m"}`).Result.Output)
	require.Equal(t, `Error: Tool parameter validation failed for pick: size: must be one of "s", "m"`,
		tooltest.Run(t, tl, `{"size":"xl"}`).Result.Output)
	require.Equal(t, `Error: Tool parameter validation failed for pick: zip: pattern: "a" does not match regular expression "^[0-9]+$"`,
		tooltest.Run(t, tl, `{"size":"s","zip":"a"}`).Result.Output)
}

func TestOutput(t *testing.T) {
	full := tool.Result{Output: "no", IsError: true, Details: map[string]any{"status": 404}}
	for name, c := range map[string]struct {
		out  any
		want tool.Result
	}{
		"string stays as it is":  {"a <b> \n", tool.Result{Output: "a <b> \n"}},
		"bytes":                  {[]byte("hi"), tool.Result{Output: "hi"}},
		"bytes that are no text": {[]byte{'a', 0xff}, tool.Result{Output: "a\uFFFD"}},
		"raw JSON":               {json.RawMessage(`{"a":1}`), tool.Result{Output: `{"a":1}`}},
		"result":                 {full, full},
		"struct":                 {order{Item: "<tea>", Count: 2}, tool.Result{Output: `{"item":"<tea>","count":2}`}},
		"nil":                    {nil, tool.Result{Output: "null"}},
	} {
		t.Run(name, func(t *testing.T) {
			tl := tool.MustFunc("out", "Outputs.", func(context.Context, tool.Call, struct{}) (any, error) { return c.out, nil })
			out := tooltest.Run(t, tl, "{}")
			require.NoError(t, out.Err)
			require.Equal(t, c.want, out.Result)
		})
	}
	t.Run("no JSON form", func(t *testing.T) {
		tl := tool.MustFunc("out", "Outputs.", func(context.Context, tool.Call, struct{}) (any, error) { return math.Inf(1), nil })
		require.ErrorContains(t, tooltest.Run(t, tl, "{}").Err, `tool "out": the result, a float64, has no JSON form`)
	})
}

func TestErrors(t *testing.T) {
	boom := errors.New("no such city")
	tl := tool.MustFunc("fail", "Fails.", func(context.Context, tool.Call, struct{}) (string, error) {
		return "", tool.Retryable(boom)
	})
	out := tooltest.Run(t, tl, "{}")
	require.ErrorIs(t, out.Err, boom)
	require.True(t, tool.IsRetryable(out.Err))
}

func TestPanicIsAnErrorResult(t *testing.T) {
	var log bytes.Buffer
	tl := tool.MustFunc("crash", "Crashes.", func(context.Context, tool.Call, struct{}) (string, error) {
		panic("disk on fire")
	}, tool.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	out := tooltest.Run(t, tl, "{}")
	require.NoError(t, out.Err)
	require.Equal(t, tool.Result{Output: "Error: Tool crash failed: disk on fire", IsError: true}, out.Result)
	require.Contains(t, log.String(), "func_test.go", "the stack is in the log")
	require.Contains(t, log.String(), "toolCall=call_1")
}

func TestProgress(t *testing.T) {
	t.Run("S1-18 any JSON arrives unchanged", func(t *testing.T) {
		items := []any{"text", 42, 1.5, true, nil, []int{1}, map[string]any{"subtype": "transfer_progress", "percent": 10}}
		tl := tool.MustFunc("work", "Works.", func(_ context.Context, call tool.Call, _ struct{}) (string, error) {
			for _, item := range items {
				call.Progress(item)
			}
			return "done", nil
		})
		out := tooltest.Run(t, tl, "{}")
		require.Equal(t, items, out.Progress.Items())
		require.Equal(t, []string{`"text"`, `42`, `1.5`, `true`, `null`, `[1]`, `{"percent":10,"subtype":"transfer_progress"}`},
			out.Progress.JSON())
	})
	t.Run("nobody watches", func(t *testing.T) {
		tl := tool.MustFunc("work", "Works.", func(_ context.Context, call tool.Call, _ struct{}) (string, error) {
			call.Progress("half")
			return "done", nil
		})
		result, err := tl.Call(t.Context(), tool.Call{})
		require.NoError(t, err)
		require.Equal(t, "done", result.Output)
	})
}

func TestOptions(t *testing.T) {
	plain, _ := orderTool(t)
	d := plain.Definition()
	require.Equal(t, []any{tool.DefaultTimeout, false, 1, false}, []any{d.Timeout, d.Idempotent, d.MaxAttempts, d.NeedsApproval})

	set, _ := orderTool(t, tool.Timeout(time.Minute), tool.Idempotent(), tool.MaxAttempts(5), tool.NeedsApproval("costs money"))
	d = set.Definition()
	require.Equal(t, []any{time.Minute, true, 5, true, "costs money"},
		[]any{d.Timeout, d.Idempotent, d.MaxAttempts, d.NeedsApproval, d.ApprovalReason})

	quick, _ := orderTool(t, tool.Quick())
	d = quick.Definition()
	require.Equal(t, []any{true, true, tool.DefaultMaxAttempts}, []any{d.Quick, d.Idempotent, d.MaxAttempts})
}

func TestFuncRefuses(t *testing.T) {
	fn := func(context.Context, tool.Call, order) (string, error) { return "", nil }
	for _, c := range []struct {
		name string
		make func() (tool.Tool, error)
		want string
	}{
		{"empty name", func() (tool.Tool, error) { return tool.Func("", "", fn) }, `tool name "": use 1 to 64 letters`},
		{"bad name", func() (tool.Tool, error) { return tool.Func("a b", "", fn) }, `tool name "a b"`},
		{"long name", func() (tool.Tool, error) { return tool.Func(strings.Repeat("x", 65), "", fn) }, `use 1 to 64 letters`},
		{"negative timeout", func() (tool.Tool, error) { return tool.Func("x", "", fn, tool.Timeout(-1)) }, `timeout is -1ns, must be positive`},
		{"zero timeout", func() (tool.Tool, error) { return tool.Func("x", "", fn, tool.Timeout(0)) }, `timeout is 0s, must be positive`},
		{"attempts of a tool that is not idempotent", func() (tool.Tool, error) { return tool.Func("x", "", fn, tool.MaxAttempts(2)) }, `MaxAttempts needs Idempotent`},
		{"attempts", func() (tool.Tool, error) { return tool.Func("x", "", fn, tool.Idempotent(), tool.MaxAttempts(101)) }, `maxAttempts is 101, must be 1 to 100`},
		{"parameters", func() (tool.Tool, error) { return tool.Func("x", "", fn, tool.Parameters(json.RawMessage(`[1]`))) }, `parameters must be a JSON Schema`},
		{"nil fn", func() (tool.Tool, error) { return tool.Func[order, string]("x", "", nil) }, `fn is required`},
		{"not an object", func() (tool.Tool, error) {
			return tool.Func("x", "", func(context.Context, tool.Call, []string) (string, error) { return "", nil })
		}, `must be a struct or a map`},
		{"no schema", func() (tool.Tool, error) {
			return tool.Func("x", "", func(context.Context, tool.Call, struct{ C chan int }) (string, error) { return "", nil })
		}, `no parameters can be inferred`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.make()
			require.ErrorContains(t, err, c.want)
		})
	}
	require.Panics(t, func() { tool.MustFunc("a b", "", fn) })
}

func TestSet(t *testing.T) {
	named := func(name string) tool.Tool {
		return tool.MustFunc(name, "Does.", func(context.Context, tool.Call, struct{}) (string, error) { return name, nil })
	}
	set, err := tool.NewSet(named("zeta"), named("alpha"), named("Beta"))
	require.NoError(t, err)
	require.Equal(t, []string{"zeta", "alpha", "Beta"}, set.Names())
	require.Len(t, set.Tools(), 3)
	found, ok := set.Lookup("Beta")
	require.True(t, ok)
	require.Equal(t, "Beta", found.Definition().Name)
	_, err = tool.NewSet(named("zeta"), named("alpha"), named("Alpha"))
	require.ErrorContains(t, err, `tool "Alpha": the name is used twice, by tools 2 and 3`, "approvals do not tell names apart by their case")
	_, ok = set.Lookup("ZETA")
	require.False(t, ok, "names are case-sensitive")

	_, err = tool.NewSet(named("a"), named("b"), named("a"), nil, bare{"bad name"}, named("b"))
	require.ErrorContains(t, err, `tool "a": the name is used twice, by tools 1 and 3`)
	require.ErrorContains(t, err, `tool "b": the name is used twice, by tools 2 and 6`)
	require.ErrorContains(t, err, `tool 4 is nil`)
	require.ErrorContains(t, err, `tool name "bad name"`)

	var empty *tool.Set
	_, ok = empty.Lookup("a")
	require.False(t, ok)
	require.Empty(t, empty.Names())
}

type bare struct{ name string }

func (b bare) Definition() tool.Definition                          { return tool.Definition{Name: b.name} }
func (b bare) Call(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, nil }

func TestCheckArguments(t *testing.T) {
	d := tool.Definition{Name: "get", Parameters: json.RawMessage(`{"type":"object","required":["id"]}`)}
	require.NoError(t, d.ValidateArguments(`{"id":1,"more":2}`))
	require.EqualError(t, d.ValidateArguments(``), "Tool parameter validation failed for get: id: is required")
	require.NoError(t, tool.Definition{Name: "any"}.ValidateArguments(`{"a":1}`))
	err := tool.Definition{Name: "bad", Parameters: json.RawMessage(`{"type":7}`)}.ValidateArguments(`{}`)
	require.ErrorContains(t, err, `tool "bad": parameters are not a JSON Schema`)
}
