package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/backend"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream/memory"
)

// attack must not appear in any output. Its second line, at the beginning of a line, looks like the
// program's own.
const attack = "x\x1b[2J\x1b]0;t\x07\u009b31m\r\b\x7f\x00\u0085\u202e\u2066\u200f\u200b\u2060\u00ad\ufeff\u034f\u200d\ufe0f\u2028\u2029\U000e0041\xff\xc2\nFORGED\tline"

// forged is the beginning of a line from an attack. Texts of several lines are shown as such.
const forged = "\nFORGED"

var texts = []string{"content", "output", "stdout", "stderr"}

func attackOn(field string) string {
	if slices.Contains(texts, field) {
		return strings.ReplaceAll(attack, forged, "\nmore")
	}
	return attack
}

// hostile responds to every request with attacks in every string. Fields with a fixed set of values
// get one of them, by round, and in the last round also attacks.
type hostile struct {
	round   int
	fail    bool // responses are errors with attacks
	reached atomic.Int64

	api map[string]any // the description of the API
}

const rounds = 14

// values are the fixed sets of types.
var values = map[reflect.Type][]string{
	reflect.TypeFor[event.AgentEventType](): {
		"thought", "stream", "tool_call", "tool_progress", "tool_result", "error", "message", "approval_request", "approval", "client_call",
		"status", "reset", "gap", "final",
	},
	reflect.TypeFor[event.CreatedBy]():       {"user", "agent", "tool", "system"},
	reflect.TypeFor[event.Decision]():        {"approve", "deny", "expired", "revoked"},
	reflect.TypeFor[event.Scope]():           {"once", "session", "pattern"},
	reflect.TypeFor[signals.TurnStatus]():    {"completed", "failed", "interrupted", "expired", "unanswered", "held"},
	reflect.TypeFor[signals.ThreadStatus]():  {"idle", "running", "waiting_approval"},
	reflect.TypeFor[signals.DecideOutcome](): {"accepted", "already_resolved", "conflict", "mismatch", "not_pending"},
	reflect.TypeFor[signals.TaskOutcome]():   {"accepted", "already_ended", "conflict", "not_found"},
	reflect.TypeFor[event.TaskState]():       {"running", "completed", "failed", "cancelled"},
	reflect.TypeFor[event.ItemStatus]():      {"pending", "processing", "completed", "failed", "expired", "overwritten"},
}

// statuses are what a change of a thread's status can be: plain strings.
var statuses = []string{"queued", "duplicate", "opened", "closed", "interrupted", "retried", "updated", "retrying", "intercepted"}

func (h *hostile) fill(v reflect.Value, field string, depth int) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
		return
	case reflect.TypeFor[json.RawMessage]():
		raw, _ := json.Marshal(map[string]string{attackOn(field): attackOn(field), "content": attackOn("content"), "senderId": attack, "text": attackOn("content")})
		v.SetBytes(raw)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(h.text(v.Type(), field))
	case reflect.Bool:
		v.SetBool(h.round%2 == 0)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			h.fill(v.Elem(), field, depth-1)
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			h.fill(v.Index(0), field, depth-1)
			h.fill(v.Index(1), field, depth-1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		h.fill(key, field, depth-1)
		h.fill(value, field, depth-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			name = cmp.Or(name, strings.ToLower(v.Type().Field(i).Name))
			if v.Field(i).CanSet() {
				h.fill(v.Field(i), name, depth-1)
			}
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(attackOn(field)))
		}
	}
}

func (h *hostile) text(typ reflect.Type, field string) string {
	known := values[typ]
	if typ == reflect.TypeFor[string]() && field == "status" {
		known = statuses
	}
	if len(known) == 0 || h.round == rounds {
		return attackOn(field)
	}
	return known[h.round%len(known)]
}

func answer[T any](h *hostile) (T, error) {
	h.reached.Add(1)
	var out T
	if h.fail {
		return out, h.failure()
	}
	h.fill(reflect.ValueOf(&out).Elem(), "", 8)
	return out, nil
}

