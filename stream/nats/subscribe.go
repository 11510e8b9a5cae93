package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/threadmill/threadmill/stream"
)

const (
	batchSize  = 128
	batchBytes = 2 << 20
	heartbeat  = 5 * time.Second

	// requestLife is the time after which a request for entries is renewed.
	requestLife = 12 * time.Hour

	// forget is the time for which NATS keeps a consumer without readers.
	forget = 2 * time.Minute

	// pause is the delay before a waiting reader renews a request that expired with nothing to
	// deliver; too short for entries to arrive and expire.
	pause = 250 * time.Millisecond
)

// Subscribe returns a subscription to a thread's log from a position.
func (s *Stream) Subscribe(ctx context.Context, key stream.Key, from stream.From) (stream.Subscription, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	var sub *subscription
	err := s.ask(ctx, func(ctx context.Context) (err error) {
		sub, err = s.subscribe(ctx, key, from)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", key, err)
	}
	return sub, nil
}

func (s *Stream) subscribe(ctx context.Context, key stream.Key, from stream.From) (*subscription, error) {
	lost := s.connection() // first: the following requests hold for this connection
	handle, info, err := s.info(ctx)
	if err != nil {
		return nil, err
	}
	subject := s.liveSubject(key)
	newest, err := lastOf(ctx, handle, subject)
	if err != nil {
		return nil, err
	}
	p := begin(from, log{
		base: info.Created.UnixMicro(), first: info.State.FirstSeq, last: max(info.State.LastSeq, newest), newest: newest,
	})
	consumer, err := handle.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject:     subject,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       p.seq,
		AckPolicy:         jetstream.AckNonePolicy,
		InactiveThreshold: forget,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the consumer: %w", err)
	}
	sub := &subscription{
		stream: s, key: key, name: consumer.CachedInfo().Name, start: p.start, base: info.Created.UnixMicro(), consumer: consumer, lost: lost,
		prev: p.seq - 1, claimed: p.claimed,
	}
	sub.ctx, sub.cancel = context.WithCancel(context.Background())
	// If the stream has been created again, the consumer starts at a position in the old one.
	if err := sub.sameStream(ctx, info.State.LastSeq); err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

// lastOf returns the sequence number of the subject's newest entry, 0 if there is none.
func lastOf(ctx context.Context, h jetstream.Stream, subject string) (uint64, error) {
	msg, err := h.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("newest entry: %w", err)
	}
	return msg.Sequence, nil
}

// log is the state of the log at the beginning of a subscription: the time of the stream, its first
// and last sequence number, and the last one of the thread.
type log struct {
	base                int64
	first, last, newest uint64
}

// place is the start of a subscription. claimed: the reader has the entry before seq, so nothing
// may be missing in between.
type place struct {
	seq     uint64
	claimed bool
	start   stream.Start
}

func begin(from stream.From, l log) place {
	p := place{seq: max(l.first, 1)}
	if l.newest > 0 {
		p.start.Last = l.base + int64(l.newest)
	}
	switch asked := from.Offset - l.base; {
	case from.Now:
		p.seq, p.claimed = l.last+1, true
	case from.Offset <= 0:
	case asked <= 0, uint64(asked) > l.last, uint64(asked)+1 < l.first:
		p.start.Gap = true
	default:
		p.seq, p.claimed = uint64(asked)+1, true
	}
	return p
}

// subscription reads through its own consumer, with one request for a batch after another.
//
// The server skips removed entries silently, so a hole shows neither in the sequence numbers, which
// other threads share, nor in the consumer's count. But entries are removed oldest first: nothing
// is missing as long as the oldest kept entry is not younger than the one after the last that was
// read. This is checked only where something can be missing: while the reader is behind, and after
// a time without a request ("late").
type subscription struct {
	stream   *Stream
	key      stream.Key
	name     string // of the consumer
	start    stream.Start
	base     int64
	consumer jetstream.Consumer
	lost     <-chan struct{}
	once     sync.Once
	ctx      context.Context
	cancel   context.CancelFunc

	// Used only by the goroutine in Next:
	broken    error
	ready     []stream.Entry
	raw       []jetstream.Msg // received, not yet verified to have no hole
	delivered uint64          // the consumer's count
	prev      uint64          // the newest sequence number read
	claimed   bool            // the reader is at prev, so nothing may be missing after it
	behind    bool            // more entries existed when prev was sent

	batch     jetstream.MessageBatch
	endBatch  context.CancelFunc
	waited    time.Time // when a request last had nothing to deliver
	idle      bool      // the last request ended without delivering anything
	late      bool      // the request was late: something may be missing after prev
	unchecked bool      // late, and not yet checked
}

func (s *subscription) Start() stream.Start { return s.start }

// Next waits for the next entry.
func (s *subscription) Next(ctx context.Context) (stream.Entry, error) {
	for {
		if err := s.state(ctx); err != nil {
			return stream.Entry{}, err
		}
		if len(s.ready) > 0 {
			e := s.ready[0]
			s.ready = s.ready[1:]
			return e, nil
		}
		err := s.receive(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return stream.Entry{}, ctx.Err()
		case s.ctx.Err() == nil:
			s.broken = fmt.Errorf("read %s: %w; subscribe again", s.key, s.stream.failed(ctx, err))
		}
	}
}

