package observe

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

type instruments struct {
	turns                                                                         metric.Int64Counter
	turnDuration, queueTime, stepDuration, approvalWait, storeDuration, streamLag metric.Float64Histogram
	queueDepth                                                                    metric.Int64Histogram
	retries, lost, published, retained, prunedLogs                                metric.Int64Counter
	viewers                                                                       metric.Int64UpDownCounter
	approvals                                                                     metric.Int64Gauge
	approvalAge, retentionAge                                                     metric.Float64Gauge
	inferenceDuration, firstChunk, operationDuration, toolDuration                metric.Float64Histogram
	tokenUsage                                                                    metric.Int64Histogram
	inputTokens, outputTokens, cacheRead, cacheWrite, reasoning                   metric.Int64Counter
}

// Boundaries of histograms.
var (
	// short are for what usually takes milliseconds, in seconds.
	short = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

	// model are those of the conventions, and more for slow models.
	model = []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68}

	// long are for what may wait for people, up to a week.
	long = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600}

	tokens = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	counts = []float64{0, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1000}
)

func newInstruments(m metric.Meter) (*instruments, error) {
	var problems []error
	seconds := func(name, description string, bounds []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		problems = append(problems, err)
		return h
	}
	sizes := func(name, unit, description string, bounds []float64) metric.Int64Histogram {
		h, err := m.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		problems = append(problems, err)
		return h
	}
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		problems = append(problems, err)
		return c
	}
	i := &instruments{
		turns:         counter(MetricTurns, "{turn}", "Turns that have ended, by outcome."),
		turnDuration:  seconds(MetricTurnDuration, "Time from the beginning to the end of a turn, with its waits for people.", long),
		queueTime:     seconds(MetricQueueTime, "Time from the arrival of an event at its thread to the beginning of its turn.", long),
		queueDepth:    sizes(MetricQueueDepth, "{event}", "Events that wait in a thread when a turn begins.", counts),
		stepDuration:  seconds(MetricStepDuration, "Duration of an attempt at a step (activity).", model),
		retries:       counter(MetricStepRetries, "{attempt}", "Attempts at a step after the first one."),
		lost:          counter(MetricStepsLost, "{step}", "Attempts at a step that were lost with their worker."),
		approvalWait:  seconds(MetricApprovalWait, "Time from a request for approval to its end.", long),
		storeDuration: seconds(MetricStoreDuration, "Duration of an operation of the store.", short),
		streamLag:     seconds(MetricStreamLag, "Time from the storage of a record to its delivery to a viewer who follows the thread.", short),
		published:     counter(MetricStreamPublished, "{entry}", "Entries published to the live stream."),
		retained:      counter(MetricRetained, "{thread}", "Threads that retention has closed or erased, or tried to, by outcome."),
		prunedLogs:    counter(MetricPrunedLogs, "{log}", "Logs of tool calls that retention has deleted."),

		inferenceDuration: seconds(MetricInferenceDuration, "Duration of a model call.", model),
		firstChunk:        seconds(MetricFirstChunk, "Time from the request to the first piece of a reply.", model),
		operationDuration: seconds(MetricOperationDuration, "Duration of a call of an embedder or a retrieval.", model),
		toolDuration:      seconds(MetricToolDuration, "Duration of a tool call.", model),
		tokenUsage:        sizes(MetricTokenUsage, "{token}", "Tokens of a model call.", tokens),
		inputTokens:       counter(MetricInputTokens, "{token}", "Tokens of requests, with cached ones."),
		outputTokens:      counter(MetricOutputTokens, "{token}", "Tokens of replies, with thoughts."),
		cacheRead:         counter(MetricCacheRead, "{token}", "Tokens of requests that the provider had cached."),
		cacheWrite:        counter(MetricCacheWrite, "{token}", "Tokens of requests that the provider wrote to its cache."),
		reasoning:         counter(MetricReasoning, "{token}", "Tokens of thoughts."),
	}
	var err error
	i.viewers, err = m.Int64UpDownCounter(MetricViewers, metric.WithUnit("{viewer}"), metric.WithDescription("Viewers that follow threads."))
	problems = append(problems, err)
	i.approvals, err = m.Int64Gauge(MetricApprovals, metric.WithUnit("{approval}"), metric.WithDescription("Requests for approval that wait, in all threads of the namespace."))
	problems = append(problems, err)
	i.retentionAge, err = m.Float64Gauge(MetricRetentionAge, metric.WithUnit("s"), metric.WithDescription("Time since the last complete pass of retention, 0 without retention."))
	problems = append(problems, err)
	i.approvalAge, err = m.Float64Gauge(MetricApprovalAge, metric.WithUnit("s"), metric.WithDescription("Age of the oldest request for approval that waits."))
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	// What has not happened yet is 0, so that its first time is an increase.
	for _, c := range []metric.Int64Counter{i.retries, i.lost} {
		for _, step := range []string{
			step.ActivityCallModel, step.ActivityRunTool, step.ActivityRunTask, step.ActivityRecord, step.ActivityRunHooks, step.ActivityHandleEvent,
		} {
			c.Add(context.Background(), 0, metric.WithAttributes(attribute.String(AttrStep, step)))
		}
	}
	for _, outcome := range []signals.TurnStatus{signals.TurnCompleted, signals.TurnFailed, signals.TurnInterrupted} {
		i.turns.Add(context.Background(), 0, metric.WithAttributes(attribute.String(AttrOutcome, string(outcome))))
	}
	i.retain(context.Background(), signals.Retained{})
	return i, nil
}

// retain counts what a pass of retention has done.
func (i *instruments) retain(ctx context.Context, pass signals.Retained) {
	for outcome, n := range map[string]int{outcomeClosed: pass.Closed, outcomeErased: pass.Erased, outcomeFailed: pass.Failed} {
		i.retained.Add(ctx, int64(n), metric.WithAttributes(attribute.String(AttrOutcome, outcome)))
	}
	i.prunedLogs.Add(ctx, int64(pass.ToolLogs))
}

// The outcomes of retention.
const (
	outcomeClosed = "closed"
	outcomeErased = "erased"
	outcomeFailed = "failed"
)
