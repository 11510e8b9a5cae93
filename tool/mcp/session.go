package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// oldProtocol is the last version before.
	oldProtocol = "2025-11-25"

	// keepAlive is how often remote servers of the old protocol are asked whether they still live.
	keepAlive         = 30 * time.Second
	keepAliveFailures = 3

	// closePatience is the time for which a connection may say goodbye.
	closePatience = 3 * time.Second
)

// session is an established connection to a server.
type session struct {
	client  *sdk.ClientSession
	program *program // of a server over stdio
	remote  *remote  // of a server over HTTP
	asks    *asks

	// ctx ends with the session.
	ctx    context.Context
	cancel context.CancelCauseFunc

	// done is closed when the connection has ended, for the reason err.
	done chan struct{}
	err  error

	calls     sync.WaitGroup // that use the session
	changed   chan struct{}  // the server says that a list changed
	tokens    atomic.Int64
	annotated atomic.Int64
	progress  sync.Map // token → *progress
}

// opened is what a session needs of its connection.
type opened struct {
	server  Server
	version string // of this program
	legacy  bool   // do not offer the new protocol
	public  bool   // forbid private addresses
	oauth   auth.OAuthHandler
	log     *tail
	asks    *asks
}

// open connects to a server. ctx bounds the life of the session, and the server's StartTimeout the time
// until it is established.
func open(ctx context.Context, o opened) (*session, error) {
	s := &session{done: make(chan struct{}), changed: make(chan struct{}, 1), asks: o.asks}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	var transport sdk.Transport
	if o.server.URL != "" {
		s.remote = newRemote(o.server, o.public)
		transport = &sdk.StreamableClientTransport{
			Endpoint: o.server.URL, HTTPClient: s.remote.client(), OAuthHandler: o.oauth, MaxEventSize: maxMessage,
		}
	} else {
		var err error
		if s.program, transport, err = startProgram(o.server, o.log); err != nil {
			return s, fmt.Errorf("its program could not be started: %w", err)
		}
	}
	connecting, stop := context.WithTimeout(s.ctx, o.server.StartTimeout)
	defer stop()
	var options sdk.ClientSessionOptions
	if o.legacy {
		options.ProtocolVersion = oldProtocol
	}
	type result struct {
		client *sdk.ClientSession
		err    error
	}
	// Writing to a program that does not read ignores the context.
	connected := make(chan result, 1)
	go func() {
		c := sdk.NewClient(&sdk.Implementation{Name: "threadmill", Version: o.version}, s.options())
		c.AddSendingMiddleware(s.hollow)
		client, err := c.Connect(connecting, transport, &options)
		connected <- result{client, err}
	}()
	select {
	case r := <-connected:
		if r.err != nil {
			if connecting.Err() != nil && s.ctx.Err() == nil {
				return s, silent(o.server)
			}
			return s, r.err
		}
		s.client = r.client
	case <-connecting.Done():
		return s, silent(o.server)
	}
	go func() {
		s.err = s.client.Wait()
		close(s.done)
		s.cancel(errors.New("the connection has ended"))
	}()
	return s, nil
}

func silent(server Server) error {
	return caused{fmt.Errorf("it did not answer within %s", server.StartTimeout), context.DeadlineExceeded}
}

// unasked reports whether a server may have failed to start because it was asked for the new protocol.
func (s *session) unasked(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || s.program != nil && errors.Is(err, sdk.ErrConnectionClosed)
}

func (s *session) options() *sdk.ClientOptions {
	changed := func() {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
	o := &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}},
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler:          s.elicit,
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { changed() },
		PromptListChangedHandler:    func(context.Context, *sdk.PromptListChangedRequest) { changed() },
		ResourceListChangedHandler:  func(context.Context, *sdk.ResourceListChangedRequest) { changed() },
		ProgressNotificationHandler: s.progressed,
	}
	if s.remote != nil {
		// A program whose connection breaks is noticed, and a busy one does not answer.
		o.KeepAlive, o.KeepAliveFailureThreshold = keepAlive, keepAliveFailures
	}
	return o
}

// hello returns what the server said about itself.
func (s *session) hello() *sdk.InitializeResult {
	if r := s.client.InitializeResult(); r != nil {
		return r
	}
	return &sdk.InitializeResult{}
}

func (s *session) capabilities() *sdk.ServerCapabilities {
	if c := s.hello().Capabilities; c != nil {
		return c
	}
	return &sdk.ServerCapabilities{}
}

// needsLogin reports whether the server rejected the last request for lack of a login.
func (s *session) needsLogin() bool { return s.remote != nil && s.remote.login.Load() }

// endsWithin reports whether the session ends soon, or has ended.
func (s *session) endsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.ctx.Done():
		return true
	case <-timer.C:
		return false
	}
}

// why tells why the connection has ended or could not be established. Call it before close, which ends
// the program.
func (s *session) why(err error) string {
	if s.program != nil {
		if broken := s.program.in.broken(); broken != nil {
			return broken.Error()
		}
		if err == nil || errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, io.EOF) {
			select {
			case <-s.program.ended:
				return s.program.exit
			case <-time.After(stopGrace / 2):
			}
		}
	}
	if err == nil {
		return "the server closed the connection"
	}
	return err.Error()
}

// release ends the use of a session that [connection.acquire] has returned.
func (s *session) release() { s.calls.Done() }

// drain waits a short time for the calls that use the session. No call may begin to use it meanwhile.
func (s *session) drain(ctx context.Context) {
	idle := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(idle)
	}()
	timer := time.NewTimer(drainWithin)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-s.done:
	case <-ctx.Done():
	}
}

// close ends the connection with its program. It returns when no process remains.
func (s *session) close() {
	s.cancel(errors.New("the connection was closed"))
	if s.client != nil {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = s.client.Close()
		}()
		timer := time.NewTimer(closePatience)
		defer timer.Stop()
		select {
		case <-closed:
		case <-timer.C:
		}
	}
	if s.program != nil {
		s.program.close()
	}
	if s.remote != nil {
		s.remote.close()
	}
}
