package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/threadmill/threadmill/internal/text/excerpt"
	"github.com/threadmill/threadmill/tool"
)

const (
	// connectWait is how long a call waits for a server that is being connected.
	connectWait = 10 * time.Second

	// slack is added to the runtime's timeout of a call, so that the tool itself ends a call that takes
	// too long.
	slack = 10 * time.Second

	// drainWithin is how long a restart waits for the calls that run.
	drainWithin = 5 * time.Second

	firstBackoff, maxBackoff = 500 * time.Millisecond, time.Minute

	// stableAfter is how long a connection must last for the back-off to begin again.
	stableAfter = time.Minute

	// loginBackoff is the delay before a server that needs a login is tried again.
	loginBackoff = 5 * time.Minute

	// Lists are read again when the server says that they changed: a few times at once, then rarely.
	refreshBurst  = 5
	refreshRefill = 30 * time.Second

	// States are stored after a short pause, and after a longer one if that fails.
	saveTimeout, savePause, saveRetry = 10 * time.Second, 500 * time.Millisecond, 10 * time.Second
)

// connection keeps one server connected.
type connection struct {
	key    account
	server Server
	source bool // declared at run time
	cfg    Config
	log    *slog.Logger
	hide   *strings.Replacer

	restarts chan struct{}
	dirty    chan struct{}
	stopped  chan struct{} // closed when no process remains
	cancel   context.CancelFunc

	mu      sync.Mutex
	state   State
	session *session      // while the server is ready
	changed chan struct{} // closed and replaced when the state changes
	wanted  string        // the last request to restart that was seen
	login   string        // identifies the login that the last attempt used
	tail    *tail
	asks    *asks
	listTTL time.Duration
}

func newConnection(cfg Config, k account, s Server, source bool) *connection {
	return &connection{
		key: k, server: s, source: source, cfg: cfg, hide: secrets(s),
		log:      cfg.Logger.With("mcpServer", s.Name),
		restarts: make(chan struct{}, 1), dirty: make(chan struct{}, 1), stopped: make(chan struct{}),
		changed: make(chan struct{}), state: unknown(k.key, s, tool.ServerConnecting), tail: &tail{}, asks: newAsks(),
	}
}

// public reports whether the server must have a public address.
func (c *connection) public() bool { return c.source && !c.cfg.SourcePrivate }

// unknown is the state of a server of which nothing else is known.
func unknown(k key, s Server, status Status) State {
	return State{
		Name: s.Name, Namespace: k.namespace, Description: s.Description, Transport: s.Transport(), Address: s.Address(),
		Trusted: s.Trusted, Status: status, Since: time.Now().UTC(), Tools: []Tool{},
	}
}

// secrets replaces the secrets of a server in texts.
func secrets(s Server) *strings.Replacer {
	const short = 7 // shorter values would also hide other things
	var pairs []string
	for _, values := range []map[string]Secret{s.Env, s.Headers} {
		for _, value := range values {
			if len(value) > short {
				pairs = append(pairs, string(value), "[hidden]")
			}
		}
	}
	if s.URL != "" && s.URL != s.Address() {
		pairs = append(pairs, s.URL, s.Address())
	}
	return strings.NewReplacer(pairs...)
}

// text makes a text of a server, or about it, presentable.
func (c *connection) text(text string, limit int) string {
	return clean(c.cfg.Redact.Text(c.hide.Replace(text)), limit)
}

// run keeps the server connected until ctx is done.
func (c *connection) run(ctx context.Context) {
	defer close(c.stopped)
	saved := make(chan struct{})
	saving, stopSaving := context.WithCancel(context.WithoutCancel(ctx))
	c.restore(ctx)
	go func() {
		defer close(saved)
		c.save(saving)
	}()
	defer func() {
		c.update(func(s *State) { s.Error, s.NextAttempt = "", nil }, tool.ServerStopped)
		stopSaving()
		<-saved
	}()
	attempts, legacy := 0, false
	for {
		c.update(func(s *State) { s.NextAttempt = nil }, tool.ServerConnecting)
		began := time.Now()
		err := c.once(ctx, &legacy)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errRestart) {
			attempts = 0
			c.update(func(s *State) { s.Restarts++; s.Error = "" }, tool.ServerConnecting)
			continue
		}
		if time.Since(began) >= stableAfter {
			attempts = 0
		}
		status, delay := tool.ServerFailed, backoff(attempts)
		if errors.Is(err, errLogin) {
			status, delay = tool.ServerNeedsLogin, loginBackoff
		}
		attempts++
		next := time.Now().Add(delay).UTC()
		c.log.Warn("MCP server cannot be reached", "err", c.text(err.Error(), maxError), "attempt", attempts, "next", next)
		c.update(func(s *State) {
			s.Error, s.NextAttempt, s.Log = c.text(err.Error(), maxError), &next, c.text(c.tail.String(), maxLog)
		}, status)
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-c.restarts:
			attempts = 0
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		c.update(func(s *State) { s.Restarts++ }, tool.ServerConnecting)
	}
}

