package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// tickType is the type of the events of a burst. A rule keeps them from agents.
const tickType = "tick"

// burstWithin bounds a burst with its processing.
const burstWithin = 15 * time.Minute

// burst compares turns of threads beside a thread that receives a burst of events with turns
// without the burst.
func (m *meter) burst(ctx context.Context) (*burstRow, error) {
	row := &burstRow{Rate: m.Burst.Rate, Connections: m.Burst.Connections, Threads: m.Burst.Threads}
	var ratios, perSecond, drained []float64
	var quiet, beside []time.Duration
	for n := range m.Rounds {
		b, err := m.burstRound(ctx)
		if err != nil {
			return nil, err
		}
		ratio := summarize(milliseconds(b.beside)).Median / summarize(milliseconds(b.quiet)).Median
		m.say("burst %d: %d events, %.0f/s accepted, %d posted again; others' turns: ratio %.2f", n+1, b.events, b.perSecond(), b.again, ratio)
		ratios, perSecond, drained = append(ratios, ratio), append(perSecond, b.perSecond()), append(drained, b.processed.Seconds())
		quiet, beside = append(quiet, b.quiet...), append(beside, b.beside...)
		row.Events += b.events
		row.Again += b.again
	}
	row.Ratio, row.PerSecond, row.Drained = summarize(ratios), summarize(perSecond), summarize(drained)
	row.Quiet, row.Beside = summarize(milliseconds(quiet)), summarize(milliseconds(beside))
	return row, nil
}

// burstOutcome is the result of a burst, with the turns of other threads before and during it.
type burstOutcome struct {
	quiet, beside []time.Duration
	events        int
	again         int64         // posts that were rejected with Retry-After
	took          time.Duration // until all were accepted
	processed     time.Duration // from then until all were processed
}

func (b burstOutcome) perSecond() float64 { return float64(b.events) / b.took.Seconds() }

