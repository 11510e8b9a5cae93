package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Targets of the project.
const (
	targetThroughput = 0.8
	targetFirstTurn  = time.Second
	targetAging      = 1.2
	targetTokenIdle  = time.Millisecond
	targetTokenNATS  = 5 * time.Millisecond
	targetBurst      = 2.0
	targetAnswer     = 50 * time.Millisecond
)

// summary describes a number of values.
type summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Count  int     `json:"count"`
}

func summarize(values []float64) summary {
	if len(values) == 0 {
		return summary{}
	}
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	median := v[mid]
	if len(v)%2 == 0 {
		median = (v[mid-1] + v[mid]) / 2
	}
	// The least value that so many percent of the values do not exceed.
	percentile := func(percent int) float64 { return v[(len(v)*percent+99)/100-1] }
	return summary{Median: median, Min: v[0], Max: v[len(v)-1], P95: percentile(95), P99: percentile(99), Count: len(v)}
}

func milliseconds(times []time.Duration) []float64 {
	out := make([]float64, len(times))
	for i, t := range times {
		out[i] = float64(t.Microseconds()) / 1000
	}
	return out
}

// report is the result of a run.
type report struct {
	Date     time.Time         `json:"date"`
	Took     string            `json:"took"`
	Cores    int               `json:"cores"`
	Platform string            `json:"platform"`
	Store    string            `json:"store"`
	Stream   string            `json:"stream"`
	Versions map[string]string `json:"versions"`
	Options  Options           `json:"options"`

	Throughput []throughputRow `json:"throughput,omitempty"`
	Cost       []costRow       `json:"cost,omitempty"`
	Aging      []agingRow      `json:"aging,omitempty"`
	FirstToken []tokenRow      `json:"firstToken,omitempty"`
	Answers    []answerRow     `json:"answers,omitempty"`
	Burst      *burstRow       `json:"burst,omitempty"`
	Flood      *floodRow       `json:"flood,omitempty"`
	Telemetry  []telemetryRow  `json:"telemetry,omitempty"`

	Quality  []qualityRow    `json:"quality,omitempty"`
	Search   []searchRow     `json:"search,omitempty"`
	Passages *passagesReport `json:"passages,omitempty"`
}

// throughputRow compares turns of one shape. Times are in milliseconds.
type throughputRow struct {
	Steps   steps   `json:"steps"`
	Shape   string  `json:"shape"`
	Way     way     `json:"way"`
	Threads int     `json:"threads"`
	Ratio   summary `json:"ratio"`
	Mill    sideRow `json:"threadmill"`
	Bare    sideRow `json:"bare"`

	// Restate is the ratio Restate : bare loop, measured once, or 0.
	Restate float64 `json:"restate,omitempty"`
}

// restate has the ratios of turns per second, Restate : bare loop, both streaming over HTTP and with
// local steps. Their origin is in README.md.
var restate = map[string]map[int]float64{
	"plain": {1: 0.83, 50: 0.87},
	"tool":  {1: 0.79, 50: 0.84},
}

type sideRow struct {
	PerSecond summary `json:"turnsPerSecond"`
	Turn      summary `json:"turn"`
	First     summary `json:"firstTurn"`
}

// agingRow compares one side's turns of old threads with those of young ones.
type agingRow struct {
	Side  string  `json:"side"`
	Young int     `json:"youngTurn"`
	Old   int     `json:"oldTurn"`
	Ratio summary `json:"ratio"`
	New   summary `json:"youngTime"`
	Aged  summary `json:"oldTime"`
}

// burstRow compares turns during a burst with turns without one. It exists only if all events of
// the burst are stored once, in order.
type burstRow struct {
	Rate        int `json:"rate"`
	Connections int `json:"connections"`
	Threads     int `json:"threads"`
	Events      int `json:"events"`

	// Again counts posts that were rejected with Retry-After.
	Again int64 `json:"postedAgain"`

	// PerSecond is the number of events accepted per second, Drained the number of seconds in which
	// the thread then processed the rest of its queue.
	PerSecond summary `json:"perSecond"`
	Drained   summary `json:"drained"`

	// Ratio is the ratio of the medians, for each pair of rounds.
	Ratio  summary `json:"ratio"`
	Quiet  summary `json:"quietTurn"`
	Beside summary `json:"turnBeside"`
}

