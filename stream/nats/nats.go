package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/threadmill/threadmill/stream"
)

// Defaults of [Config].
const (
	DefaultStream   = "THREADMILL_LIVE"
	DefaultPrefix   = "threadmill"
	DefaultMaxBytes = 256 << 20
	MinMaxBytes     = 16 << 20
)

const (
	maxPending = 4096             // entries that are not yet acknowledged
	ackTimeout = 10 * time.Second // after which an entry counts as lost
	requestMax = 5 * time.Second  // for a request whose context has no deadline
	pingEvery  = 10 * time.Second // a connection without two answers in a row is lost
	overhead   = 4 << 10          // subject and headers of a message

	// stallWait is the longest wait of a step for a NATS that hangs. Then the circuit is open, and nothing waits.
	stallWait = 2 * time.Second
)

// Config configures [Open]. The zero value connects to a server on this machine.
type Config struct {
	// URL lists the servers, separated by commas. Default nats://127.0.0.1:4222.
	URL string

	// Stream is the name of the JetStream stream, which [Open] creates or updates. Default
	// [DefaultStream].
	Stream string

	// Prefix is the prefix of all subjects. Installations that share a NATS account need different
	// values of Prefix and Stream. Default [DefaultPrefix].
	Prefix string

	// Retention is how long entries are kept. Default [stream.DefaultRetention].
	Retention time.Duration

	// MaxBytes is the maximum memory of the log of all threads in NATS; the oldest entries are
	// removed first. Default [DefaultMaxBytes], at least [MinMaxBytes].
	MaxBytes int64

	// Replicas is the number of replicas in a cluster: 1, 3 or 5. Default 1.
	Replicas int

	// Options are options of the connection, such as credentials and TLS. The driver sets the
	// handlers of connection events.
	Options []natsgo.Option

	// Logger logs lost connections and lost entries. Default [slog.Default].
	Logger *slog.Logger
}

var (
	streamName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	prefixName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
)

func (c Config) withDefaults() (Config, error) {
	if c.URL == "" {
		c.URL = natsgo.DefaultURL
	}
	if c.Stream == "" {
		c.Stream = DefaultStream
	}
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Retention == 0 {
		c.Retention = stream.DefaultRetention
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	switch {
	case !streamName.MatchString(c.Stream):
		return c, fmt.Errorf("nats: Config.Stream %q: use letters, digits, - and _", c.Stream)
	case !prefixName.MatchString(c.Prefix):
		return c, fmt.Errorf("nats: Config.Prefix %q: use letters, digits, - and _, in parts separated by dots", c.Prefix)
	case c.Retention < time.Second:
		return c, fmt.Errorf("nats: Config.Retention %v: at least 1s", c.Retention)
	case c.MaxBytes < MinMaxBytes:
		return c, fmt.Errorf("nats: Config.MaxBytes %d: at least %d", c.MaxBytes, MinMaxBytes)
	case c.Replicas < 0 || c.Replicas > 5:
		return c, fmt.Errorf("nats: Config.Replicas %d: 1 to 5", c.Replicas)
	}
	return c, nil
}

// Stream is a [stream.Stream] on NATS.
type Stream struct {
	cfg  Config
	conn *natsgo.Conn
	js   jetstream.JetStream

	// away is the error of all calls while the circuit is open.
	away atomic.Pointer[error]

	done   chan struct{}
	losses losses

	mu     sync.Mutex
	closed bool
	lost   chan struct{}    // closed when the connection is lost, then replaced
	owed   map[string]int64 // the newest record that each subject's log could not announce
}

var _ stream.Stream = (*Stream)(nil)

// Open connects to NATS and creates the JetStream stream.
func Open(ctx context.Context, cfg Config) (*Stream, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Stream{cfg: cfg, done: make(chan struct{}), lost: make(chan struct{})}
	s.losses.keep = cfg.Retention
	if err := s.connect(); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		s.conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stream) connect() error {
	opts := append([]natsgo.Option{natsgo.Name("threadmill")}, s.cfg.Options...)
	opts = append(opts,
		natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(200*time.Millisecond),
		natsgo.ReconnectJitter(100*time.Millisecond, 500*time.Millisecond),
		natsgo.ReconnectBufSize(-1), // publishing fails at once rather than late
		natsgo.IgnoreAuthErrorAbort(),
		natsgo.PingInterval(pingEvery),
		natsgo.FlusherTimeout(stallWait),
		natsgo.ReconnectOnFlusherError(),
		natsgo.DisconnectErrHandler(s.disconnected),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
			s.cfg.Logger.Warn("live stream: NATS reports an error", "error", err)
		}),
	)
	conn, err := natsgo.Connect(s.cfg.URL, opts...)
	if err != nil {
		return fmt.Errorf("connect to NATS (Config.URL): %w", err)
	}
	s.conn = conn
	return nil
}

