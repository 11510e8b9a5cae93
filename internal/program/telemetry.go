package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/threadmill/threadmill/telemetry"
)

// Variables of telemetry, besides OpenTelemetry's own.
const (
	// EnvCountWaiting is the interval at which this process counts the approvals that wait.
	EnvCountWaiting = "THREADMILL_COUNT_WAITING"

	// EnvIgnoreCallers begins new traces for requests with the header traceparent, if it is true.
	EnvIgnoreCallers = "THREADMILL_IGNORE_TRACEPARENT"

	// envContent is the variable of other instrumentations, too.
	envContent = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
)

// flushWithin is the time for the last spans and metrics of a process.
const flushWithin = 5 * time.Second

// StartTelemetry exports traces and metrics as the OTEL_* environment says, under the name of a service unless the
// environment has another one. Without such variables, nothing is recorded. The caller must call stop at the end.
func StartTelemetry(ctx context.Context, service string, getenv func(string) string, log *slog.Logger) (cfg telemetry.Config, stop func(), err error) {
	given := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return getenv(name) != "" })
	}
	if cfg.CountWaiting, err = countWaiting(getenv(EnvCountWaiting)); err != nil {
		return cfg, nil, err
	}
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return telemetry.Config{}, func() {}, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", "error", err) }))
	cfg.IgnoreCallers = strings.EqualFold(getenv(EnvIgnoreCallers), "true")
	cfg.Content = slices.Contains([]string{"true", "span_only", "span_and_event"}, strings.ToLower(getenv(envContent)))
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attribute.String("service.name", service)), resource.WithFromEnv())
	if err != nil {
		return cfg, nil, Usagef("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	var ends []func(context.Context) error
	stop = sync.OnceFunc(func() {
		within, cancel := context.WithTimeout(context.Background(), flushWithin)
		defer cancel()
		for _, end := range ends {
			if err := end(within); err != nil {
				log.Warn("the last spans or metrics may be lost", "error", err)
			}
		}
	})
	if given("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return cfg, nil, Usagef("OTEL_TRACES_EXPORTER: %w", err)
		}
		if !autoexport.IsNoneSpanExporter(exporter) {
			provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about), sdktrace.WithIDGenerator(telemetry.IDs{}))
			cfg.TracerProvider, ends = provider, append(ends, provider.Shutdown)
		}
	}
	if given("OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			stop()
			return cfg, nil, fmt.Errorf("OTEL_METRICS_EXPORTER: %w", err)
		}
		if !autoexport.IsNoneMetricReader(reader) {
			provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(about))
			cfg.MeterProvider, ends = provider, append(ends, provider.Shutdown)
		}
	}
	return cfg, stop, nil
}

func countWaiting(value string) (time.Duration, error) {
	if value == "" {
		return 0, nil
	}
	every, err := time.ParseDuration(value)
	if err == nil && every < telemetry.MinCountWaiting {
		err = errors.New("is less than " + telemetry.MinCountWaiting.String())
	}
	if err != nil {
		return 0, Usagef("%s: %q must be an interval, such as 1m, of at least %s", EnvCountWaiting, value, telemetry.MinCountWaiting)
	}
	return every, nil
}
