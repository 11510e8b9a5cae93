package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

// round is one round of one side.
type round struct {
	// first are the times of the first turns, of threads that all start together; turns are those
	// of the following turns.
	first, turns []time.Duration
	took         time.Duration

	// used is what the turns have used.
	used usage
}

func (r round) perSecond() float64 { return float64(len(r.turns)) / r.took.Seconds() }

func (m *meter) throughput(ctx context.Context) ([]throughputRow, error) {
	var rows []throughputRow
	for _, how := range m.Steps {
		if err := m.warmUp(ctx, m.sides(how)...); err != nil {
			return nil, err
		}
		for _, name := range m.Shapes {
			for i, threads := range m.Threads {
				for _, by := range m.Ways {
					row, err := m.compare(ctx, how, shapeOf(name), by, threads, m.Turns[i])
					if err != nil {
						return nil, fmt.Errorf("%s turns by %s, %d threads, steps as %s: %w", name, by, threads, how, err)
					}
					m.say("%-10s %-8s %-6s %2d threads: ratio %.2f", how, name, by, threads, row.Ratio.Median)
					rows = append(rows, row)
				}
			}
		}
	}
	return rows, nil
}

// warmUp lets both sides start their pollers and allocate memory.
func (m *meter) warmUp(ctx context.Context, sides ...side) error {
	threads, turns := m.Threads[len(m.Threads)-1], m.Turns[len(m.Turns)-1]
	for _, s := range sides {
		if _, err := m.round(ctx, s, shapes[0], byGo, threads, turns, ""); err != nil {
			return fmt.Errorf("warming up %s: %w", s.name(), err)
		}
	}
	return nil
}

// sides returns Threadmill and the bare loop.
func (m *meter) sides(how steps) []side {
	if how == asActivities {
		return []side{m.world.activities, m.world.bare}
	}
	local := *m.world.bare
	local.local = true
	return []side{m.world.mill, &local}
}

func (m *meter) compare(ctx context.Context, how steps, s shape, by way, threads, turns int) (throughputRow, error) {
	rounds, err := m.alternate(ctx, [2]side(m.sides(how)), s, by, threads, turns)
	if err != nil {
		return throughputRow{}, err
	}
	return newThroughputRow(how, s, by, threads, rounds), nil
}

// alternate runs rounds of two sides in pairs with alternating order.
func (m *meter) alternate(ctx context.Context, sides [2]side, s shape, by way, threads, turns int) (rounds [2][]round, err error) {
	for n := range m.Rounds {
		for k := range rounds {
			which := (n + k) % 2
			sd := sides[which]
			label := fmt.Sprintf("%s-%s-%d-%s-%d", s.name, by, threads, sd.name(), n)
			r, err := m.round(ctx, sd, s, by, threads, turns, label)
			if err != nil {
				return rounds, fmt.Errorf("%s: %w", sd.name(), err)
			}
			rounds[which] = append(rounds[which], r)
		}
	}
	return rounds, nil
}

// round lets a number of threads take turns concurrently.
func (m *meter) round(ctx context.Context, sd side, s shape, by way, threads, turns int, label string) (round, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	all := make([]thread, threads)
	for i := range all {
		all[i] = sd.thread(s, by)
	}
	// Garbage of the previous round must not count.
	runtime.GC()
	var r round
	var err error
	if r.first, err = together(all, 1, func(t thread) error { return t.first(ctx) }); err != nil {
		return r, fmt.Errorf("first turn: %w", err)
	}
	if _, err = together(all, 1, func(t thread) error { return t.watch(ctx) }); err != nil {
		return r, err
	}
	stopProfile, err := m.profile(label)
	if err != nil {
		return r, err
	}
	before, err := m.world.usage()
	if err != nil {
		return r, err
	}
	began := time.Now()
	r.turns, err = together(all, turns/threads, func(t thread) error { return t.turn(ctx) })
	r.took = time.Since(began)
	after, usageErr := m.world.usage()
	r.used = after.since(before)
	err = errors.Join(err, usageErr, stopProfile())
	if err != nil {
		return r, err
	}
	_, err = together(all, 1, func(t thread) error { return t.finish(ctx) })
	return r, err
}

// together calls f a number of times for each thread, all threads concurrently, and returns the
// duration of each call.
func together(all []thread, times int, f func(thread) error) ([]time.Duration, error) {
	took := make([]time.Duration, len(all)*times)
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, t := range all {
		wg.Go(func() {
			for n := range times {
				began := time.Now()
				if errs[i] = f(t); errs[i] != nil {
					return
				}
				took[i*times+n] = time.Since(began)
			}
		})
	}
	wg.Wait()
	return took, errors.Join(errs...)
}

// profile writes a CPU profile until it is stopped, if profiles are configured.
func (m *meter) profile(label string) (stop func() error, err error) {
	if m.Profiles == "" || label == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(filepath.Join(m.Profiles, label+".pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