func (h *hostile) failure() error {
	return []error{
		errors.New(attack), serviceerror.NewNamespaceNotFound(attack), serviceerror.NewFailedPrecondition(attack),
		fmt.Errorf("%s: %w", attack, signals.ErrThreadNotFound), fmt.Errorf("%s: %w", attack, signals.ErrRefused), &threadclient.UnknownEventError{EventID: attack},
		fmt.Errorf("%s: %w", attack, signals.ErrThreadClosed), fmt.Errorf("%s: %w", attack, signals.ErrThreadExists), &threadclient.UnknownTaskError{TaskID: attack},
	}[h.round%9]
}

func done(h *hostile) error {
	_, err := answer[struct{}](h)
	return err
}

func (h *hostile) Open(context.Context, string, signals.Start, *signals.Post) error { return done(h) }

func (h *hostile) PostOrOpen(context.Context, string, signals.Start, signals.Post) (signals.PostResult, error) {
	return answer[signals.PostResult](h)
}

func (h *hostile) Post(context.Context, string, signals.Post) (signals.PostResult, error) {
	return answer[signals.PostResult](h)
}

func (h *hostile) Publish(context.Context, string, event.EnvEvent, threadclient.PublishOptions) (threadclient.PublishResult, error) {
	return answer[threadclient.PublishResult](h)
}

func (h *hostile) Turn(context.Context, string, signals.Post) (signals.TurnResult, error) {
	return answer[signals.TurnResult](h)
}

func (h *hostile) Decide(context.Context, string, signals.Decide) (signals.DecideResult, error) {
	return answer[signals.DecideResult](h)
}

func (h *hostile) AnswerInput(context.Context, string, signals.InputAnswers) (signals.DecideOutcome, error) {
	return answer[signals.DecideOutcome](h)
}

func (h *hostile) ToolResult(context.Context, string, signals.ToolResult) (signals.DecideOutcome, error) {
	return answer[signals.DecideOutcome](h)
}
func (h *hostile) Control(context.Context, string, signals.Control) error { return done(h) }
func (h *hostile) Update(context.Context, string, signals.ThreadChange) (signals.State, error) {
	return answer[signals.State](h)
}

func (h *hostile) State(context.Context, string) (signals.State, error) {
	return answer[signals.State](h)
}

func (h *hostile) Queue(context.Context, string) (signals.Queue, error) {
	return answer[signals.Queue](h)
}

func (h *hostile) Item(context.Context, string, string) (event.Item, error) {
	return answer[event.Item](h)
}

func (h *hostile) SetStatus(context.Context, string, signals.SetStatus) (event.Item, error) {
	return answer[event.Item](h)
}

func (h *hostile) Retry(context.Context, string, string, string) (event.Item, error) {
	return answer[event.Item](h)
}

func (h *hostile) Approvals(context.Context, string) (signals.Approvals, error) {
	return answer[signals.Approvals](h)
}

func (h *hostile) ListApprovals(context.Context, threadclient.ApprovalsQuery) (threadclient.Waiting, error) {
	return answer[threadclient.Waiting](h)
}

func (h *hostile) Tasks(context.Context, string) (signals.Tasks, error) {
	return answer[signals.Tasks](h)
}
func (h *hostile) Task(context.Context, string) (event.Task, error) { return answer[event.Task](h) }
func (h *hostile) CompleteTask(context.Context, signals.CompleteTask) (signals.CompleteTaskResult, error) {
	return answer[signals.CompleteTaskResult](h)
}

func (h *hostile) CancelTask(context.Context, signals.CancelTask) (signals.CompleteTaskResult, error) {
	return answer[signals.CompleteTaskResult](h)
}

func (h *hostile) List(context.Context, threadclient.ListQuery) ([]threadclient.Summary, error) {
	return answer[[]threadclient.Summary](h)
}

func (h *hostile) Workers(context.Context, string) (threadclient.Workers, error) {
	var out threadclient.Workers
	h.fill(reflect.ValueOf(&out).Elem(), "", 1)
	return out, nil
}

