package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// soakEnv is the variable with the duration of the soak, such as 1h. Without it, each kind of fault
// occurs once.
const soakEnv = "THREADMILL_SOAK"

// The seed makes the choices of clients the same in each run.
const (
	soakSeed    = 11
	soakSlots   = 3                // open threads
	soakClients = 3                // clients of each thread
	soakAnswer  = 15 * time.Second // a client's timeout for a response
	soakOver    = 10 * time.Minute // until all accepted posts are processed
	soakReport  = time.Minute      // between two lines of progress
)

// soakPace is the time between two bursts of a client, and the number of accepted posts between two
// faults. A long soak is so slow that an hour of it does not fill a disk.
type soakPace struct {
	think    time.Duration
	accepted int64
	thread   int // accepted posts before a thread may be closed
}

var soakSecrets = []string{"TICKS_SECRET=k"}

// soakConfig has a rule for ticks without an agent, so that they cost no model call.
const soakConfig = `version: 1
agents:
  - {name: assistant, model: demo/demo}
rules:
  - {name: ticks, events: tick, priority: 20, log: true}
webhooks:
  - name: ticks
    signature: github
    secretEnv: TICKS_SECRET
    event: {type: tick, thread: "{payload.thread}", id: "{payload.id}", open: true}
`

// fault is a failure while clients post.
type fault func()

// soak is a running server with clients, and the responses to them.
type soak struct {
	t        *testing.T
	server   *proc.Devserver
	db       store.Store
	proxy    *proc.Proxy // in front of the database; nil if that is a file
	temporal client.Client
	http     *http.Client
	ways     []way
	pace     soakPace
	long     time.Duration
	slots    []*slot
	random   *rand.Rand // of the faults
	floods   int

	// accounts are the accounts of closed threads.
	accounts sync.WaitGroup
	figures  figures

	// complain reports an error in a thread.
	complain func(format string, args ...any)
}

// TestSoak posts known texts over every entry point, while it kills and stops servers and closes
// threads. Each accepted text is stored and processed once, or kept as a failed event with its
// content; those of one client are processed in order.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Run("the server with its Temporal", func(t *testing.T) {
		t.Parallel()
		s := newSoak(t)
		s.server = proc.New(t, proc.Options{Binary: proc.Build(t), Config: soakConfig, Env: soakSecrets})
		s.server.Start()
		db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(s.server.Data, "threadmill.db")})
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		s.db = db
		s.run([]fault{s.flood, s.close, s.killStarting}, s.kill, s.close)
	})
	t.Run("the server, and its database", func(t *testing.T) {
		t.Parallel()
		u, err := url.Parse(harness.Database(t))
		require.NoError(t, err)
		s := newSoak(t)
		s.db, err = postgres.Open(t.Context(), postgres.Config{URL: u.String()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.db.Close() })
		s.proxy = proc.NewProxy(t, u.Host)
		u.Host = s.proxy.Addr
		own := proc.NewTemporal(t, proc.TemporalConfig{DataDir: t.TempDir(), SearchAttributes: searchattr.Types()})
		s.server = proc.NewWorker(t, proc.Options{
			Binary: proc.BuildWorker(t), Config: soakConfig, Env: append([]string{"DATABASE_URL=" + u.String()}, soakSecrets...),
		}, own.Addr())
		s.server.Start()
		s.run([]fault{s.cut, s.flood, s.close, s.killFrozen}, s.kill, s.freeze, s.close, s.killStarting)
	})
}

func newSoak(t *testing.T) *soak {
	s := &soak{
		t: t, complain: t.Errorf, http: &http.Client{Timeout: soakAnswer}, pace: soakPace{think: 10 * time.Millisecond, accepted: 30, thread: 20},
		random: rand.New(rand.NewPCG(soakSeed, 0)),
	}
	s.figures.counts = map[string]int{}
	if text := os.Getenv(soakEnv); text != "" {
		var err error
		s.long, err = time.ParseDuration(text)
		require.NoError(t, err, soakEnv)
		s.pace = soakPace{think: 2 * time.Second, accepted: 200, thread: 200}
	}
	for i := range soakSlots {
		s.slots = append(s.slots, &slot{name: fmt.Sprintf("soak-%d", i)})
	}
	return s
}