// state returns the reason why the subscription cannot continue, or nil.
func (s *subscription) state(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return stream.ErrClosed
	case <-s.stream.done:
		return stream.ErrClosed
	default:
	}
	if s.broken != nil {
		return s.broken
	}
	select {
	case <-s.lost:
		return fmt.Errorf("read %s: connection to NATS lost; subscribe again", s.key)
	default:
		return nil
	}
}

// receive moves received entries to ready, and waits for at least one.
func (s *subscription) receive(ctx context.Context) error {
	if len(s.raw) == 0 {
		if err := s.arrive(ctx); err != nil {
			return err
		}
	}
	if len(s.raw) == 0 {
		return nil
	}
	return s.verify(ctx)
}

// arrive waits for messages, and returns without any when a request has ended.
func (s *subscription) arrive(ctx context.Context) error {
	if s.batch == nil {
		if err := s.request(); err != nil {
			return err
		}
	}
	if s.unchecked {
		if err := s.stream.ask(ctx, s.check); err != nil {
			return err
		}
	}
	select {
	case m, ok := <-s.batch.Messages():
		return s.took(m, ok)
	default:
		s.waited = time.Now()
	}
	select {
	case m, ok := <-s.batch.Messages():
		s.waited = time.Now()
		return s.took(m, ok)
	case <-s.lost:
	case <-s.ctx.Done():
	case <-s.stream.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (s *subscription) request() error {
	ctx, cancel := context.WithTimeout(s.ctx, requestLife)
	batch, err := s.consumer.Fetch(batchSize,
		jetstream.FetchMaxBytes(batchBytes), jetstream.FetchHeartbeat(heartbeat), jetstream.FetchContext(ctx))
	if err != nil {
		cancel()
		return err
	}
	s.batch, s.endBatch = batch, cancel
	s.late = s.claimed && !(s.idle && time.Since(s.waited) < pause)
	s.unchecked, s.idle = s.late, true
	return nil
}

// check finds out, after a late request, whether something is missing. If nothing waits for the
// reader either, the request was in time.
func (s *subscription) check(ctx context.Context) error {
	info, err := s.consumer.Info(ctx)
	if err != nil {
		return fmt.Errorf("state of consumer: %w", err)
	}
	if err := s.kept(ctx, s.prev+1); err != nil {
		return err
	}
	s.unchecked, s.late = false, info.NumPending > 0
	return nil
}

// took keeps m and the messages that arrived with it. !ok: the request has ended.
func (s *subscription) took(m jetstream.Msg, ok bool) error {
	if !ok {
		err := s.batch.Error()
		s.endBatch()
		s.batch = nil
		return err
	}
	s.idle = false
	for ok {
		s.raw = append(s.raw, m)
		select {
		case m, ok = <-s.batch.Messages():
		default:
			return nil
		}
	}
	return nil // the next call sees the end again
}

// verify moves raw to ready if no entry is missing in between.
func (s *subscription) verify(ctx context.Context) error {
	delivered, prev, suspect := s.delivered, s.prev, s.behind && s.claimed || s.late
	behind := false
	var doubt uint64 // the oldest entry after which something may be missing
	entries := make([]stream.Entry, 0, len(s.raw))
	for _, m := range s.raw {
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("message without metadata: %w", err)
		}
		if meta.Sequence.Consumer != delivered+1 {
			return errors.New("messages from NATS were lost")
		}
		if doubt == 0 && suspect && meta.Sequence.Stream > prev+1 {
			doubt = prev + 1
		}
		behind = meta.NumPending > 0
		delivered, prev, suspect = meta.Sequence.Consumer, meta.Sequence.Stream, behind
		e := stream.Entry{}
		if err := json.Unmarshal(m.Data(), &e); err != nil {
			s.stream.cfg.Logger.Warn("live stream: entry is not JSON", "thread", s.key.ThreadID, "error", err)
			continue
		}
		e.Offset = s.base + int64(prev)
		entries = append(entries, e)
	}
	if doubt > 0 {
		if err := s.stream.ask(ctx, func(ctx context.Context) error { return s.kept(ctx, doubt) }); err != nil {
			return err
		}
	}
	s.delivered, s.prev, s.claimed, s.behind, s.late = delivered, prev, true, behind, false
	s.ready, s.raw = entries, nil
	return nil
}

// kept fails if entries from seq on may have been removed.
func (s *subscription) kept(ctx context.Context, seq uint64) error {
	_, info, err := s.stream.info(ctx)
	if err != nil {
		return err
	}
	if info.Created.UnixMicro() != s.base {
		return errRemade
	}
	if info.State.FirstSeq > seq {
		return stream.ErrLagged
	}
	return nil
}

var errRemade = errors.New("NATS lost the live log and began a new one")

// sameStream fails if the stream is not the one whose newest entry was last.
func (s *subscription) sameStream(ctx context.Context, last uint64) error {
	_, info, err := s.stream.info(ctx)
	if err != nil {
		return err
	}
	if info.Created.UnixMicro() != s.base || info.State.LastSeq < last {
		return errRemade
	}
	return nil
}

// Close also deletes the consumer in NATS, without waiting for the response.
func (s *subscription) Close() {
	s.once.Do(func() {
		s.cancel()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), requestMax)
			defer cancel()
			// If this fails, NATS deletes the unused consumer.
			_ = s.stream.js.DeleteConsumer(ctx, s.stream.cfg.Stream, s.name)
		}()
	})
}