var (
	errRestart = errors.New("it was restarted")
	errLogin   = errors.New("it needs a login: the server rejects requests without one (401)")
)

// backoff returns the delay before the next attempt: it doubles each time, and differs between workers.
func backoff(attempts int) time.Duration {
	d := maxBackoff
	if attempts < 8 {
		d = min(firstBackoff<<attempts, maxBackoff)
	}
	return d/2 + rand.N(d/2+1)
}

// once connects to the server and returns when the connection has ended. legacy is whether to offer the old
// protocol only: some servers fail when they are asked for the new one.
func (c *connection) once(ctx context.Context, legacy *bool) (err error) {
	o := opened{server: c.server, version: c.cfg.Version, legacy: *legacy, public: c.public(), log: c.tail, asks: c.asks}
	if o.oauth, err = c.authorize(ctx); err != nil {
		return err
	}
	s, err := open(ctx, o)
	defer s.close()
	if err != nil {
		if s.unasked(err) {
			*legacy = !*legacy
		}
		return c.reason(s, err)
	}
	if err := c.refresh(s); err != nil {
		return c.reason(s, err)
	}
	// Before any call can be planned: after a restart, what waits for the server's login needs its tool.
	if err := c.saveNow(ctx); err != nil {
		c.log.Warn("the state of an MCP server could not be stored", "err", err)
	}
	c.ready(s)
	defer c.lost()
	return c.watch(ctx, s)
}

// reason returns the error of a connection for people.
func (c *connection) reason(s *session, err error) error {
	var login *LoginError
	switch {
	case errors.As(err, &login):
		return login
	case s.needsLogin():
		return errLogin
	}
	return errors.New(s.why(err))
}

// watch returns when the connection has ended, and reads lists again when they change.
func (c *connection) watch(ctx context.Context, s *session) error {
	refreshes, refilled := refreshBurst, time.Now()
	var pending <-chan time.Time // when lists are read again
	var expired <-chan time.Time
	expire := func() {
		if ttl := c.ttl(); ttl > 0 {
			expired = time.After(ttl + time.Second)
		}
	}
	expire()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.restarts:
			s.drain(ctx)
			return errRestart
		case <-s.done:
			return c.reason(s, s.err)
		case <-s.changed:
			if pending != nil {
				continue
			}
			if n := int(time.Since(refilled) / refreshRefill); n > 0 {
				refreshes, refilled = min(refreshes+n, refreshBurst), time.Now()
			}
			delay := refreshRefill
			if refreshes > 0 {
				refreshes--
				delay = 50 * time.Millisecond // servers often change several things at once
			}
			pending = time.After(delay)
		case <-pending:
			pending = nil
			if err := c.refreshReady(s); err != nil {
				return err
			}
			expire()
		case <-expired:
			expired = nil
			if err := c.refreshReady(s); err != nil {
				return err
			}
			expire()
		}
	}
}

// refreshReady reads lists again. A server that is busy keeps its connection and its lists.
func (c *connection) refreshReady(s *session) error {
	err := c.refresh(s)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		c.update(func(st *State) {
			st.Problems = append(st.Problems, Problem{Subject: "lists", Reason: line(fmt.Sprintf("the server did not list its tools within %s; the last list is offered", c.server.StartTimeout), maxReason)})
		}, "")
		return nil
	}
	return c.reason(s, err)
}

// refresh reads what the server offers.
func (c *connection) refresh(s *session) error {
	ctx, cancel := context.WithTimeout(s.ctx, c.server.StartTimeout)
	defer cancel()
	l, err := s.list(ctx, c.server, c.cfg.Redact)
	if err != nil {
		if s.ctx.Err() == nil && ctx.Err() != nil {
			return caused{fmt.Errorf("it did not list its tools within %s", c.server.StartTimeout), context.DeadlineExceeded}
		}
		return err
	}
	now := time.Now().UTC()
	hello := s.hello()
	c.mu.Lock()
	history(now, c.state.Tools, l.tools)
	known := c.state.Problems
	c.mu.Unlock()
	for _, p := range l.problems {
		if !slices.Contains(known, p) { // lists are read often
			c.log.Warn("MCP server has a problem", "subject", p.Subject, "reason", p.Reason)
		}
	}
	c.update(func(st *State) {
		st.Tools, st.Resources, st.Prompts, st.Problems, st.ListedAt = l.tools, l.resources, l.prompts, l.problems, &now
		if st.Tools == nil {
			st.Tools = []Tool{}
		}
		st.ProtocolVersion = l.line(hello.ProtocolVersion, maxTitle)
		st.Instructions = c.text(hello.Instructions, maxInstructions)
		st.ServerName, st.ServerVersion = "", ""
		if i := hello.ServerInfo; i != nil {
			st.ServerName, st.ServerVersion = l.line(i.Name, maxTitle), l.line(i.Version, maxTitle)
		}
	}, "")
	c.setTTL(s, l.ttl)
	return nil
}

func (c *connection) ttl() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listTTL
}