func (h *hostile) CreateSchedule(context.Context, signals.Schedule) (signals.Schedule, error) {
	return answer[signals.Schedule](h)
}

func (h *hostile) UpdateSchedule(context.Context, signals.Schedule) (signals.Schedule, error) {
	return answer[signals.Schedule](h)
}

func (h *hostile) Schedule(context.Context, string) (signals.ScheduleView, error) {
	return answer[signals.ScheduleView](h)
}

func (h *hostile) Schedules(context.Context, int) ([]signals.ScheduleView, error) {
	return answer[[]signals.ScheduleView](h)
}
func (h *hostile) PauseSchedule(context.Context, string, string) error  { return done(h) }
func (h *hostile) ResumeSchedule(context.Context, string, string) error { return done(h) }
func (h *hostile) TriggerSchedule(context.Context, string) error        { return done(h) }
func (h *hostile) DeleteSchedule(context.Context, string) error         { return done(h) }

// ServeHTTP responds as the description of the API says, on any route.
func (h *hostile) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	h.reached.Add(1)
	switch {
	case h.fail:
		rw.Header().Set("Content-Type", "application/problem+json")
		rw.WriteHeader([]int{400, 404, 409, 422}[h.round%4])
		_ = json.NewEncoder(rw).Encode(map[string]any{"title": attack, "detail": attack, "result": attack, "errors": []any{map[string]string{"message": attack, "location": attack}}})
	case r.Header.Get("Accept") == "text/event-stream":
		h.stream(rw, r)
	default:
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(h.made(h.responseOf(r), "", 8))
	}
}

// stream sends a message in pieces of one character, an event of each type, and the end of the
// thread.
func (h *hostile) stream(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "text/event-stream")
	id := 0
	send := func(e any) {
		id++
		raw, _ := json.Marshal(e)
		fmt.Fprintf(rw, "id: %d\ndata: %s\n\n", id, raw)
	}
	if r.URL.Query().Get("view") == "env" {
		var e event.EnvEvent
		h.fill(reflect.ValueOf(&e).Elem(), "", 8)
		send(e)
		send(event.EnvEvent{Type: event.TypeSessionDeleted, Metadata: event.EnvMetadata{Source: event.SourceSystem}})
		return
	}
	for _, c := range attackOn("content") {
		send(event.AgentEvent{Type: event.EventStream, MessageID: "m" + attack, Agent: attack, Attempt: 1, Content: string(c)})
	}
	for round := range rounds + 1 {
		at := &hostile{round: round}
		var e event.AgentEvent
		at.fill(reflect.ValueOf(&e).Elem(), "", 8)
		if e.Status != nil && e.Status.Status == event.StatusClosed {
			e.Status.Status = attack
		}
		send(e)
	}
	send(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusClosed, By: attack}})
}

// responseOf returns the schema of the response to a request, or nil if the API does not describe
// it.
func (h *hostile) responseOf(r *http.Request) map[string]any {
	for path, item := range h.api["paths"].(map[string]any) {
		pattern := "^" + regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "[^/]+") + "$"
		op, ok := item.(map[string]any)[strings.ToLower(r.Method)].(map[string]any)
		if !ok || !regexp.MustCompile(pattern).MatchString(r.URL.Path) {
			continue
		}
		for _, code := range []string{"200", "201", "202"} {
			response, _ := op["responses"].(map[string]any)[code].(map[string]any)
			content, _ := response["content"].(map[string]any)
			if body, ok := content["application/json"].(map[string]any); ok {
				return body["schema"].(map[string]any)
			}
		}
	}
	return nil
}