// run lets the faults occur, once each or, in a long soak, again and again with others, and
// settles.
func (s *soak) run(faults []fault, others ...fault) {
	if s.long > 0 {
		faults = append(faults, others...)
	}
	s.temporal = s.dial()
	s.ways = s.allWays()
	for _, sl := range s.slots {
		s.open(sl)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	var posting sync.WaitGroup
	for i, sl := range s.slots {
		for c := range soakClients {
			p := newPoster(s, sl, i*soakClients+c)
			posting.Go(func() { p.post(ctx) })
		}
	}
	began, reported := time.Now(), time.Now()
	for round := 0; round == 0 || time.Since(began) < s.long && !s.t.Failed(); round++ {
		for _, f := range faults {
			s.awaitAccepted(s.pace.accepted)
			f()
			if time.Since(reported) > soakReport {
				reported = time.Now()
				s.progress(began)
			}
		}
	}
	s.awaitAccepted(s.pace.accepted)
	stop()
	posting.Wait()
	s.settle()
	s.progress(began)
	s.t.Log(s.figures.table())
	for _, what := range wrongs {
		require.Zero(s.t, s.figures.of(what), what)
	}
}

// progress prints the figures, immediately if the test runs with -v.
func (s *soak) progress(began time.Time) {
	s.t.Logf("after %s: %s", time.Since(began).Round(time.Second), s.figures.line())
}

func (s *soak) dial() client.Client {
	c, err := client.Dial(client.Options{
		HostPort: s.server.Temporal, Logger: log.NewStructuredLogger(harness.Quiet),
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: testenv.Patience},
	})
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

// awaitAccepted waits until n more posts are accepted.
func (s *soak) awaitAccepted(n int64) { s.awaitMore(&s.figures.accepted, n) }

// awaitAnswers waits until n more posts have responses or were given up.
func (s *soak) awaitAnswers(n int64) { s.awaitMore(&s.figures.answers, n) }

// kill kills the server, and starts it again when clients have noticed.
func (s *soak) kill() {
	s.figures.count("kills")
	s.server.Kill()
	s.awaitAnswers(2 * soakClients)
	s.server.Start()
}

// killStarting kills the server once more while it starts.
func (s *soak) killStarting() {
	s.figures.count("kills")
	s.server.Kill()
	s.server.Launch()
	s.awaitAnswers(s.random.Int64N(2 * soakClients))
	s.kill()
}

// cut disconnects the database until the server has tried several times to reach it.
func (s *soak) cut() {
	s.figures.count("database stops")
	before := s.proxy.Refused.Load()
	s.proxy.Cut()
	s.await("the server misses the database", func() bool { return s.proxy.Refused.Load() >= before+5 })
	s.proxy.Mend()
}

// freeze keeps the database from responding while it has work.
func (s *soak) freeze() {
	s.frozen(func() {})
}

// killFrozen kills the server while it waits for the database, which then executes the requests.
func (s *soak) killFrozen() {
	s.frozen(func() {
		s.figures.count("kills")
		s.server.Kill()
	})
	s.server.Start()
}

func (s *soak) frozen(meanwhile func()) {
	s.figures.count("database stops")
	before := s.proxy.Kept.Load()
	s.proxy.Freeze()
	s.await("the server waits for the database", func() bool { return s.proxy.Kept.Load() > before })
	s.awaitAnswers(2 * soakClients)
	meanwhile()
	s.proxy.Thaw()
}

// close closes the thread with the most posts, while clients post to it, and replaces it.
func (s *soak) close() {
	sl := s.slots[0]
	for _, other := range s.slots {
		if other.posts() > sl.posts() {
			sl = other
		}
	}
	s.await("a thread has had enough", func() bool { return sl.posts() >= s.pace.thread })
	s.figures.count("closed threads")
	l := sl.thread()
	s.await("the thread is closed", func() bool {
		status := s.server.Try(s.t.Context(), http.MethodDelete, "/v1/threads/"+l.id, nil, nil)
		return status == http.StatusAccepted || status == http.StatusConflict
	})
	s.awaitAnswers(2 * soakClients) // some of them are too late
	s.open(sl)
	s.accounts.Go(func() {
		l.posting.Wait()
		s.awaitEnd(l)
		s.account(l, true)
	})
}

// flood posts more signals than a queue holds, while the thread is busy.
func (s *soak) flood() {
	s.floods++
	p := newPoster(s, s.slots[s.random.IntN(len(s.slots))], -s.floods)
	l := p.slot.enter()
	defer l.posting.Done()
	p.one(s.t.Context(), l, s.byName("message"), "\ncount 20 every 100ms")
	for range 8 {
		p.one(s.t.Context(), l, s.byName("signal"), padding)
	}
}

// settle waits until all posts are processed, and accounts for them.
func (s *soak) settle() {
	for _, sl := range s.slots {
		l := sl.thread()
		s.awaitIdle(l)
		s.account(l, false)
	}
	s.accounts.Wait()
}
