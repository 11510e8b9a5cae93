package observe

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/threadmill/threadmill/telemetry"
	"github.com/threadmill/threadmill/tool"
)

// CallTool calls a tool. It has the span and the metrics of a tool call.
func (o *Observer) CallTool(ctx context.Context, t tool.Tool, call tool.Call) (tool.Result, error) {
	if o == nil {
		return t.Call(ctx, call)
	}
	began, name := time.Now(), t.Definition().Name
	ctx, span := o.tracer.Start(ctx, telemetry.OperationExecuteTool+" "+name, trace.WithAttributes(
		attribute.String(telemetry.AttrOperation, telemetry.OperationExecuteTool), attribute.String(telemetry.AttrToolName, name), attribute.String(telemetry.AttrToolCallID, call.ID),
		attribute.String(telemetry.AttrAgent, call.Agent), attribute.String(telemetry.AttrConversation, call.ThreadID), attribute.String(telemetry.AttrNamespace, call.Namespace),
	))
	class := errAbandoned.Error() // of a tool that panics
	var res tool.Result
	var err error
	defer func() {
		set := []attribute.KeyValue{attribute.String(telemetry.AttrToolName, o.tools.bound(name)), attribute.String(telemetry.AttrAgent, o.agents.bound(call.Agent))}
		if class != "" {
			set = append(set, attribute.String(telemetry.AttrErrorType, class))
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
		span.SetAttributes(o.content(telemetry.AttrToolArguments, call.Arguments))
	}
	res, err = t.Call(ctx, call)
	class = toolErrorClass(res, err)
	if o.cfg.Content {
		span.SetAttributes(o.content(telemetry.AttrToolResult, res.Output))
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
