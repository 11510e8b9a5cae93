package observe

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/threadmill/threadmill/store"
)

// Store measures the calls of a store.
func (o *Observer) Store(s store.Store) store.Store {
	if o == nil {
		return s
	}
	return store.With(s, o.storeCall)
}

func (o *Observer) storeCall(ctx context.Context, name string, do func(context.Context) error) error {
	began := time.Now()
	err := do(ctx)
	set := []attribute.KeyValue{attribute.String(AttrOperate, name)}
	if class := storeErrorClass(err); class != "" {
		set = append(set, attribute.String(AttrErrorType, class))
	}
	o.meters.storeDuration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(set...))
	return err
}

// answers are errors of a store that works.
var answers = []error{store.ErrNotFound, store.ErrConflict, store.ErrExists, store.ErrInvalid, store.ErrSuperseded}

func storeErrorClass(err error) string {
	switch {
	case err == nil, slices.ContainsFunc(answers, func(answer error) bool { return errors.Is(err, answer) }):
		return ""
	case errors.Is(err, store.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return errOther
}