// made generates JSON for a schema.
func (h *hostile) made(schema map[string]any, field string, depth int) any {
	if ref, ok := schema["$ref"].(string); ok {
		name := ref[strings.LastIndex(ref, "/")+1:]
		return h.made(h.api["components"].(map[string]any)["schemas"].(map[string]any)[name].(map[string]any), field, depth-1)
	}
	if depth < 0 {
		return nil
	}
	typ, _ := schema["type"].(string)
	if types, ok := schema["type"].([]any); ok {
		typ = types[0].(string)
	}
	switch typ {
	case "object":
		out := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			out[name] = h.made(property.(map[string]any), name, depth-1)
		}
		if more, ok := schema["additionalProperties"].(map[string]any); ok {
			out[attackOn(field)] = h.made(more, field, depth-1)
		}
		delete(out, "next") // there is one page
		return out
	case "array":
		items := h.made(schema["items"].(map[string]any), field, depth-1)
		return []any{items, items}
	case "integer", "number":
		return 1
	case "boolean":
		return h.round%2 == 0
	}
	switch enum, _ := schema["enum"].([]any); {
	case len(enum) > 0 && h.round < rounds:
		// What a command waits for comes with a later request.
		return enum[(h.round+int(h.reached.Load()))%len(enum)]
	case schema["format"] == "date-time":
		return "2026-01-02T03:04:05Z"
	}
	return h.text(reflect.TypeFor[string](), field)
}

func describedAPI(t *testing.T) map[string]any {
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	defer db.Close()
	live := memory.New(memory.Config{})
	defer live.Close()
	handler, err := server.New(server.Config{Threads: struct{ server.Threads }{}, Backend: backend.Backend{Store: db, Stream: live, Library: library.New(library.Config{Store: db})}})
	require.NoError(t, err)
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", nil))
	var api map[string]any
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &api), rec.Body.String())
	return api
}

// needed are the arguments of commands beyond those in their usage.
var needed = map[string][]string{
	"config diff":   {"--config", "doc.go"},
	"erase":         {"--yes"},
	"erase-person":  {"--yes"},
	"keys create":   {"--roles", "admin"},
	"agents set":    {"-f", "-"},
	"publish":       {"--type", "file.changed", "--payload", "{}"},
	"queue add":     {`{"senderId":"ann","senderType":"user","content":"hi"}`},
	"schedule add":  {"--every", "15m", "-m", "hi"},
	"task complete": {"--result", "{}"},
	"update":        {"--title", "new"},
	"send":          {"--wait"},
	"task cancel":   {},
}

// arguments are values for the arguments of a command's usage.
var arguments = map[string]string{"source": "https://example.com/a.md", "task": "t1~t1", "status": "pending", "type": "message"}

// local are the commands that contact no server for this input. The input of mcp is that of a program.
var local = []string{
	"help", "completion bash", "completion zsh", "completion fish", "completion powershell", "keys generate", "mcp",
	"deployment show", "deployment move", // of Temporal, whose errors they show
}

func commands(root *cobra.Command) (all []*cobra.Command) {
	for _, c := range root.Commands() {
		if c.HasSubCommands() {
			all = append(all, commands(c)...)
		} else if c.Runnable() {
			all = append(all, c)
		}
	}
	return all
}

func pathOf(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), "starter ") }

func argumentsOf(c *cobra.Command) (args []string) {
	for _, name := range regexp.MustCompile(`<(\w+)>|\[(\w+)\]`).FindAllStringSubmatch(c.Use, -1) {
		arg := "t1"
		if known := arguments[name[1]]; known != "" {
			arg = known
		}
		if name[1] != "file" && name[2] != "payload" && c.Name() != "help" {
			args = append(args, arg)
		}
	}
	return args
}

