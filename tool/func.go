package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/threadmill/threadmill/internal/strictjson"
)

// Func returns a tool that calls a function. The parameters are inferred from In, a struct or a map
// with string keys: `json` tags name the fields, fields without omitempty or omitzero are required,
// `jsonschema:"…"` tags describe them, and unknown fields are rejected.
//
// Invalid arguments become an error result without a call of fn: see [ArgumentError]. Numbers keep
// all their digits: a field of type any contains a [json.Number].
//
// If Out is string or []byte, it becomes the output; a [Result] is returned unchanged; any other
// type is marshalled to JSON. Errors of fn are returned unchanged. If fn panics, the call fails and
// the stack is logged.
func Func[In, Out any](
	name, description string, fn func(ctx context.Context, call Call, in In) (Out, error), opts ...Option,
) (Tool, error) {
	cfg := config{definition: Definition{Name: name, Description: description}}
	for _, opt := range opts {
		opt(&cfg)
	}
	if fn == nil {
		return nil, fmt.Errorf("tool %q: fn is required", name)
	}
	if d := cfg.definition; d.MaxAttempts > 0 && !d.Idempotent && !d.Quick {
		cfg.problems = append(cfg.problems, errors.New("MaxAttempts needs Idempotent: another tool never runs twice"))
	}
	if err := errors.Join(cfg.problems...); err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	if len(cfg.definition.Parameters) == 0 {
		parameters, err := infer[In](name)
		if err != nil {
			return nil, err
		}
		cfg.definition.Parameters = parameters
	}
	if err := cfg.definition.Validate(); err != nil {
		return nil, err
	}
	check, err := newChecker(name, cfg.definition.Parameters)
	if err != nil {
		return nil, err
	}
	return &function[In, Out]{definition: cfg.definition.WithDefaults(), check: check, fn: fn, log: cfg.log}, nil
}

// MustFunc is [Func] for tools in variables: it panics instead of returning an error.
func MustFunc[In, Out any](
	name, description string, fn func(ctx context.Context, call Call, in In) (Out, error), opts ...Option,
) Tool {
	t, err := Func(name, description, fn, opts...)
	if err != nil {
		panic("threadmill: " + err.Error())
	}
	return t
}

// Option configures a tool of [Func].
type Option func(*config)

type config struct {
	definition Definition
	log        *slog.Logger
	problems   []error
}

// Timeout sets the limit of one run: more than 0, at most 24 h. Default 2 minutes.
func Timeout(d time.Duration) Option {
	return func(c *config) {
		if d <= 0 {
			c.problems = append(c.problems, fmt.Errorf("timeout is %s, must be positive", d))
		}
		c.definition.Timeout = d
	}
}

// Idempotent declares that a call may run twice without harm, so that a failed one can be retried: see [Retryable] and [MaxAttempts].
func Idempotent() Option {
	return func(c *config) { c.definition.Idempotent = true }
}

// MaxAttempts sets how often a call of an idempotent tool runs at most, 1 to 100. Default 3.
func MaxAttempts(n int) Option {
	return func(c *config) {
		if n < 1 {
			c.problems = append(c.problems, fmt.Errorf("the maximum number of attempts is %d, must be positive", n))
		}
		c.definition.MaxAttempts = n
	}
}

// Quick declares that the tool is short, needs only this process, and is idempotent.
func Quick() Option {
	return func(c *config) { c.definition.Quick, c.definition.Idempotent = true, true }
}

// OnTaskQueue makes the calls run on a task queue of their own: see [Definition].TaskQueue.
func OnTaskQueue(queue string) Option {
	return func(c *config) { c.definition.TaskQueue = queue }
}

// Background makes calls return immediately and run as background tasks.
func Background() Option {
	return func(c *config) { c.definition.Background = true }
}

// Deadline sets the limit of a background task. Default 24 hours.
func Deadline(d time.Duration) Option {
	return func(c *config) {
		if d <= 0 {
			c.problems = append(c.problems, fmt.Errorf("deadline is %s, must be positive", d))
		}
		c.definition.Deadline = d
	}
}

// Detached makes a background task continue when its thread is closed.
func Detached() Option {
	return func(c *config) { c.definition.Detached = true }
}

// Paths declares the arguments that are file paths, relative to root unless the agent has a working
// directory. See [Definition.PathArguments].
func Paths(root string, arguments ...string) Option {
	return func(c *config) { c.definition.PathRoot, c.definition.PathArguments = root, arguments }
}