func (s *Stream) prepare(ctx context.Context) error {
	if got := s.conn.MaxPayload(); got < stream.MaxEntryBytes+overhead {
		return fmt.Errorf("NATS server accepts messages of at most %d bytes: set its max_payload to %d or more", got, stream.MaxEntryBytes+overhead)
	}
	var err error
	s.js, err = jetstream.New(s.conn,
		jetstream.WithPublishAsyncMaxPending(maxPending),
		jetstream.WithPublishAsyncTimeout(ackTimeout),
		jetstream.WithPublishAsyncErrHandler(s.publishFailed),
		jetstream.WithDefaultTimeout(requestMax),
	)
	if err != nil {
		return fmt.Errorf("JetStream client: %w", err)
	}
	if _, err := s.js.CreateOrUpdateStream(ctx, s.streamConfig()); err != nil {
		return fmt.Errorf("creating JetStream stream %s (is JetStream enabled, with %d bytes of memory?): %w", s.cfg.Stream, s.cfg.MaxBytes, err)
	}
	return nil
}

func (s *Stream) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        s.cfg.Stream,
		Description: "Threadmill live stream",
		Subjects:    []string{s.cfg.Prefix + liveInfix + ">"},
		Storage:     jetstream.MemoryStorage,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      s.cfg.Retention,
		MaxBytes:    s.cfg.MaxBytes,
		MaxMsgSize:  stream.MaxEntryBytes + overhead,
		Replicas:    s.cfg.Replicas,
		// Messages have no ids, so the server needs no table of them.
		Duplicates: min(time.Second, s.cfg.Retention),
	}
}

func (s *Stream) disconnected(_ *natsgo.Conn, err error) {
	s.mu.Lock()
	close(s.lost)
	s.lost = make(chan struct{})
	s.mu.Unlock()
	_ = s.trip(cmp.Or(err, natsgo.ErrDisconnected))
}

// info returns the state of the stream, and creates it if it is gone.
func (s *Stream) info(ctx context.Context) (jetstream.Stream, *jetstream.StreamInfo, error) {
	h, err := s.js.Stream(ctx, s.cfg.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if _, err = s.js.CreateStream(ctx, s.streamConfig()); err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			h, err = s.js.Stream(ctx, s.cfg.Stream)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("state of JetStream stream %s: %w", s.cfg.Stream, err)
	}
	return h, h.CachedInfo(), nil
}

// connection returns the channel that is closed when the present connection is lost.
func (s *Stream) connection() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// Ping checks the stream in NATS, and creates it if it is gone.
func (s *Stream) Ping(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	return s.ask(ctx, func(ctx context.Context) error {
		_, _, err := s.info(ctx)
		return err
	})
}

// Close ends all subscriptions with [stream.ErrClosed], waits up to two seconds for pending
// acknowledgements, and closes the connection.
func (s *Stream) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.done)
	s.mu.Unlock()
	select {
	case <-s.js.PublishAsyncComplete():
	case <-time.After(2 * time.Second):
	}
	s.conn.Close()
	return nil
}