// floodRow compares turns of chats beside a flood of messages in another namespace with turns without it. It exists only if all
// messages that were accepted are stored once.
type floodRow struct {
	BurstOptions

	// Flooded is the number of threads to which the messages were offered.
	Flooded int `json:"flooded"`

	// Refused counts the messages whose senders were told to come again.
	Offered  int64 `json:"offered"`
	Accepted int64 `json:"accepted"`
	Refused  int64 `json:"refused"`

	Quiet  summary `json:"quietTurn"`
	Beside summary `json:"turnBeside"`
}

func newReport(o Options) *report {
	r := &report{
		Date: time.Now(), Cores: runtime.NumCPU(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Store: onSQLite, Stream: "memory", Options: o, Versions: map[string]string{"go": runtime.Version()},
	}
	switch {
	case o.DatabaseURL != "":
		r.Store = onPostgres
	case o.Memory:
		r.Store = inMemory
	}
	if o.NATSURL != "" {
		r.Stream = "NATS"
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			switch d.Path {
			case "go.temporal.io/sdk", "go.temporal.io/server", "modernc.org/sqlite":
				r.Versions[d.Path] = d.Version
			}
		}
	}
	return r
}

func newThroughputRow(how steps, s shape, by way, threads int, rounds [2][]round) throughputRow {
	row := throughputRow{
		Steps: how, Shape: s.name, Way: by, Threads: threads, Ratio: ratios(rounds), Mill: newSideRow(rounds[0]), Bare: newSideRow(rounds[1]),
	}
	if how == asLocal && by == byHTTP {
		row.Restate = restate[s.name][threads]
	}
	return row
}

// ratios compares the turns per second of pairs of rounds.
func ratios(rounds [2][]round) summary {
	var out []float64
	for i := range rounds[1] {
		out = append(out, rounds[0][i].perSecond()/rounds[1][i].perSecond())
	}
	return summarize(out)
}

func newSideRow(rounds []round) sideRow {
	var perSecond []float64
	var turns, first []time.Duration
	for _, r := range rounds {
		perSecond = append(perSecond, r.perSecond())
		turns, first = append(turns, r.turns...), append(first, r.first...)
	}
	return sideRow{PerSecond: summarize(perSecond), Turn: summarize(milliseconds(turns)), First: summarize(milliseconds(first))}
}

func newAgingRow(sd side, old int, young, aged [][]time.Duration) agingRow {
	ratios := make([]float64, len(young))
	for i := range young {
		ratios[i] = summarize(milliseconds(aged[i])).Median / summarize(milliseconds(young[i])).Median
	}
	return agingRow{
		Side: sd.name(), Young: youngTurn, Old: old, Ratio: summarize(ratios),
		New: summarize(milliseconds(slices.Concat(young...))), Aged: summarize(milliseconds(slices.Concat(aged...))),
	}
}

