package observe

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Models decorates model providers, by their names.
func (o *Observer) Models(providers map[string]llm.Provider) map[string]llm.Provider {
	if o == nil {
		return providers
	}
	out := make(map[string]llm.Provider, len(providers))
	for name, p := range providers {
		out[name] = o.model(name, p)
	}
	return out
}

// model keeps what else a provider can do.
func (o *Observer) model(name string, p llm.Provider) llm.Provider {
	chat := &observedModel{p, o, name}
	embedder, embeds := p.(llm.Embedder)
	reranker, reranks := p.(llm.Reranker)
	embedding := &observedEmbedder{embedder, o, name}
	switch {
	case embeds && reranks:
		return struct {
			llm.Provider
			llm.Embedder
			llm.Reranker
		}{chat, embedding, reranker}
	case embeds:
		return struct {
			llm.Provider
			llm.Embedder
		}{chat, embedding}
	case reranks:
		return struct {
			llm.Provider
			llm.Reranker
		}{chat, reranker}
	}
	return chat
}

type observedModel struct {
	llm.Provider
	o    *Observer
	name string
}

// Generate has the span and the metrics of a model call.
func (m *observedModel) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	o, began := m.o, time.Now()
	ctx, span := o.tracer.Start(ctx, OperationChat+" "+req.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(append(subjectOf(ctx).attributes(),
		attribute.String(AttrOperation, OperationChat), attribute.String(AttrProvider, m.name), attribute.String(AttrRequestModel, req.Model))...))
	defer span.End()
	set := metric.WithAttributeSet(attribute.NewSet(
		attribute.String(AttrOperation, OperationChat), attribute.String(AttrProvider, m.name),
		attribute.String(AttrRequestModel, o.models.bound(req.Model)), attribute.String(AttrAgent, o.agents.bound(subjectOf(ctx).agent)),
	))
	seen := onDelta
	if onDelta != nil {
		first := false
		seen = func(d llm.Delta) {
			if !first {
				first = true
				after := time.Since(began).Seconds()
				o.meters.firstChunk.Record(ctx, after, set)
				span.SetAttributes(attribute.Float64(AttrFirstChunk, after))
			}
			onDelta(d)
		}
	}
	if o.cfg.Content && span.IsRecording() {
		span.SetAttributes(o.input(req))
	}
	res, err := m.Provider.Generate(ctx, req, seen)
	failed := metric.WithAttributes()
	if err != nil {
		class := modelErrorClass(err)
		failed = metric.WithAttributes(attribute.String(AttrErrorType, class))
		o.fail(span, class, err)
	}
	o.meters.inferenceDuration.Record(ctx, time.Since(began).Seconds(), set, failed)
	o.usage(ctx, res.Bounded().Usage, set)
	if span.IsRecording() {
		span.SetAttributes(o.usageAttributes(res)...)
		if o.cfg.Content {
			span.SetAttributes(o.output(res, err))
		}
	}
	return res, err
}

func (o *Observer) usage(ctx context.Context, u event.Usage, set metric.MeasurementOption) {
	modality := metric.WithAttributes(attribute.String(AttrModality, "unknown"))
	for _, c := range []struct {
		counter metric.Int64Counter
		n       int
	}{
		{o.meters.inputTokens, u.InputTokens},
		{o.meters.outputTokens, u.OutputTokens},
		{o.meters.cacheRead, u.CachedTokens},
		{o.meters.cacheWrite, u.CacheWriteTokens},
		{o.meters.reasoning, u.ReasoningTokens},
	} {
		c.counter.Add(ctx, int64(c.n), set, modality)
	}
	if u.InputTokens+u.OutputTokens > 0 {
		o.meters.tokenUsage.Record(ctx, int64(u.InputTokens), set, metric.WithAttributes(attribute.String(AttrTokenType, "input")))
		o.meters.tokenUsage.Record(ctx, int64(u.OutputTokens), set, metric.WithAttributes(attribute.String(AttrTokenType, "output")))
	}
}

func (o *Observer) usageAttributes(res llm.Response) []attribute.KeyValue {
	u := res.Bounded().Usage
	list := []attribute.KeyValue{
		attribute.Int(AttrInputTokens, u.InputTokens), attribute.Int(AttrOutputTokens, u.OutputTokens),
		attribute.Int(AttrCacheRead, u.CachedTokens), attribute.Int(AttrCacheWrite, u.CacheWriteTokens), attribute.Int(AttrReasoning, u.ReasoningTokens),
	}
	if res.Model != "" {
		list = append(list, attribute.String(AttrResponseModel, o.text(res.Model, maxName)))
	}
	if res.FinishReason != "" {
		list = append(list, attribute.StringSlice(AttrFinishReasons, []string{o.text(res.FinishReason, maxName)}))
	}
	return list
}

// modelErrorClass returns one of few values: the status or what Threadmill makes of the error. The codes of
// providers have no bound.
func modelErrorClass(err error) string {
	failed, ok := errors.AsType[*llm.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case !ok:
		return errOther
	case failed.ContextOverflow:
		return "context_overflow"
	case failed.Code == llm.CodeRefusal, failed.Code == llm.CodeReplyTooLarge:
		return failed.Code
	case failed.StatusCode >= 100 && failed.StatusCode < 600:
		return strconv.Itoa(failed.StatusCode)
	}
	return errOther
}

type observedEmbedder struct {
	llm.Embedder
	o    *Observer
	name string
}

// Embed has the span and the metrics of a call of an embedder.
func (e *observedEmbedder) Embed(ctx context.Context, req llm.EmbedRequest) (llm.Embeddings, error) {
	o, began := e.o, time.Now()
	ctx, span := o.tracer.Start(ctx, OperationEmbeddings+" "+req.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(append(subjectOf(ctx).attributes(),
		attribute.String(AttrOperation, OperationEmbeddings), attribute.String(AttrProvider, e.name), attribute.String(AttrRequestModel, req.Model))...))
	defer span.End()
	out, err := e.Embedder.Embed(ctx, req)
	set := []attribute.KeyValue{
		attribute.String(AttrOperation, OperationEmbeddings), attribute.String(AttrProvider, e.name),
		attribute.String(AttrRequestModel, o.models.bound(req.Model)),
	}
	if err != nil {
		class := modelErrorClass(err)
		set = append(set, attribute.String(AttrErrorType, class))
		o.fail(span, class, err)
	}
	o.meters.operationDuration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(set...))
	span.SetAttributes(attribute.Int(AttrInputTokens, out.Tokens))
	return out, err
}

// Retrieval runs a search of documents, with its span and metrics.
func (o *Observer) Retrieval(ctx context.Context, search func(context.Context) error) error {
	if o == nil {
		return search(ctx)
	}
	began, operation := time.Now(), attribute.String(AttrOperation, OperationRetrieval)
	ctx, span := o.tracer.Start(ctx, OperationRetrieval, trace.WithAttributes(append(subjectOf(ctx).attributes(), operation)...))
	defer span.End()
	err := search(ctx)
	set := []attribute.KeyValue{operation}
	if err != nil {
		class := storeErrorClass(err)
		set = append(set, attribute.String(AttrErrorType, class))
		o.fail(span, class, err)
	}
	o.meters.operationDuration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(set...))
	return err
}
