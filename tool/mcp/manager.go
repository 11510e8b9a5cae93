package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/threadmill/threadmill/tool"
)

const (
	// sourceTTL is how long the servers of a namespace are used before the source is asked again.
	sourceTTL = 3 * time.Second

	// catalogTTL is how long states that other processes have stored are used.
	catalogTTL = time.Second

	// idleAfter is how long the servers of a namespace that nobody uses stay connected.
	idleAfter = time.Hour

	// firstListWait is how long the tools of a server that has never been listed are waited for.
	firstListWait = 5 * time.Second
)

// Manager connects to MCP servers and provides their tools. It implements [tool.Source].
type Manager struct {
	cfg       Config
	idleAfter time.Duration

	mu          sync.Mutex
	running     context.Context // set by Run
	started     chan struct{}   // closed by Run
	namespaces  map[string]*namespace
	connections map[account]*connection
	users       map[account]time.Time // when a person used a server last
	ending      sync.WaitGroup
}

// namespace is what a namespace declares at run time, and what the catalog knows about it.
type namespace struct {
	usedAt       time.Time // the lock of the manager protects these
	reconciledAt time.Time

	mu       sync.Mutex
	readAt   time.Time
	declared []declaration
	loadedAt time.Time
	states   []State
}

// declaration is a declared server.
type declaration struct {
	key    key
	server Server
	source bool
	err    error // why the server cannot be used
}

// New returns a manager. It connects to nothing before Run.
func New(cfg Config) (*Manager, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg, idleAfter: idleAfter, started: make(chan struct{}), namespaces: map[string]*namespace{"": {}}, connections: map[account]*connection{}, users: map[account]time.Time{}}, nil
}

// Run keeps the local servers connected until ctx is done. When it returns, no process of a server
// remains. Run can be called once.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.running != nil {
		m.mu.Unlock()
		return errors.New("mcp: Run was called twice")
	}
	m.running = ctx
	close(m.started)
	m.mu.Unlock()
	ticker := time.NewTicker(sourceTTL)
	defer ticker.Stop()
	for {
		m.mu.Lock()
		known := slices.Collect(maps.Keys(m.namespaces))
		connections := slices.Collect(maps.Values(m.connections))
		m.mu.Unlock()
		for _, ns := range known {
			if !m.forget(ns) {
				m.reconcile(ctx, ns)
			}
		}
		for _, c := range connections {
			c.follow(ctx)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			m.ending.Wait()
			return nil
		}
	}
}

