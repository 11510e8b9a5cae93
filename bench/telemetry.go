package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/telemetry"
)

// sampledShare is the share of traces that a sampled runtime keeps.
const sampledShare = 0.01

// telemetryRow compares turns with telemetry to turns without.
type telemetryRow struct {
	Telemetry string `json:"telemetry"`
	Threads   int    `json:"threads"`

	// Ratio is the ratio of turns per second, for each pair of rounds.
	Ratio summary `json:"ratio"`
}

// telemetry measures the cost of traces and metrics. Exported spans are encoded, and thrown away.
func (m *meter) telemetry(ctx context.Context) ([]telemetryRow, error) {
	var rows []telemetryRow
	for _, kind := range []struct {
		name  string
		share float64
	}{{"metrics, and 1 % of the traces", sampledShare}, {"metrics, and all traces", 1}} {
		observed, err := m.observed(ctx, kind.share)
		if err != nil {
			return nil, err
		}
		if err := m.warmUp(ctx, m.world.mill, observed); err != nil {
			return nil, err
		}
		for i, threads := range m.Threads {
			rounds, err := m.alternate(ctx, [2]side{observed, m.world.mill}, shapeOf("tool"), byGo, threads, m.Turns[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind.name, err)
			}
			row := telemetryRow{kind.name, threads, newThroughputRow(asLocal, shapeOf("tool"), byGo, threads, rounds).Ratio}
			m.say("%s, %2d threads: ratio %.2f", kind.name, threads, row.Ratio.Median)
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// observed starts a runtime that keeps a share of the traces.
func (m *meter) observed(ctx context.Context, share float64) (*mill, error) {
	exporter, err := stdouttrace.New(stdouttrace.WithWriter(io.Discard))
	if err != nil {
		return nil, err
	}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(telemetry.IDs{}), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share))))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	m.world.onStop(func() error {
		return errors.Join(tracers.Shutdown(context.WithoutCancel(ctx)), meters.Shutdown(context.WithoutCancel(ctx)))
	})
	return m.world.startThreadmill(ctx, m.Options, newID("bench-observed"), threadmill.Config{Telemetry: telemetry.Config{TracerProvider: tracers, MeterProvider: meters}})
}

func (r *report) telemetryTable(b *strings.Builder) {
	if len(r.Telemetry) == 0 {
		return
	}
	fmt.Fprint(b, "\n### Turns with a tool, with telemetry against none\n\n")
	fmt.Fprint(b, "| recorded | threads | turns/s, ratio: median (min–max) | pairs |\n|---|---|---|---|\n")
	for _, t := range r.Telemetry {
		fmt.Fprintf(b, "| %s | %d | %s | %d |\n", t.Telemetry, t.Threads, spread(t.Ratio, 2), t.Ratio.Count)
	}
}
