package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if served, err := serveIfAsked(ctx); served {
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: Temporal:", err)
			stop()
			os.Exit(1)
		}
		return
	}
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// run runs the measurements that the arguments select, and prints the report.
func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(progress, &slog.HandlerOptions{Level: slog.LevelError}))
	m := &meter{Options: o, progress: progress}
	m.log = logger
	if slices.ContainsFunc(o.Parts, needsWorld) {
		if m.world, err = newWorld(ctx, o, logger); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.world.stop()) }()
	}
	report, err := m.measure(ctx)
	if err != nil {
		return err
	}
	if err := report.markdown(out); err != nil {
		return err
	}
	if o.JSON != "" {
		if err := writeJSON(o.JSON, report); err != nil {
			return err
		}
	}
	return report.gate()
}

func writeJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return os.WriteFile(file, append(data, '\n'), 0o600)
}

// meter runs the measurements.
type meter struct {
	Options
	world    *world
	log      *slog.Logger
	progress io.Writer
}

func (m *meter) measure(ctx context.Context) (*report, error) {
	r := newReport(m.Options)
	for _, part := range m.Parts {
		var err error
		switch part {
		case partThroughput:
			r.Throughput, err = m.throughput(ctx)
		case partAging:
			r.Aging, err = m.aging(ctx)
		case partCost:
			r.Cost, err = m.cost(ctx)
		case partTelemetry:
			r.Telemetry, err = m.telemetry(ctx)
		case partToken:
			r.FirstToken, err = m.firstToken(ctx)
		case partAnswers:
			r.Answers, err = m.answers(ctx)
		case partBurst:
			r.Burst, err = m.burst(ctx)
		case partFlood:
			r.Flood, err = m.flood(ctx)
		case partQuality:
			r.Quality, err = m.quality(ctx)
		case partSearch:
			r.Search, err = m.search(ctx)
		case partPassages:
			r.Passages, err = m.passages(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part, err)
		}
	}
	r.Took = time.Since(r.Date).Round(time.Second).String()
	return r, nil
}

// needsWorld reports whether a part needs the runtime of all. Costs are measured in one of their own.
func needsWorld(part string) bool {
	return part != partQuality && part != partSearch && part != partCost
}

func (m *meter) say(format string, args ...any) { fmt.Fprintf(m.progress, format+"\n", args...) }
