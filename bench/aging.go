package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// youngTurn is the turn of a young thread that is compared with an old thread's, and window the
	// number of turns around both that are timed.
	youngTurn = 10
	window    = 11
)

// aging compares turns of old threads with turns of young ones. Both are timed in alternation, so
// that other load on the machine affects both.
func (m *meter) aging(ctx context.Context) ([]agingRow, error) {
	var rows []agingRow
	for _, sd := range m.sides(asActivities) {
		var pairs [2][][]time.Duration
		for range m.Pairs {
			young, old, err := m.pair(ctx, sd)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", sd.name(), err)
			}
			pairs[0], pairs[1] = append(pairs[0], young), append(pairs[1], old)
		}
		row := newAgingRow(sd, m.Old, pairs[0], pairs[1])
		m.say("aging of %s: ratio %.2f", sd.name(), row.Ratio.Median)
		rows = append(rows, row)
	}
	return rows, nil
}

func (m *meter) pair(ctx context.Context, sd side) (young, old []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	threads := []thread{sd.thread(shapes[0], byGo), sd.thread(shapes[0], byGo)}
	for i, turn := range []int{youngTurn, m.Old} {
		if err := grow(ctx, threads[i], turn-window/2); err != nil {
			return nil, nil, err
		}
	}
	times := make([][]time.Duration, 2)
	for n := range window {
		for k := range threads {
			which := (n + k) % 2
			began := time.Now()
			if err := threads[which].turn(ctx); err != nil {
				return nil, nil, err
			}
			times[which] = append(times[which], time.Since(began))
		}
	}
	for _, t := range threads {
		if err := t.finish(ctx); err != nil {
			return nil, nil, err
		}
	}
	return times[0], times[1], nil
}

// grow opens a thread and runs its turns up to a given one.
func grow(ctx context.Context, t thread, turn int) error {
	if err := t.first(ctx); err != nil {
		return err
	}
	if err := t.watch(ctx); err != nil {
		return err
	}
	for range turn - 2 {
		if err := t.turn(ctx); err != nil {
			return err
		}
	}
	return nil
}
