package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name of Threadmill's instrumentation.
const Scope = "github.com/threadmill/threadmill"

// Config configures traces and metrics. The zero value records nothing.
type Config struct {
	// TracerProvider creates spans. Default: none.
	TracerProvider trace.TracerProvider

	// MeterProvider creates metrics. Default: none.
	MeterProvider metric.MeterProvider

	// Content adds prompts, replies, arguments and results to spans, each up to 16 KiB. They may contain
	// personal data and secrets. Default: no content.
	Content bool

	// IgnoreCallers begins a new trace with every HTTP request. Default: a request with the header
	// traceparent continues the trace of its caller, who so decides whether it is sampled.
	IgnoreCallers bool

	// CountWaiting is the interval at which Runtime.Run counts the approvals that wait in all threads of the
	// namespace, with one query of the store. One process is enough. Default: never.
	CountWaiting time.Duration
}

// MinCountWaiting is the minimum of [Config].CountWaiting.
const MinCountWaiting = time.Second

// Enabled reports whether anything is recorded.
func (c Config) Enabled() bool { return c.TracerProvider != nil || c.MeterProvider != nil }
