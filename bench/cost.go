package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
)

// costCase are turns whose cost is measured.
type costCase struct {
	steps          steps
	shape          string
	threads, turns int
	viewer         bool

	// gated is whether the gate limits the case. A run for the gate measures no others.
	gated bool
}

// costCases are those of the part cost. A long conversation of one thread shows what depends on its length, and
// many threads at once show what turns cost each other.
var costCases = []costCase{
	{asLocal, "plain", 1, 100, false, true},
	{asLocal, "tool", 10, 100, true, true},
	{asActivities, "tool", 10, 100, true, true},
	{asLocal, "approval", 10, 100, true, false},
	{asActivities, "approval", 10, 100, true, false},
}

// costCases returns the cases of a run.
func (o *Options) costCases() []costCase {
	if o.Gate == "" {
		return costCases
	}
	return slices.DeleteFunc(slices.Clone(costCases), func(c costCase) bool { return !c.gated })
}

// costProcessors is the number of processors of the workers, so that counts do not depend on the machine.
const costProcessors = 2

// costRow compares what turns of both sides use.
type costRow struct {
	Steps   steps    `json:"steps"`
	Shape   string   `json:"shape"`
	Threads int      `json:"threads"`
	Mill    turnCost `json:"threadmill"`
	Bare    turnCost `json:"bare"`

	// Ratio is the ratio of the workers' CPU time, for each pair of rounds.
	Ratio summary `json:"ratio"`

	// Limited are the figures of the gate.
	Limited costFigures `json:"figures"`
}

// turnCost is what a turn uses: medians of the rounds.
type turnCost struct {
	// WorkerCPU and TemporalCPU are CPU seconds of 1,000 turns, equal to milliseconds of one.
	WorkerCPU   float64 `json:"workerCPU"`
	TemporalCPU float64 `json:"temporalCPU"`

	Objects    float64 `json:"objects"`
	Bytes      float64 `json:"bytes"`
	Calls      float64 `json:"calls"`
	StoreCalls float64 `json:"storeCalls"`
}

// costFigures are what the gate limits. CPU, Objects and Bytes are ratios Threadmill : bare loop, medians of
// the pairs of rounds, in the process of the workers. Calls and StoreCalls are those of a turn of Threadmill.
type costFigures struct {
	CPU        float64 `json:"cpu"`
	Objects    float64 `json:"objects"`
	Bytes      float64 `json:"bytes"`
	Calls      float64 `json:"calls"`
	StoreCalls float64 `json:"storeCalls"`
}

// cost measures what turns use, with Temporal in a process of its own.
func (m *meter) cost(ctx context.Context) (rows []costRow, err error) {
	// The more processors, the more objects pools keep, and allocate.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(costProcessors))
	last := costCases[len(costCases)-1]
	apart := *m
	apart.apart, apart.Threads, apart.Turns = true, []int{last.threads}, []int{last.turns}
	if apart.world, err = newWorld(ctx, apart.Options, m.log); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, apart.world.stop()) }()
	for _, how := range []steps{asLocal, asActivities} {
		if err := apart.warmUp(ctx, apart.sides(how)...); err != nil {
			return nil, err
		}
	}
	for _, c := range m.costCases() {
		sides := [2]side(apart.sides(c.steps))
		watched := *sides[0].(*mill)
		watched.viewer = c.viewer
		sides[0] = &watched
		rounds, err := apart.alternate(ctx, sides, shapeOf(c.shape), byGo, c.threads, c.turns)
		if err != nil {
			return nil, fmt.Errorf("%s turns of %d threads, steps as %s: %w", c.shape, c.threads, c.steps, err)
		}
		row := newCostRow(c.steps, c.shape, c.threads, rounds)
		m.say("cost of %s turns, %2d threads, steps as %s: %+v", c.shape, c.threads, c.steps, row.Limited)
		rows = append(rows, row)
	}
	return rows, nil
}

func newCostRow(how steps, shape string, threads int, rounds [2][]round) costRow {
	mill, bare := costsOf(rounds[0]), costsOf(rounds[1])
	ratio := func(of func(turnCost) float64) summary {
		out := make([]float64, len(mill))
		for i := range mill {
			out[i] = of(mill[i]) / of(bare[i])
		}
		return summarize(out)
	}
	row := costRow{Steps: how, Shape: shape, Threads: threads, Mill: medianCost(mill), Bare: medianCost(bare), Ratio: ratio(workerCPU)}
	row.Limited = costFigures{
		CPU: row.Ratio.Median, Objects: ratio(objects).Median, Bytes: ratio(bytesOf).Median, Calls: row.Mill.Calls, StoreCalls: row.Mill.StoreCalls,
	}
	return row
}