func (c *connection) setTTL(s *session, ttl time.Duration) {
	caps := s.capabilities()
	if ttl == 0 && caps.Tools != nil && !caps.Tools.ListChanged {
		ttl = maxTTL // nothing else would tell
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listTTL = ttl
}

func (c *connection) ready(s *session) {
	c.mu.Lock()
	if len(c.restarts) == 0 { // otherwise it ends at once
		c.session = s
	}
	c.mu.Unlock()
	c.update(func(st *State) { st.Error, st.NextAttempt, st.Log = "", nil, c.text(c.tail.String(), maxLog) }, tool.ServerReady)
	c.log.Info("MCP server is ready", "tools", len(c.snapshot().Tools), "protocol", s.hello().ProtocolVersion)
}

func (c *connection) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
}

// update changes the state. An empty status leaves it as it is.
func (c *connection) update(change func(*State), status Status) {
	c.mu.Lock()
	change(&c.state)
	c.state.Worker = c.cfg.Worker
	if status != "" && status != c.state.Status {
		c.state.Status, c.state.Since = status, time.Now().UTC()
	}
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	c.touch()
}

func (c *connection) snapshot() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// restore takes over what the catalog knows, so that tools are offered before the server is ready.
func (c *connection) restore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	states, err := c.cfg.Catalog.Load(ctx, c.key.namespace)
	if err != nil {
		c.log.Warn("the catalog of MCP servers cannot be read", "err", err)
		return
	}
	wanted, err := c.cfg.Catalog.Restart(ctx, c.key.namespace, c.key.name)
	if err != nil {
		c.log.Warn("the catalog of MCP servers cannot be read", "err", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = wanted
	for _, s := range states {
		if s.Name == c.key.name {
			c.state.Tools, c.state.Resources, c.state.Prompts = s.Tools, s.Resources, s.Prompts
			c.state.Problems, c.state.ListedAt = s.Problems, s.ListedAt
		}
	}
	if c.state.Tools == nil {
		c.state.Tools = []Tool{}
	}
}

// save stores the state whenever it has changed, until ctx is done, and then once more.
func (c *connection) save(ctx context.Context) {
	for {
		select {
		case <-c.dirty:
		case <-ctx.Done():
			c.saveLast(ctx)
			return
		}
		pause := savePause
		if err := c.saveNow(ctx); err != nil {
			c.log.Warn("the state of an MCP server could not be stored", "err", err)
			pause = saveRetry
			c.touch()
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (c *connection) saveNow(ctx context.Context) error {
	s := c.snapshot()
	if c.key.user != "" && s.Status != tool.ServerReady {
		return nil // all people share the state, which keeps what the server has listed last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	return c.cfg.Catalog.Save(ctx, s)
}

// touch makes the state be stored.
func (c *connection) touch() {
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

// saveLast stores that the server has stopped, unless another worker runs it now.
func (c *connection) saveLast(ctx context.Context) {
	if c.key.user != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	states, err := c.cfg.Catalog.Load(ctx, c.key.namespace)
	if err != nil {
		return
	}
	for _, s := range states {
		if s.Name == c.key.name && s.Worker != c.cfg.Worker {
			return
		}
	}
	_ = c.cfg.Catalog.Save(ctx, c.snapshot())
}

// restart connects to the server again. Calls that begin from now on wait for the next session, and those that run
// have a short time to finish: a session that ends under a call leaves it open whether it took effect.
func (c *connection) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
	select {
	case c.restarts <- struct{}{}:
	default:
	}
}

// follow restarts the server if another process has asked for it.
func (c *connection) follow(ctx context.Context) {
	id, err := c.cfg.Catalog.Restart(ctx, c.key.namespace, c.key.name)
	c.mu.Lock()
	again := err == nil && id != c.wanted
	if again {
		c.wanted = id
	}
	c.mu.Unlock()
	if again {
		c.restart()
	}
}

// unavailable is the error of a call to a server that cannot be reached.
type unavailable struct {
	server string
	state  State
	login  string // the one with which it was tried
}

func (e *unavailable) Error() string {
	text := fmt.Sprintf("the MCP server %q cannot be reached now (%s)", e.server, e.state.Status)
	if e.state.Error != "" {
		text += ": " + excerpt.Start(e.state.Error, maxReason)
	}
	if e.state.NextAttempt != nil {
		text += fmt.Sprintf(". The next attempt to connect is at %s", e.state.NextAttempt.Format(time.TimeOnly)+" UTC")
	}
	return text
}

// acquire returns the session of a server that is ready, and waits a short time for one that is being
// connected. The caller releases it.
func (c *connection) acquire(ctx context.Context, wait time.Duration) (*session, error) {
	deadline := time.Now().Add(wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		c.mu.Lock()
		s, changed := c.session, c.changed
		down := &unavailable{c.key.name, c.state, c.login}
		usable := s != nil && s.ctx.Err() == nil
		if usable {
			s.calls.Add(1)
		}
		c.mu.Unlock()
		if usable {
			return s, nil
		}
		soon := down.state.NextAttempt == nil || down.state.NextAttempt.Before(deadline)
		if down.state.Status == tool.ServerStopped || down.state.Status == tool.ServerNeedsLogin || !soon {
			return nil, down
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, down
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
