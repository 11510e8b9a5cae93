// Package observe records spans and metrics: it decorates what an application configures, models, store and
// stream, and observes steps, turns and requests.
package observe

import (
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/telemetry"
)

// Observer records spans and metrics. A nil Observer records nothing, and decorates nothing.
type Observer struct {
	cfg    telemetry.Config
	redact *redact.Redactor

	// tracers and meterProvider are those of cfg, or record nothing.
	tracers       trace.TracerProvider
	meterProvider metric.MeterProvider

	tracer trace.Tracer
	meters *instruments

	agents, models, tools, steps labels

	recent recent
}

// New returns nil if nothing is to be recorded. Content is redacted.
func New(cfg telemetry.Config, r *redact.Redactor) (*Observer, error) {
	if !cfg.Enabled() {
		return nil, nil //nolint:nilnil // documented
	}
	o := &Observer{cfg: cfg, redact: r, tracers: cfg.TracerProvider, meterProvider: cfg.MeterProvider}
	if o.tracers == nil {
		o.tracers = tracenoop.NewTracerProvider()
	}
	if o.meterProvider == nil {
		o.meterProvider = metricnoop.NewMeterProvider()
	}
	o.tracer = o.tracers.Tracer(telemetry.Scope)
	var err error
	if o.meters, err = newInstruments(o.meterProvider.Meter(telemetry.Scope)); err != nil {
		return nil, fmt.Errorf("threadmill: Config.Telemetry.MeterProvider: %w", err)
	}
	return o, nil
}

// maxLabels is the number of values of a label with names that may be created at run time.
const maxLabels = 200

// otherLabel stands for all further values.
const otherLabel = "other"

// labels bounds the values of a label of metrics: the first ones, and [otherLabel].
type labels struct {
	mu    sync.RWMutex
	known map[string]bool
}

func (l *labels) bound(value string) string {
	l.mu.RLock()
	known, full := l.known[value], len(l.known) >= maxLabels
	l.mu.RUnlock()
	switch {
	case known:
		return value
	case full:
		return otherLabel
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= maxLabels && !l.known[value] {
		return otherLabel
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	l.known[value] = true
	return value
}

// fail marks a span as failed. The error itself may contain content.
func (o *Observer) fail(span trace.Span, class string, err error) {
	text := class
	if o.cfg.Content {
		text = o.redact.Text(err.Error())
	}
	span.SetStatus(codes.Error, text)
	span.SetAttributes(attribute.String(AttrErrorType, class))
}

// errOther is the class of errors without another one, as the conventions name it.
const errOther = "_OTHER"

var errAbandoned = errors.New("abandoned")
