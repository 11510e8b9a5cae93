package observe

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/threadmill/threadmill/tool"
)

// CallTool calls a tool. It has the span and the metrics of a tool call.
func (o *Observer) CallTool(ctx context.Context, t tool.Tool, call tool.Call) (tool.Result, error) {
	if o == nil {
		return t.Call(ctx, call)
	}
	began, name := time.Now(), t.Definition().Name
	ctx, span := o.tracer.Start(ctx, OperationExecuteTool+" "+name, trace.WithAttributes(
		attribute.String(AttrOperation, OperationExecuteTool), attribute.String(AttrToolName, name), attribute.String(AttrToolCallID, call.ID),
		attribute.String(AttrAgent, call.Agent), attribute.String(AttrConversation, call.ThreadID), attribute.String(AttrNamespace, call.Namespace),
	))
	class := errAbandoned.Error() // of a tool that panics
	var res tool.Result
	var err error
	defer func() {
		set := []attribute.KeyValue{attribute.String(AttrToolName, o.tools.bound(name)), attribute.String(AttrAgent, o.agents.bound(call.Agent))}
		if class != "" {
			set = append(set, attribute.String(AttrErrorType, class))
			why := err
			if why == nil {
				why = errors.New(class)
			}
			o.fail(span, class, why)
		}
		o.meters.toolDuration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(set...))
		span.End()
	}()
	if o.cfg.Content {
		span.SetAttributes(o.content(AttrToolArguments, call.Arguments))
	}
	res, err = t.Call(ctx, call)
	class = toolErrorClass(res, err)
	if o.cfg.Content {
		span.SetAttributes(o.content(AttrToolResult, res.Output))
	}
	return res, err
}

func toolErrorClass(res tool.Result, err error) string {
	_, asks := errors.AsType[*tool.InputRequired](err)
	switch {
	case asks:
		return "" // no failure: it goes on with a person's input
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case err != nil:
		return errOther
	case res.IsError:
		return "tool_error"
	}
	return ""
}