// TestNoOutputIsObeyed runs every command against servers that respond with attacks, and with
// attacks as arguments and input.
func TestNoOutputIsObeyed(t *testing.T) {
	t.Setenv("USER", "ann")
	api := describedAPI(t)
	typed := attack + "\n/approvals\n/state\n/retry\n/" + attack + "\n"
	run := func(h *hostile, args ...string) (code int, stdout, stderr string) {
		srv := httptest.NewServer(h)
		defer srv.Close()
		var out, errs testenv.Buffer
		a := &app{
			stdin: strings.NewReader(typed), stdout: term.New(&out, true), stderr: term.New(&errs, false),
			interrupts: osInterrupts, settle: time.Millisecond,
			dial: func(context.Context, connection) (threads, func(), error) { return h, func() {}, nil },
		}
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
		defer cancel()
		code = a.run(ctx, append([]string{"--api", srv.URL}, args...))
		require.NoError(t, ctx.Err(), "%q does not end", args)
		return code, out.String(), errs.String()
	}
	root := (&app{}).root()
	root.InitDefaultCompletionCmd("help")
	root.InitDefaultHelpCmd()
	for _, c := range commands(root) {
		path := pathOf(c)
		args := append(strings.Fields(path), append(argumentsOf(c), needed[path]...)...)
		t.Run(path, func(t *testing.T) {
			if path == "agents set" {
				defer func(before string) { typed = before }(typed)
				typed = "name: clerk\nmodel: demo/demo\n"
			}
			check := func(h *hostile, args ...string) {
				t.Helper()
				h.api = api
				_, out, errs := run(h, args...)
				requireHarmless(t, args, out)
				requireHarmless(t, args, errs)
				if slices.Contains(args, "--json") {
					requireJSON(t, out)
				}
			}
			forms := [][]string{args}
			for _, flag := range []string{"json", "wait", "all"} {
				if c.Flags().Lookup(flag) != nil {
					forms = append(forms, append(slices.Clone(args), "--"+flag))
				}
			}
			if c.Flags().Lookup("view") != nil {
				forms = append(forms, append(slices.Clone(args), "--view", "env"), append(slices.Clone(args), "--view", "env", "--json"))
			}
			for _, form := range forms {
				for round := range rounds + 1 {
					h := &hostile{round: round}
					check(h, form...)
					require.True(t, h.reached.Load() > 0 || slices.Contains(local, path), "%q asks nobody: complete its arguments in this test", form)
					check(&hostile{round: round, fail: true}, form...)
				}
			}
			for i := range args[len(strings.Fields(path)):] {
				attacked := slices.Clone(args)
				attacked[len(strings.Fields(path))+i] = attack
				check(&hostile{}, attacked...)
			}
			check(&hostile{}, append(slices.Clone(args), attack)...)
			c.Flags().VisitAll(func(f *pflag.Flag) {
				check(&hostile{}, append(slices.Clone(args), "--"+f.Name+"="+attack)...)
			})
		})
	}
	for _, args := range [][]string{{attack}, {"agents", attack}, {"help", attack}, {"--" + attack}, {"list", "-" + attack}} {
		_, out, errs := run(&hostile{api: api}, args...)
		requireHarmless(t, args, out)
		requireHarmless(t, args, errs)
	}
}

var ours = regexp.MustCompile(`\x1b\[(0|1|2|31|32|33|36)m`)

func requireHarmless(t *testing.T, args []string, output string) {
	t.Helper()
	require.True(t, utf8.ValidString(output), "%q writes %q", args, output)
	for i, c := range ours.ReplaceAllString(output, "") {
		if unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) && c != '\n' && c != '\t' {
			require.Fail(t, "a terminal obeys this", "%q writes %U in %q", args, c, output[max(0, i-100):min(len(output), i+100)])
		}
	}
	if at := strings.Index("\n"+output, forged); at >= 0 {
		require.Fail(t, "an attack looks like output of the program's own", "%q writes %q", args, output[max(0, at-400):min(len(output), at+100)])
	}
}

func requireJSON(t *testing.T, output string) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader([]byte(output)))
	for {
		var v any
		err := dec.Decode(&v)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err, output)
	}
}

// TestOutputHasOneWay: the program writes to its streams through [term.Writer] only.
func TestOutputHasOneWay(t *testing.T) {
	for _, pattern := range []string{"*.go", "../internal/*/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			if way := regexp.MustCompile(`os\.Std(out|err)|fmt\.Print|\bprintln?\(`).Find(source); !strings.HasSuffix(file, "_test.go") {
				require.Empty(t, string(way), file)
			}
		}
	}
}