// awaitRun waits a short time for Run, which a worker starts beside its first calls.
func (m *Manager) awaitRun(ctx context.Context) {
	timer := time.NewTimer(connectWait)
	defer timer.Stop()
	select {
	case <-m.started:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Refresh reads what a namespace declares again, at once.
func (m *Manager) Refresh(ctx context.Context, namespace string) {
	m.used(namespace)
	ns := m.namespace(namespace)
	ns.mu.Lock()
	ns.readAt, ns.loadedAt = time.Time{}, time.Time{}
	ns.mu.Unlock()
	m.reconcile(ctx, namespace)
}

func (m *Manager) namespace(name string) *namespace {
	m.mu.Lock()
	defer m.mu.Unlock()
	ns, known := m.namespaces[name]
	if !known {
		ns = &namespace{}
		m.namespaces[name] = ns
	}
	return ns
}

// used notes that somebody uses a namespace.
func (m *Manager) used(name string) {
	ns := m.namespace(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	ns.usedAt = time.Now()
}

// forget ends the connections of a namespace that nobody has used for long, and reports whether it did.
func (m *Manager) forget(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == "" || time.Since(m.namespaces[name].usedAt) < m.idleAfter {
		return false
	}
	delete(m.namespaces, name)
	for k, c := range m.connections {
		if k.namespace == name {
			delete(m.connections, k)
			c.cancel()
		}
	}
	return true
}

// declarations returns the servers of a namespace itself: those for all namespaces have the namespace "".
func (m *Manager) declarations(ctx context.Context, name string) ([]declaration, error) {
	configured := m.configured(name)
	if name == "" || m.cfg.Source == nil {
		return configured, nil
	}
	ns := m.namespace(name)
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if time.Since(ns.readAt) < sourceTTL {
		return ns.declared, nil
	}
	servers, err := m.cfg.Source.Servers(ctx, name)
	if err != nil {
		return append(configured, ns.declared...), fmt.Errorf("reading the MCP servers of namespace %q: %w", name, err)
	}
	ns.declared, ns.readAt = configured, time.Now()
	taken := map[string]bool{}
	for _, s := range servers {
		d := declaration{key: key{name, s.Name}, server: s.WithDefaults(), source: true, err: s.Validate()}
		switch {
		case d.err != nil:
		case taken[s.Name]:
			continue
		case slices.ContainsFunc(m.cfg.Servers, func(o Server) bool { return o.Name == s.Name }):
			d.err = fmt.Errorf("the name %q belongs to a server for all namespaces: choose another", s.Name)
		case len(s.Command) > 0 && !m.cfg.SourceCommands:
			d.err = errors.New("programs are not permitted here: only servers with a url can be declared at run time")
		case s.Login != nil && m.cfg.Logins == nil:
			d.err = errors.New("logins are not set up here: the operator sets a key to encrypt them with")
		}
		taken[s.Name] = true
		ns.declared = append(ns.declared, d)
	}
	return ns.declared, nil
}

// configured returns the servers of the configuration that a namespace has connections to. Those with a login
// have one for each namespace.
func (m *Manager) configured(namespace string) []declaration {
	var out []declaration
	for _, s := range m.cfg.Servers {
		if (s.Login != nil) == (namespace != "") {
			out = append(out, declaration{key: key{namespace, s.Name}, server: s})
		}
	}
	return out
}

// usedBy notes that a person uses a server.
func (m *Manager) usedBy(a account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users[a] = time.Now()
}

// accounts returns the connections that a server needs: one, or one for each person who uses it. While nobody
// does, anybody's tells which tools there are.
func (m *Manager) accounts(ctx context.Context, d declaration) []account {
	if !d.server.personal() {
		return []account{{key: d.key}}
	}
	if used := m.usedAccounts(d.key); len(used) > 0 {
		return used
	}
	user, err := m.cfg.Logins.AnyUser(ctx, d.key.namespace, d.server)
	if err != nil {
		m.cfg.Logger.Warn("the logins of an MCP server cannot be read", "mcpServer", d.key.name, "err", err)
	}
	if user == "" {
		return nil
	}
	return []account{{d.key, user}}
}

// usedAccounts returns the accounts of the people who have used a server in the last time.
func (m *Manager) usedAccounts(k key) (out []account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for a, at := range m.users {
		switch {
		case a.key != k:
		case time.Since(at) > m.idleAfter:
			delete(m.users, a)
		default:
			out = append(out, a)
		}
	}
	return out
}

// reconcile starts and stops connections, so that they are those to the declared servers.
func (m *Manager) reconcile(ctx context.Context, name string) {
	m.mu.Lock()
	running := m.running
	m.mu.Unlock()
	if running == nil || running.Err() != nil {
		return
	}
	declared, err := m.declarations(ctx, name)
	if err != nil {
		m.cfg.Logger.Warn("MCP servers cannot be read", "err", err)
		return
	}
	ns := m.namespace(name)
	want := map[account]declaration{}
	for _, d := range declared {
		if d.err != nil || !m.cfg.Local(d.server) {
			continue
		}
		for _, a := range m.accounts(ctx, d) {
			want[a] = d
		}
	}
	m.mu.Lock()
	if running.Err() != nil { // Run no longer waits for new connections
		m.mu.Unlock()
		return
	}
	ns.reconciledAt = time.Now()
	var removed []*connection
	for k, c := range m.connections {
		if k.namespace != name {
			continue
		}
		if d, keep := want[k]; keep && reflect.DeepEqual(d.server, c.server) {
			delete(want, k)
			continue
		}
		delete(m.connections, k)
		removed = append(removed, c)
		c.cancel()
	}
	for k, d := range want {
		c := newConnection(m.cfg, k, d.server, d.source)
		var connected context.Context
		connected, c.cancel = context.WithCancel(running)
		m.connections[k] = c
		m.ending.Add(1)
		before := slices.DeleteFunc(slices.Clone(removed), func(o *connection) bool { return o.key != k })
		go func() {
			defer m.ending.Done()
			for _, old := range before {
				<-old.stopped
			}
			c.run(connected)
		}()
	}
	m.mu.Unlock()
	for _, c := range removed {
		if slices.ContainsFunc(declared, func(d declaration) bool { return d.key == c.key.key }) {
			continue
		}
		<-c.stopped
		if err := m.cfg.Catalog.Delete(ctx, c.key.namespace, c.key.name); err != nil {
			m.cfg.Logger.Warn("the state of a removed MCP server could not be deleted", "mcpServer", c.key.name, "err", err)
		}
	}
}

// all returns the servers that a namespace can use, ordered by name.
func (m *Manager) all(ctx context.Context, namespace string) ([]declaration, error) {
	out, _ := m.declarations(ctx, "")
	var err error
	if namespace != "" {
		var own []declaration
		m.used(namespace)
		own, err = m.declarations(ctx, namespace)
		out = append(out, own...)
		if m.stale(namespace) {
			m.reconcile(ctx, namespace)
		}
	}
	slices.SortStableFunc(out, func(a, b declaration) int { return strings.Compare(a.key.name, b.key.name) })
	return out, err
}

// stale reports whether the connections of a namespace have not been compared with its servers for a while.
func (m *Manager) stale(name string) bool {
	ns := m.namespace(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(ns.reconciledAt) >= catalogTTL
}

func (m *Manager) connection(a account) *connection {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.connections[a]
}

// anyConnection returns a connection to a server, whoever it belongs to.
func (m *Manager) anyConnection(k key) *connection {
	m.mu.Lock()
	defer m.mu.Unlock()
	for a, c := range m.connections {
		if a.key == k {
			return c
		}
	}
	return nil
}

// stored returns the states of a namespace in the catalog.
func (m *Manager) stored(ctx context.Context, name string) ([]State, error) {
	ns := m.namespace(name)
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if time.Since(ns.loadedAt) < catalogTTL {
		return ns.states, nil
	}
	states, err := m.cfg.Catalog.Load(ctx, name)
	if err != nil {
		return ns.states, fmt.Errorf("reading the states of MCP servers: %w", err)
	}
	ns.states, ns.loadedAt = states, time.Now()
	return states, nil
}

// state returns what is known about a server.
func (m *Manager) state(ctx context.Context, d declaration) (State, error) {
	if d.err != nil {
		s := unknown(d.key, d.server, tool.ServerFailed)
		s.Error = line(d.err.Error(), maxError)
		return s, nil
	}
	if c := m.connection(account{key: d.key}); c != nil {
		return c.snapshot(), nil
	}
	states, err := m.stored(ctx, d.key.namespace)
	for _, s := range states {
		if s.Name == d.key.name {
			return s, err
		}
	}
	if d.server.personal() {
		return unknown(d.key, d.server, tool.ServerNeedsLogin), err
	}
	return unknown(d.key, d.server, tool.ServerUnknown), err
}

// States returns the states of all servers that a namespace can use, ordered by name.
func (m *Manager) States(ctx context.Context, namespace string) ([]State, error) {
	declared, err := m.all(ctx, namespace)
	if err != nil {
		return nil, err
	}
	out := make([]State, 0, len(declared))
	for _, d := range declared {
		s, err := m.state(ctx, d)
		if err != nil {
			return nil, err
		}
		s.Tools = slices.Clone(s.Tools)
		out = append(out, s)
	}
	return out, nil
}

// ErrNoServer means that a namespace has no server of a name.
var ErrNoServer = errors.New("there is no such MCP server")

func (m *Manager) find(ctx context.Context, namespace, name string) (declaration, error) {
	declared, err := m.all(ctx, namespace)
	if i := slices.IndexFunc(declared, func(d declaration) bool { return d.key.name == name && d.err == nil }); i >= 0 {
		return declared[i], nil
	}
	if err != nil {
		return declaration{}, err
	}
	return declaration{}, fmt.Errorf("%w: %.40q", ErrNoServer, name)
}

// Restart connects to a server again, in the process that runs it.
func (m *Manager) Restart(ctx context.Context, namespace, name string) error {
	d, err := m.find(ctx, namespace, name)
	if err != nil {
		return err
	}
	if c := m.connection(account{key: d.key}); c != nil {
		c.restart()
		return nil
	}
	return m.cfg.Catalog.RequestRestart(ctx, d.key.namespace, d.key.name)
}

// Tools implements [tool.Source]. Tools that a server has listed are provided also while it is down.
func (m *Manager) Tools(ctx context.Context, namespace string, patterns []string) []tool.Tool {
	declared, err := m.all(ctx, namespace)
	if err != nil {
		m.cfg.Logger.Warn("MCP servers cannot be read", "err", err)
	}
	var out []tool.Tool
	for _, d := range declared {
		if d.err != nil || !mayMatch(patterns, d.key.name) {
			continue
		}
		m.awaitFirstList(ctx, d.key)
		s, err := m.state(ctx, d)
		if err != nil {
			m.cfg.Logger.Warn("the state of an MCP server cannot be read", "mcpServer", d.key.name, "err", err)
		}
		for _, t := range s.Tools {
			if matches(patterns, t.Name) {
				out = append(out, &serverTool{m: m, declaration: d, tool: t, definition: definition(d.server, t)})
			}
		}
	}
	slices.SortFunc(out, func(a, b tool.Tool) int { return strings.Compare(a.Definition().Name, b.Definition().Name) })
	return out
}

func mayMatch(patterns []string, server string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return strings.HasPrefix(p, server+separator) })
}

// awaitFirstList waits a short time for the tools of a server that starts and has never been listed.
func (m *Manager) awaitFirstList(ctx context.Context, k key) {
	c := m.anyConnection(k)
	if c == nil {
		return
	}
	timer := time.NewTimer(firstListWait)
	defer timer.Stop()
	for {
		c.mu.Lock()
		listed, status, changed := c.state.ListedAt, c.state.Status, c.changed
		c.mu.Unlock()
		if listed != nil || status != tool.ServerConnecting {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