// markdown prints the report for people.
func (r *report) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d cores, %s; store: %s, stream: %s, viewer: %t; took %s\n",
		r.Date.Format(time.DateOnly), r.Platform, r.Cores, r.versions(), r.Store, r.Stream, r.Options.Viewer, r.Took)
	r.throughputTables(&b)
	if len(r.Aging) > 0 {
		fmt.Fprintf(&b, "\n### Turn %d against turn %d (target: ≤ %.1f)\n\n", r.Aging[0].Old, r.Aging[0].Young, targetAging)
		fmt.Fprint(&b, "| side | ratio: median (min–max) | pairs | young turn, ms | old turn, ms |\n|---|---|---|---|---|\n")
		for _, a := range r.Aging {
			fmt.Fprintf(&b, "| %s | %s | %d | %s | %s |\n", a.Side, spread(a.Ratio, 2), a.Ratio.Count, spread(a.New, 1), spread(a.Aged, 1))
		}
	}
	r.tokenTable(&b)
	r.answersTable(&b)
	r.costTable(&b)
	r.burstTable(&b)
	r.floodTable(&b)
	r.telemetryTable(&b)
	r.qualityTables(&b)
	r.searchTable(&b)
	r.passagesTable(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *report) burstTable(b *strings.Builder) {
	t := r.Burst
	if t == nil {
		return
	}
	fmt.Fprintf(b, "\n### Turns of %d threads beside a burst of %d events/s at one thread, from %d connections (target: ratio ≤ %.0f)\n\n",
		t.Threads, t.Rate, t.Connections, targetBurst)
	fmt.Fprint(b, "| events, all stored once | accepted/s | posted again (429) | processed after the last, s | ratio: median (min–max) | "+
		"turn without, ms: median, p95 | turn beside it, ms: median, p95 |\n|---|---|---|---|---|---|---|\n")
	fmt.Fprintf(b, "| %d | %s | %d | %s | %s | %.1f, %.1f | %.1f, %.1f |\n", t.Events, spread(t.PerSecond, 0), t.Again, spread(t.Drained, 1),
		spread(t.Ratio, 2), t.Quiet.Median, t.Quiet.P95, t.Beside.Median, t.Beside.P95)
}

func (r *report) floodTable(b *strings.Builder) {
	t := r.Flood
	if t == nil {
		return
	}
	fmt.Fprintf(b, "\n### Turns of %d chats beside %d messages/s at %d threads of another namespace, from %d connections for %d s (target: p95 ≤ %.0f times)\n\n",
		t.Threads, t.Rate, t.Flooded, t.Connections, t.Seconds, targetBurst)
	fmt.Fprint(b, "| offered | accepted, all stored once | refused (429) | turn without, ms: median, p95 | turn beside it, ms: median, p95 | ratio of p95 |\n|---|---|---|---|---|---|\n")
	fmt.Fprintf(b, "| %d | %d | %d | %.0f, %.0f | %.0f, %.0f | %.1f |\n", t.Offered, t.Accepted, t.Refused,
		t.Quiet.Median, t.Quiet.P95, t.Beside.Median, t.Beside.P95, t.Beside.P95/t.Quiet.P95)
}

func (r *report) throughputTables(b *strings.Builder) {
	if len(r.Throughput) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### Turns per second, Threadmill : bare loop (target: ratio ≥ %.1f), %d pairs of rounds\n\n", targetThroughput, r.Options.Rounds)
	fmt.Fprint(b, "| steps | turn | by | threads | ratio: median (min–max) | Restate : bare loop, measured once | Threadmill, turns/s | bare, turns/s | Threadmill, ms a turn: median, p95 | bare, ms a turn: median, p95 |\n"+
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, t := range r.Throughput {
		other := ""
		if t.Restate > 0 {
			other = fmt.Sprintf("%.2f", t.Restate)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d | %s | %s | %s | %s | %.1f, %.1f | %.1f, %.1f |\n", t.Steps, t.Shape, t.Way, t.Threads, spread(t.Ratio, 2), other,
			spread(t.Mill.PerSecond, 0), spread(t.Bare.PerSecond, 0), t.Mill.Turn.Median, t.Mill.Turn.P95, t.Bare.Turn.Median, t.Bare.Turn.P95)
	}
	fmt.Fprintf(b, "\n### First turn of threads that all begin at once (target: p95 < %s at 50)\n\n", targetFirstTurn)
	fmt.Fprint(b, "| steps | turn | by | threads | Threadmill, ms: median, p95 | bare, ms: median, p95 |\n|---|---|---|---|---|---|\n")
	for _, t := range r.Throughput {
		fmt.Fprintf(b, "| %s | %s | %s | %d | %.0f, %.0f | %.0f, %.0f |\n", t.Steps, t.Shape, t.Way, t.Threads,
			t.Mill.First.Median, t.Mill.First.P95, t.Bare.First.Median, t.Bare.First.P95)
	}
}

func spread(s summary, digits int) string {
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.Median, digits, s.Min, digits, s.Max)
}

func (r *report) versions() string {
	var out []string
	for name, version := range r.Versions {
		out = append(out, strings.TrimPrefix(name, "go.temporal.io/")+" "+version)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
