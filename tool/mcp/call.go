package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/tool"
)

const (
	// returnWithin is how soon a call returns after it was cancelled.
	returnWithin = time.Second

	// settleTime is how long a call that failed waits for the end of its connection to be known.
	settleTime = 200 * time.Millisecond

	// rejectedByTransport is the code of the SDK's own error for a request that HTTP did not carry.
	rejectedByTransport = -32005

	// A server that is too busy for a call is asked again a few times.
	maxBusy   = 3
	busyDelay = 500 * time.Millisecond
)

// serverTool is a tool of a server.
type serverTool struct {
	m           *Manager
	declaration declaration
	tool        Tool
	definition  tool.Definition
}

// Definition implements [tool.Tool].
func (t *serverTool) Definition() tool.Definition { return t.definition }

// Call implements [tool.Tool].
func (t *serverTool) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	var wrong *tool.ArgumentError
	if err := t.definition.ValidateArguments(call.Arguments); errors.As(err, &wrong) {
		return wrong.Result(), nil
	} else if err != nil {
		return tool.Result{}, err
	}
	r := &toolCall{serverTool: t, call: call, server: t.declaration.server}
	if err := r.input(); err != nil {
		return tool.Result{}, r.failed(err.Error(), notCalled)
	}
	if refusal := r.refused(); refusal != "" {
		return tool.Result{Output: "Error: " + refusal, IsError: true}, nil
	}
	c, err := r.connect(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	if c == nil {
		return tool.Result{}, r.failed("the MCP server does not run in this worker: give agents and workers the same configuration, and name its task queue", notCalled)
	}
	r.connection = c
	return r.run(ctx)
}

// toolCall is one call of a tool.
type toolCall struct {
	*serverTool
	call       tool.Call
	server     Server
	connection *connection
	state      inputState
}

// effect is what is known about the effect of a call that failed.
type effect string

const (
	notCalled effect = "The tool was not called."
	unclear   effect = "The call may have taken effect."
)

// failed returns the error of the call for the model.
func (r *toolCall) failed(what string, e effect) error {
	if e == unclear && r.server.Trusted && r.tool.Hints.ReadOnly {
		e = "The tool changes nothing."
	}
	return fmt.Errorf("%s of the MCP server %q: %s. %s", r.definition.Name, r.server.Name, strings.TrimRight(r.text(what), ". "), e)
}

func (r *toolCall) text(text string) string {
	if r.connection != nil {
		return r.connection.text(text, maxError)
	}
	return clean(text, maxError)
}

// run calls the tool. A call that did not reach the server because it has forgotten the session is
// made again.
func (r *toolCall) run(ctx context.Context) (tool.Result, error) {
	for again := false; ; again = true {
		s, err := r.acquire(ctx)
		if err != nil {
			return tool.Result{}, err
		}
		result, err := r.on(ctx, s)
		s.release()
		if again || !errors.Is(err, sdk.ErrSessionMissing) {
			return result, err
		}
		select {
		case <-s.done:
		case <-time.After(connectWait):
		case <-ctx.Done():
		}
	}
}

// acquire returns the session for the call. Without a login, it asks for one.
func (r *toolCall) acquire(ctx context.Context) (*session, error) {
	for {
		s, err := r.connection.acquire(ctx, connectWait)
		var down *unavailable
		switch {
		case err == nil:
			return s, nil
		case !errors.As(err, &down):
			return nil, fmt.Errorf("the call was cancelled: %w", err)
		case r.server.Login == nil || down.state.Status != tool.ServerNeedsLogin:
			return nil, tool.Retryable(r.failed(down.Error(), notCalled))
		}
		again, err := r.connection.relogin(ctx, down.login)
		switch {
		case err != nil:
			return nil, tool.Retryable(r.failed(err.Error(), notCalled))
		case !again:
			return nil, r.askLogin(LoginError{Reason: down.state.Error, Refused: down.login})
		}
	}
}

// on calls the tool once.
func (r *toolCall) on(parent context.Context, s *session) (tool.Result, error) {
	limited, stop := context.WithTimeout(parent, r.server.Timeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errEnded) })()
	if r.tool.Method != "" {
		result, err := r.method(ctx, s)
		if err != nil {
			return tool.Result{}, r.failure(parent, limited, s, err)
		}
		return result, nil
	}
	asking := &asking{tool: r.tool.OwnName, answers: r.state.Answers, cancel: cancel}
	if err := s.asks.begin(ctx, asking); err != nil {
		return tool.Result{}, r.failure(parent, limited, s, errWaited)
	}
	defer s.asks.end(asking)
	res, err := r.send(ctx, s)
	if q := s.asks.question(asking); q != nil {
		return tool.Result{}, r.ask(q)
	}
	var rpc *jsonrpc.Error
	switch {
	case errors.As(err, &rpc) && rpc.Code == sdk.CodeURLElicitationRequired:
		return tool.Result{}, r.askURLs(rpc.Data)
	case err != nil && errors.Is(context.Cause(ctx), errTogether):
		return tool.Result{}, r.failed(errTogether.Error(), unclear)
	case err != nil:
		return tool.Result{}, r.failure(parent, limited, s, err)
	case res.NeedsInput():
		return tool.Result{}, r.askNew(res)
	}
	return r.result(res), nil
}

