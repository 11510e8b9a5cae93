package observe

import (
	"cmp"
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/observe/tracing"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

var _ workflows.Observer = (*Observer)(nil)

// Turn continues the trace of the turn's post.
func (o *Observer) Turn(ctx workflow.Context, t workflows.ObservedTurn) workflow.Context {
	if t.First && o.recent.first(ctx, identityOf("begun", t.Namespace, t.ThreadID, t.ID)) {
		o.meters.queueTime.Record(context.Background(), t.StartedAt.Sub(t.PostedAt).Seconds())
		o.meters.queueDepth.Record(context.Background(), int64(t.Waiting))
	}
	return tracing.ContextWithSpan(ctx, trace.SpanFromContext(tracing.WithTraceparent(context.Background(), t.Traceparent)))
}

// TurnEnded counts the turn.
func (o *Observer) TurnEnded(ctx workflow.Context, t workflows.ObservedTurn, outcome signals.TurnStatus) {
	if !o.recent.first(ctx, identityOf("ended", t.Namespace, t.ThreadID, t.ID)) {
		return
	}
	set := metric.WithAttributes(attribute.String(AttrOutcome, string(outcome)))
	o.meters.turns.Add(context.Background(), 1, set)
	o.meters.turnDuration.Record(context.Background(), workflow.Now(ctx).Sub(t.StartedAt).Seconds(), set)
}

// Run has the span of an agent's run. Each worker that replays the run starts the same span; the one that sees the
// run's end exports it.
func (o *Observer) Run(ctx workflow.Context, r workflows.ObservedRun) (workflow.Context, func(workflows.ObservedRun)) {
	t := r.Turn
	// The parts of a run share the ids, and other runs have others.
	sum := identityOf("invoke_agent", t.Namespace, t.ThreadID, t.ID, strconv.Itoa(r.Slot))
	turn := identityOf("turn", t.Namespace, t.ThreadID, t.ID)
	parent := tracing.WithTraceparent(context.Background(), t.Traceparent)
	_, span := o.tracer.Start(tracing.WithIDs(parent, trace.TraceID(turn[:16]), trace.SpanID(sum[:8])), agentSpan(r.Agent), trace.WithTimestamp(r.StartedAt))
	return tracing.ContextWithSpan(ctx, span), func(r workflows.ObservedRun) {
		if !o.recent.first(ctx, sum) {
			return
		}
		span.SetName(agentSpan(r.Agent))
		span.SetAttributes(attribute.String(AttrOperation, OperationInvokeAgent))
		span.SetAttributes(subject{t.Namespace, t.ThreadID, t.EventID, t.TraceID, r.Agent}.attributes()...)
		if r.Error != "" {
			text := "failed"
			if o.cfg.Content {
				text = r.Error
			}
			span.SetStatus(codes.Error, text)
		}
		span.End(trace.WithTimestamp(workflow.Now(ctx)))
	}
}

func agentSpan(agent string) string {
	return OperationInvokeAgent + " " + cmp.Or(agent, "default")
}

// Decided has the span of a request for approval.
func (o *Observer) Decided(ctx workflow.Context, d workflows.ObservedDecision) {
	t := d.Turn
	if !o.recent.first(ctx, identityOf("decided", t.Namespace, t.ThreadID, t.ID, d.ToolCallID, d.RequestedAt.String())) {
		return
	}
	outcome := attribute.String(AttrOutcome, string(d.Decision))
	o.meters.approvalWait.Record(context.Background(), d.DecidedAt.Sub(d.RequestedAt).Seconds(), metric.WithAttributes(attribute.String(AttrToolName, o.tools.bound(d.Tool)), outcome))
	_, span := o.tracer.Start(trace.ContextWithSpan(context.Background(), tracing.SpanFromContext(ctx)), "approval "+d.Tool,
		trace.WithTimestamp(d.RequestedAt), trace.WithAttributes(attribute.String(AttrToolName, d.Tool), outcome))
	span.End(trace.WithTimestamp(d.DecidedAt))
}

// Traceparent returns the trace context of the span of the run.
func (o *Observer) Traceparent(ctx workflow.Context) string {
	return tracing.Traceparent(trace.ContextWithSpan(context.Background(), tracing.SpanFromContext(ctx)))
}