// NeedsApproval requires approval of each call, for the given reason.
func NeedsApproval(reason string) Option {
	return func(c *config) { c.definition.NeedsApproval, c.definition.ApprovalReason = true, reason }
}

// Parameters replaces the inferred JSON Schema, for constraints that a Go type cannot express, such
// as enumerations. Arguments that match it must decode into In.
func Parameters(schema json.RawMessage) Option {
	return func(c *config) {
		if len(schema) == 0 {
			c.problems = append(c.problems, errors.New("parameters are empty: omit the option to infer them"))
		}
		c.definition.Parameters = schema
	}
}

// Logger receives the stack of a panic. Default [slog.Default].
func Logger(log *slog.Logger) Option {
	return func(c *config) { c.log = log }
}

type function[In, Out any] struct {
	definition Definition
	check      *checker
	fn         func(context.Context, Call, In) (Out, error)
	log        *slog.Logger
}

func (f *function[In, Out]) Definition() Definition { return f.definition }

func (f *function[In, Out]) Call(ctx context.Context, call Call) (Result, error) {
	in, err := f.decode(call.Arguments)
	if refusal := (*ArgumentError)(nil); errors.As(err, &refusal) {
		return refusal.Result(), nil
	}
	if err != nil {
		return Result{}, err
	}
	return f.run(ctx, call, in)
}

func (f *function[In, Out]) decode(arguments string) (in In, err error) {
	raw, err := f.check.check(arguments)
	if err != nil {
		return in, err
	}
	if err := strictjson.CheckAs(raw, &in, 0); err != nil {
		return in, &ArgumentError{f.definition.Name, err.Error()}
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	if err := dec.Decode(&in); err != nil {
		return in, &ArgumentError{f.definition.Name, decodeReason(err)}
	}
	return in, nil
}

// decodeReason describes errors beyond the schema: an integer too large for its Go type, or an
// error of a type's own UnmarshalJSON or UnmarshalText.
func decodeReason(err error) string {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return fmt.Sprintf("%s: %s does not fit", name(mismatch.Field), mismatch.Value)
	}
	return "arguments: " + err.Error()
}

func (f *function[In, Out]) run(ctx context.Context, call Call, in In) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			f.logger().ErrorContext(ctx, "tool panicked", "tool", f.definition.Name, "thread", call.ThreadID,
				"agent", call.Agent, "toolCall", call.ID, "attempt", call.Attempt, "traceId", call.Exec.TraceID(), "panic", p, "stack", string(debug.Stack()))
			result, err = Result{Output: fmt.Sprintf("Error: Tool %s failed: %v", f.definition.Name, p), IsError: true}, nil
		}
	}()
	out, err := f.fn(ctx, call, in)
	if err != nil {
		// A stopped run may return its partial result with the error.
		soFar, _ := any(out).(Result)
		return soFar, err
	}
	return f.result(out)
}

func (f *function[In, Out]) result(out any) (Result, error) {
	switch v := out.(type) {
	case Result:
		return v, nil
	case string:
		return Result{Output: strings.ToValidUTF8(v, "\uFFFD")}, nil
	case []byte:
		return Result{Output: strings.ToValidUTF8(string(v), "\uFFFD")}, nil
	}
	raw, err := strictjson.Encode(out)
	if err != nil {
		return Result{}, fmt.Errorf("tool %q: the result, a %T, has no JSON form: %w", f.definition.Name, out, err)
	}
	return Result{Output: string(raw)}, nil
}

func (f *function[In, Out]) logger() *slog.Logger {
	if f.log != nil {
		return f.log
	}
	return slog.Default()
}

// Types whose JSON is not what their Go kind suggests.
var knownTypes = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[json.Number]():     {Type: "number"},
	reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
	reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
}

func infer[In any](name string) (json.RawMessage, error) {
	schema, err := jsonschema.For[In](&jsonschema.ForOptions{TypeSchemas: knownTypes})
	if err != nil {
		return nil, fmt.Errorf("tool %q: no parameters can be inferred, use the Parameters option: %w", name, err)
	}
	if schema.Type != "object" {
		return nil, fmt.Errorf("tool %q: the arguments are a %s, must be a struct or a map with string keys",
			name, reflect.TypeFor[In]())
	}
	if schema.Properties == nil {
		schema.Properties = map[string]*jsonschema.Schema{} // some providers require the field
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("tool %q: parameters: %w", name, err)
	}
	return raw, nil
}