var (
	errEnded  = errors.New("the connection has ended")
	errWaited = errors.New("another call to the server waited for a person's input")
	errBusy   = errors.New("the server is too busy")
)

// send sends the call, again if the server is too busy, and returns its result.
func (r *toolCall) send(ctx context.Context, s *session) (*sdk.CallToolResult, error) {
	params := &sdk.CallToolParams{
		Name: r.tool.OwnName, InputResponses: r.state.responses(r.call.Input), RequestState: r.state.RequestState,
		Meta: sdk.Meta{},
	}
	if text := strings.TrimSpace(r.call.Arguments); text != "" {
		params.Arguments = json.RawMessage(text)
	}
	token := s.watchProgress(r.call.Progress)
	defer s.progress.Delete(token)
	params.SetProgressToken(token)
	for busy := 0; ; busy++ {
		res, err := bounded(ctx, func() (*sdk.CallToolResult, error) { return s.client.CallTool(ctx, params) })
		if err != nil || !res.NeedsInput() || len(res.InputRequests) > 0 {
			return res, err
		}
		if busy == maxBusy {
			return nil, errBusy
		}
		params.RequestState = res.RequestState
		timer := time.NewTimer(busyDelay << busy)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// bounded runs a function that may ignore the end of ctx.
func bounded[R any](ctx context.Context, do func() (R, error)) (R, error) {
	type outcome struct {
		result R
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := do()
		done <- outcome{result, err}
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(returnWithin)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.result, o.err
	case <-timer.C:
		var none R
		return none, ctx.Err()
	}
}

// failure returns the error of a call that has no result.
func (r *toolCall) failure(parent, limited context.Context, s *session, err error) error {
	var rpc *jsonrpc.Error
	var dial *net.OpError
	var login *LoginError
	switch {
	case parent.Err() != nil:
		return caused{r.failed("the call was cancelled", unclear), context.Cause(parent)}
	case errors.As(err, &login):
		if !login.Partial {
			r.connection.restart() // its state then tells people
		}
		return r.askLogin(*login)
	case errors.Is(err, errWaited):
		return r.failed(err.Error(), notCalled)
	case errors.Is(err, errBusy):
		return tool.Retryable(r.failed("the server is too busy; try again later", notCalled))
	case limited.Err() != nil:
		return r.failed(fmt.Sprintf("it did not answer within %s, and the call was cancelled", r.server.Timeout), unclear)
	case errors.Is(err, sdk.ErrSessionMissing):
		return caused{r.failed("the server has lost the session", notCalled), err}
	case s.needsLogin():
		return tool.Retryable(r.failed(errLogin.Error(), notCalled))
	case errors.As(err, &dial) && dial.Op == "dial":
		return tool.Retryable(r.failed("the server cannot be reached: "+dial.Error(), notCalled))
	case errors.As(err, &rpc) && rpc.Code == rejectedByTransport:
		_, reason, _ := strings.Cut(err.Error(), rpc.Message+": ")
		return tool.Retryable(r.failed("the server did not answer correctly: "+reason, unclear))
	case errors.As(err, &rpc):
		return r.failed(fmt.Sprintf("the server answered with an error: %s (%d)", rpc.Message, rpc.Code), rpcEffect(rpc.Code))
	case errors.Is(err, sdk.ErrConnectionClosed) || s.endsWithin(settleTime):
		return tool.Retryable(r.failed("the connection ended during the call: "+r.ended(s), unclear))
	}
	return r.failed("the server did not answer correctly: "+err.Error(), unclear)
}

// caused is an error for the model, with the error that caused it.
type caused struct {
	error
	cause error
}

// Unwrap returns the cause.
func (c caused) Unwrap() error { return c.cause }

// rpcEffect tells whether a call that was answered with an error has run.
func rpcEffect(code int64) effect {
	switch code {
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidRequest, jsonrpc.CodeParseError:
		return notCalled
	}
	return unclear
}

// ended tells why a session has ended.
func (r *toolCall) ended(s *session) string {
	timer := time.NewTimer(returnWithin)
	defer timer.Stop()
	select {
	case <-s.done:
		return s.why(s.err)
	case <-timer.C:
		return "the server was restarted or stopped"
	}
}
