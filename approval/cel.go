package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// Limits of one evaluation. The cost is CEL's own deterministic measure; the time limits what that
// does not measure.
const (
	maxCost   = 2_000_000
	maxTime   = time.Second
	checkTime = 100 // loop iterations between two checks of the time
	maxNested = 100
)

// visible lists the variables and functions of expressions, for people. CEL reserves the word
// namespace.
const visible = "there are tool, agent, ns (the namespace), thread, workingDirectory, args and paths, " +
	"the standard functions of CEL, and the macros has, all, exists and exists_one"

// language is CEL with its standard functions. It excludes the macros that create lists, since they
// can make evaluations explode.
var language = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.ClearMacros(),
		cel.Macros(cel.HasMacro, cel.AllMacro, cel.ExistsMacro, cel.ExistsOneMacro),
		cel.ParserRecursionLimit(maxNested),
		cel.ParserExpressionSizeLimit(MaxWhen),
		cel.Variable("tool", cel.StringType),
		cel.Variable("agent", cel.StringType),
		cel.Variable("ns", cel.StringType),
		cel.Variable("thread", cel.StringType),
		cel.Variable("workingDirectory", cel.StringType),
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("paths", cel.MapType(cel.StringType, cel.StringType)),
	)
})

// programs caches compiled expressions. The meaning of an expression never changes, so all rules
// share them.
var programs = cache{entries: map[string]entry{}}

type cache struct {
	mu      sync.Mutex
	entries map[string]entry
}

type entry struct {
	program cel.Program
	tools   []string // see [ToolsIn]
	err     error
}

// maxCached is the maximum number of cached programs, since agents that are edited at run time
// leave old expressions.
const maxCached = 1000

// compiled returns the program of an expression, or the error and its position.
func compiled(when string) (entry, error) {
	if len(when) > MaxWhen {
		return entry{}, fmt.Errorf("it is %d bytes, must be at most %d", len(when), MaxWhen)
	}
	programs.mu.Lock()
	defer programs.mu.Unlock()
	known, ok := programs.entries[when]
	if !ok {
		known = compile(when)
		if len(programs.entries) >= maxCached {
			clear(programs.entries)
		}
		programs.entries[strings.Clone(when)] = known
	}
	return known, known.err
}

func compile(when string) entry {
	env, err := language()
	if err != nil {
		return entry{err: err}
	}
	ast, issues := env.Compile(when)
	if issues.Err() != nil {
		return entry{err: explain(issues)}
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return entry{err: fmt.Errorf("it is %s, must be true or false: compare it with something", t)}
	}
	program, err := env.Program(ast,
		cel.EvalOptions(cel.OptOptimize), // compiles constant regular expressions, so errors in them are reported
		cel.CostLimit(maxCost),
		cel.InterruptCheckFrequency(checkTime),
	)
	if err != nil {
		return entry{err: errors.New(oneLineOf(err.Error()))} // an invalid constant, such as a pattern or a time
	}
	return entry{program: program, tools: toolsIn(ast)}
}

// explain returns the first problem and its position.
func explain(issues *cel.Issues) error {
	problems := issues.Errors()
	if len(problems) == 0 {
		return errors.New(oneLineOf(issues.Err().Error()))
	}
	first := problems[0]
	message := strings.ReplaceAll(oneLineOf(first.Message), " (in container '')", "")
	message, _, _ = strings.Cut(message, " expecting {")
	switch {
	case strings.Contains(message, "'<EOF>'"):
		message = "it ends too early"
	case message == "reserved identifier: namespace":
		message += " is a word of CEL; the namespace is called ns"
	case strings.HasPrefix(message, "undeclared reference"):
		message += "; " + visible
	}
	if first.Location.Line() < 1 {
		return errors.New(message)
	}
	return fmt.Errorf("line %d, column %d: %s", first.Location.Line(), max(first.Location.Column()+1, 1), message)
}

func oneLineOf(text string) string { return strings.Join(strings.Fields(text), " ") }

// activation contains the variables of expressions for a call, or the error of reading them.
type activation struct {
	variables map[string]any
	err       error
}

func input(c Call) activation {
	arguments, err := object(c.Arguments)
	if err == nil {
		arguments, err = values(arguments)
	}
	if c.Unclear != "" {
		err = errors.New(c.Unclear)
	}
	paths := c.Paths
	if paths == nil {
		paths = map[string]string{}
	}
	return activation{err: err, variables: map[string]any{
		"tool": c.Tool, "agent": c.Agent, "ns": c.Namespace, "thread": c.ThreadID,
		"workingDirectory": c.WorkingDirectory, "args": arguments, "paths": paths,
	}}
}

// evaluate reports whether an expression is true.
func (a activation) evaluate(when string) (bool, error) {
	if a.err != nil {
		return false, a.err
	}
	known, err := compiled(when)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxTime)
	defer cancel()
	out, _, err := known.program.ContextEval(ctx, a.variables)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return false, fmt.Errorf("it takes longer than %s", maxTime)
	case err != nil:
		return false, errors.New(oneLineOf(err.Error()))
	}
	is, ok := out.(types.Bool)
	if !ok {
		return false, fmt.Errorf("it is %s, neither true nor false", out.Type().TypeName())
	}
	return bool(is), nil
}