func workerCPU(c turnCost) float64   { return c.WorkerCPU }
func temporalCPU(c turnCost) float64 { return c.TemporalCPU }
func objects(c turnCost) float64     { return c.Objects }
func bytesOf(c turnCost) float64     { return c.Bytes }
func calls(c turnCost) float64       { return c.Calls }
func storeCalls(c turnCost) float64  { return c.StoreCalls }

func costsOf(rounds []round) []turnCost {
	out := make([]turnCost, len(rounds))
	for i, r := range rounds {
		u, turns := r.used, float64(len(r.turns))
		out[i] = turnCost{
			WorkerCPU: u.worker.Seconds() * 1000 / turns, TemporalCPU: u.temporal.Seconds() * 1000 / turns,
			Objects: float64(u.objects) / turns, Bytes: float64(u.bytes) / turns,
			Calls: float64(u.calls) / turns, StoreCalls: float64(u.storeCalls) / turns,
		}
	}
	return out
}

func medianCost(costs []turnCost) turnCost {
	median := func(of func(turnCost) float64) float64 {
		out := make([]float64, len(costs))
		for i, c := range costs {
			out[i] = of(c)
		}
		return summarize(out).Median
	}
	return turnCost{median(workerCPU), median(temporalCPU), median(objects), median(bytesOf), median(calls), median(storeCalls)}
}

// costGate is the file of -gate: the limits of each case.
type costGate map[string]*costLimit

type costLimit struct {
	Figures costFigures `json:"figures"`

	// Tolerance is by how much a run may exceed the figures: ratios by this share, calls by this number.
	Tolerance costFigures `json:"tolerance"`
}

func (r costRow) name() string { return fmt.Sprintf("%s, %d threads, %s", r.Shape, r.Threads, r.Steps) }

// gate compares the costs with the file of -gate, or writes them to it.
func (r *report) gate() error {
	file := r.Options.Gate
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var g costGate
	if err := json.Unmarshal(data, &g); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if !r.Options.Update {
		return g.check(r.Cost)
	}
	for _, row := range r.Cost {
		limit := g[row.name()]
		if limit == nil {
			return g.unknown(row)
		}
		limit.Figures = row.Limited
	}
	return writeJSON(file, g)
}

func (g costGate) unknown(row costRow) error {
	return fmt.Errorf("the gate has no limits for %s", row.name())
}

// check returns an error that names each figure that is exceeded.
func (g costGate) check(rows []costRow) error {
	var errs []error
	if len(rows) != len(g) {
		errs = append(errs, fmt.Errorf("%d cases were measured, the gate has %d", len(rows), len(g)))
	}
	for _, row := range rows {
		limit := g[row.name()]
		if limit == nil {
			errs = append(errs, g.unknown(row))
			continue
		}
		got, want, t := row.Limited, limit.Figures, limit.Tolerance
		for _, f := range []struct {
			name             string
			got, want, limit float64
		}{
			{"CPU time of the workers, ratio", got.CPU, want.CPU, want.CPU * (1 + t.CPU)},
			{"objects allocated, ratio", got.Objects, want.Objects, want.Objects * (1 + t.Objects)},
			{"bytes allocated, ratio", got.Bytes, want.Bytes, want.Bytes * (1 + t.Bytes)},
			{"calls to Temporal per turn", got.Calls, want.Calls, want.Calls + t.Calls},
			{"calls to the store per turn", got.StoreCalls, want.StoreCalls, want.StoreCalls + t.StoreCalls},
		} {
			if f.got > f.limit || math.IsNaN(f.got) {
				errs = append(errs, fmt.Errorf("%s: %s is %.3f, was %.3f, and may be %.3f", row.name(), f.name, f.got, f.want, f.limit))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *report) costTable(b *strings.Builder) {
	if len(r.Cost) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### CPU seconds of 1,000 turns by Runtime.Send, and what a turn uses: Threadmill (bare loop), medians of %d pairs of rounds\n\n", r.Options.Rounds)
	fmt.Fprint(b, "| steps | turn | threads | workers, API, clients: CPU s | Temporal: CPU s | ratio of workers: median (min–max) | objects allocated | KB allocated | calls to Temporal | calls to the store |\n"+
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range r.Cost {
		m, bare := c.Mill, c.Bare
		fmt.Fprintf(b, "| %s | %s | %d | %.1f (%.1f) | %.1f (%.1f) | %s | %.0f (%.0f) | %.0f (%.0f) | %.1f (%.1f) | %.1f |\n", c.Steps, c.Shape, c.Threads,
			m.WorkerCPU, bare.WorkerCPU, m.TemporalCPU, bare.TemporalCPU, spread(c.Ratio, 2), m.Objects, bare.Objects, m.Bytes/1000, bare.Bytes/1000,
			m.Calls, bare.Calls, m.StoreCalls)
	}
}
