// Package telemetry configures the traces and metrics of Threadmill, by OpenTelemetry's API.
//
// Set [Config] as threadmill.Config.Telemetry, and dial Temporal with [Config.ClientOptions]:
//
//	cfg := telemetry.Config{TracerProvider: tracers, MeterProvider: meters}
//	temporal, err := client.Dial(cfg.ClientOptions(client.Options{}))
//
// The zero Config records nothing and costs nothing. The providers come from OpenTelemetry's SDK; pass
// [IDs] to its tracer provider (sdktrace.WithIDGenerator), so that the span of an agent is the parent of
// its steps even if another worker completes the turn.
//
// A trace is that of a turn, not of a thread, which lives for years: it begins with the request that posts an
// event, and contains the event's turn with its agents, model calls, tools and sub-agents. The trace context
// travels in the post (traceparent), so it survives continue-as-new. Without it, the trace begins with the
// turn.
//
// Spans and metrics of model calls, agents and tools follow OpenTelemetry's conventions for generative AI; the
// others are named threadmill.*, temporal_* and http.*. docs/observability.md lists all of them. Labels of
// metrics are bounded: they contain no ids, and of names that may be created at run time only the first ones.
package telemetry