// burstRound lets other threads take turns, first without the burst for its planned duration, then
// during it.
func (m *meter) burstRound(ctx context.Context) (b burstOutcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, burstWithin)
	defer cancel()
	others := make([]thread, m.Burst.Threads)
	for i := range others {
		others[i] = m.world.mill.thread(shapes[0], byGo)
	}
	if _, err := together(others, 1, func(t thread) error { return t.first(ctx) }); err != nil {
		return b, fmt.Errorf("first turn: %w", err)
	}
	wait := time.NewTimer(time.Duration(m.Burst.Seconds) * time.Second)
	defer wait.Stop()
	b.quiet, err = m.beside(ctx, others, 0, func() error {
		select {
		case <-wait.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return b, err
	}
	id := newID("burst")
	if err := m.world.mill.threads.Open(ctx, id, signals.Start{}, nil); err != nil {
		return b, err
	}
	p := newPosting(m.world.mill.api, id, m.Burst)
	b.events = p.events
	b.beside, err = m.beside(ctx, others, 0, func() error {
		began := time.Now()
		defer func() { b.took = time.Since(began) }()
		return p.all(ctx)
	})
	if err != nil {
		return b, err
	}
	b.again = p.again.Load()
	began := time.Now()
	if err := awaitIdle(ctx, m.world.mill.threads, id); err != nil {
		return b, err
	}
	b.processed = time.Since(began)
	return b, m.checkBurst(ctx, id, p)
}

// beside lets threads take turns, each at least one, with pauses of up to twice a time between them, until something has ended.
func (m *meter) beside(ctx context.Context, threads []thread, between time.Duration, something func() error) ([]time.Duration, error) {
	ended, result := make(chan struct{}), error(nil)
	go func() {
		defer close(ended)
		result = something()
	}()
	took, errs := make([][]time.Duration, len(threads)), make([]error, len(threads))
	var turns sync.WaitGroup
	for i, t := range threads {
		turns.Go(func() {
			for {
				began := time.Now()
				if errs[i] = t.turn(ctx); errs[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(began))
				select {
				case <-ended:
					return
				case <-time.After(time.Duration(2 * rand.Float64() * float64(between))):
				}
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	turns.Wait()
	<-ended
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	return all, errors.Join(append(errs, result)...)
}

// posting is a burst that is being posted to a thread.
type posting struct {
	BurstOptions
	url    string
	events int
	client *http.Client
	again  atomic.Int64
}

func newPosting(api, id string, o BurstOptions) *posting {
	return &posting{
		BurstOptions: o, url: api + "/v1/threads/" + id + "/events", events: o.Rate * o.Seconds,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Connections, MaxConnsPerHost: o.Connections}},
	}
}

// all posts all events over several connections, each event at its time or as soon afterwards as
// possible.
func (p *posting) all(ctx context.Context) error {
	defer p.client.CloseIdleConnections()
	began, errs := time.Now(), make([]error, p.Connections)
	var connections sync.WaitGroup
	for c := range p.Connections {
		connections.Go(func() {
			for i := c; i < p.events; i += p.Connections {
				due := began.Add(time.Duration(i) * time.Second / time.Duration(p.Rate))
				if errs[c] = pause(ctx, time.Until(due)); errs[c] != nil {
					return
				}
				if errs[c] = p.insist(ctx, i); errs[c] != nil {
					return
				}
			}
		})
	}
	connections.Wait()
	return errors.Join(errs...)
}

// tickID returns the id of the i-th event.
func tickID(i int) string { return "e" + strconv.Itoa(i) }

// insist posts an event until it is accepted.
func (p *posting) insist(ctx context.Context, i int) error {
	body, err := json.Marshal(map[string]any{"id": tickID(i), "type": tickType, "payload": i})
	if err != nil {
		return err
	}
	for {
		later, err := p.post(ctx, body)
		if err != nil || later == 0 {
			return err
		}
		p.again.Add(1)
		if err := pause(ctx, later); err != nil {
			return err
		}
	}
}

// post posts an event. If it must be posted again, it returns the delay.
func (p *posting) post(ctx context.Context, body []byte) (later time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	if res.StatusCode == http.StatusAccepted {
		return 0, nil
	}
	if later = retryAfter(res); later == 0 {
		return 0, fmt.Errorf("posting an event: %s: %s", res.Status, answer)
	}
	return later, nil
}

// retryAfter returns how long a client waits until it repeats a request, or 0.
func retryAfter(res *http.Response) time.Duration {
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return time.Duration(max(0, seconds)) * time.Second
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitIdle waits until a thread has processed its queue.
func awaitIdle(ctx context.Context, threads *threadclient.Client, id string) error {
	for {
		s, err := threads.State(ctx, id)
		if err != nil {
			return err
		}
		if s.Status == signals.ThreadIdle && s.QueueLength == 0 {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// checkBurst checks that each event is stored once, those of a connection in order.
func (m *meter) checkBurst(ctx context.Context, id string, p *posting) error {
	seen, newest := map[int]bool{}, map[int]int{}
	for after := int64(0); ; {
		q := store.Query{Types: []string{event.TypeEnv}, After: after}
		records, err := m.world.store.Records(ctx, store.Key{Namespace: signals.DefaultNamespace, ThreadID: id}, q)
		if err != nil {
			return err
		}
		for _, r := range records {
			after = r.Seq
			var e event.EnvEvent
			var i int
			if err := errors.Join(json.Unmarshal(r.Payload, &e), json.Unmarshal(e.Payload, &i)); err != nil {
				return fmt.Errorf("record %s: %w", r.ID, err)
			}
			c := i % p.Connections
			if before, any := newest[c]; seen[i] || any && before > i {
				return fmt.Errorf("event %d of thread %s is stored after event %d of its connection, or twice", i, id, before)
			}
			seen[i], newest[c] = true, i
		}
		if q.Complete(records) {
			break
		}
	}
	if len(seen) != p.events {
		return fmt.Errorf("thread %s has stored %d of %d events", id, len(seen), p.events)
	}
	return nil
}
