package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// spent returns a round of two turns.
func spent(u usage) round { return round{turns: make([]time.Duration, 2), used: u} }

// TestCostRow: costs are those of a turn, and ratios those of pairs of rounds.
func TestCostRow(t *testing.T) {
	row := newCostRow(asLocal, "plain", 3, [2][]round{
		{
			spent(usage{worker: 40 * time.Millisecond, temporal: 20 * time.Millisecond, objects: 600, bytes: 3000, calls: 8, storeCalls: 10}),
			spent(usage{worker: 80 * time.Millisecond, temporal: 20 * time.Millisecond, objects: 600, bytes: 3000, calls: 8, storeCalls: 10}),
			spent(usage{worker: 60 * time.Millisecond, temporal: 40 * time.Millisecond, objects: 900, bytes: 3000, calls: 8, storeCalls: 16}),
		},
		{
			spent(usage{worker: 20 * time.Millisecond, objects: 200, bytes: 1000, calls: 8}),
			spent(usage{worker: 20 * time.Millisecond, objects: 200, bytes: 1000, calls: 8}),
			spent(usage{worker: 20 * time.Millisecond, objects: 200, bytes: 1000, calls: 8}),
		},
	})
	require.Equal(t, turnCost{WorkerCPU: 30, TemporalCPU: 10, Objects: 300, Bytes: 1500, Calls: 4, StoreCalls: 5}, row.Mill)
	require.Equal(t, costFigures{CPU: 3, Objects: 3, Bytes: 3, Calls: 4, StoreCalls: 5}, row.Limited)
}

// TestGate: a run passes up to the tolerance, and fails for each figure beyond it, and for a figure that is no number.
func TestGate(t *testing.T) {
	figures := costFigures{CPU: 2, Objects: 3, Bytes: 3, Calls: 4, StoreCalls: 5}
	gate := costGate{"plain, 1 threads, local": {Figures: figures, Tolerance: costFigures{CPU: 0.3, Objects: 0.01, Bytes: 0.01, Calls: 0.3, StoreCalls: 0.3}}}
	check := func(f costFigures) error {
		return gate.check([]costRow{{Steps: asLocal, Shape: "plain", Threads: 1, Limited: f}})
	}
	require.NoError(t, check(figures))
	require.NoError(t, check(costFigures{CPU: 2.59, Objects: 3.02, Bytes: 3.02, Calls: 4.2, StoreCalls: 5.2}))
	require.NoError(t, check(costFigures{}), "a gain is not a failure")
	for want, change := range map[string]func(*costFigures){
		"CPU time":           func(f *costFigures) { f.CPU = 2.61 },
		"objects allocated":  func(f *costFigures) { f.Objects *= 1.06 },
		"bytes allocated":    func(f *costFigures) { f.Bytes *= 1.06 },
		"calls to Temporal":  func(f *costFigures) { f.Calls++ },
		"calls to the store": func(f *costFigures) { f.StoreCalls++ },
		"NaN":                func(f *costFigures) { f.CPU = math.NaN() },
	} {
		worse := figures
		change(&worse)
		require.ErrorContains(t, check(worse), want)
	}
	require.ErrorContains(t, gate.check(nil), "0 cases")
	require.ErrorContains(t, gate.check([]costRow{{Steps: asLocal, Shape: "tool", Threads: 1}}), "no limits for tool, 1 threads, local")
}

// TestGateFile: the file has limits for all cases, and -update replaces its figures but not its tolerances.
func TestGateFile(t *testing.T) {
	read := func(file string) (g costGate) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &g))
		return g
	}
	before := read("cost.json")
	gated := (&Options{Gate: "cost.json"}).costCases()
	require.Len(t, before, len(gated))
	file := filepath.Join(t.TempDir(), "cost.json")
	require.NoError(t, writeJSON(file, before))
	r := report{Options: Options{Gate: file, Update: true}}
	for _, c := range gated {
		r.Cost = append(r.Cost, costRow{Steps: c.steps, Shape: c.shape, Threads: c.threads, Limited: costFigures{CPU: 1, Objects: 1, Bytes: 1, Calls: 1, StoreCalls: 1}})
	}
	require.NoError(t, r.gate())
	r.Options.Update = false
	require.NoError(t, r.gate())
	for name, limit := range read(file) {
		require.Equal(t, before[name].Tolerance, limit.Tolerance)
		require.Positive(t, limit.Tolerance.Objects)
		require.NotEqual(t, before[name].Figures, limit.Figures)
	}
	r.Cost[0].Limited.StoreCalls = 2
	require.ErrorContains(t, r.gate(), "calls to the store")
}
