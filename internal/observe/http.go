package observe

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/threadmill/threadmill/internal/observe/tracing"
	"github.com/threadmill/threadmill/telemetry"
)

const eventStream = "text/event-stream"

// HTTP decorates the handler of the API. route returns the pattern of a request, which bounds the names of spans
// and the labels of metrics. Event streams, health checks and logins have neither spans nor metrics of requests:
// streams are viewers. A label keeps responses to posts that are streams apart: they last as long as the turn.
func (o *Observer) HTTP(next http.Handler, route func(*http.Request) string) http.Handler {
	if o == nil {
		return next
	}
	named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		labeler, _ := otelhttp.LabelerFromContext(r.Context())
		if pattern := route(r); pattern != "" {
			_, path, ok := strings.Cut(pattern, " ")
			if !ok {
				path = pattern
			}
			at := attribute.String("http.route", path)
			span := trace.SpanFromContext(r.Context())
			span.SetName(r.Method + " " + path)
			span.SetAttributes(at)
			labeler.Add(at)
		}
		next.ServeHTTP(w, r)
		labeler.Add(attribute.Bool(AttrStream, strings.HasPrefix(w.Header().Get("Content-Type"), eventStream)))
	})
	options := []otelhttp.Option{
		otelhttp.WithPropagators(tracing.Propagator{}),
		// Otherwise it is the header Host, which clients choose.
		otelhttp.WithServerName("threadmill"),
		otelhttp.WithFilter(func(r *http.Request) bool {
			streams := r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), eventStream)
			// Paths of logins have links that are as secret as API keys.
			return !streams && r.URL.Path != "/healthz" && r.URL.Path != "/readyz" && !strings.HasPrefix(r.URL.Path, "/oauth/")
		}),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method }),
		otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return o.cfg.IgnoreCallers }),
	}
	options = append(options, otelhttp.WithTracerProvider(o.tracers), otelhttp.WithMeterProvider(o.meterProvider))
	return otelhttp.NewHandler(named, telemetry.Scope, options...)
}
