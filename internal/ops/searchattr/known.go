package searchattr

import (
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
)

// Known returns the search attributes of a namespace of Temporal, from the operator service, which knows them by name
// on every server or, if clients may not use that, from the workflow service.
func Known(ctx context.Context, c client.Client, temporalNamespace string) (map[string]enumspb.IndexedValueType, error) {
	listed, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: temporalNamespace})
	if err == nil {
		return listed.GetCustomAttributes(), nil
	}
	known, fallbackErr := c.GetSearchAttributes(ctx)
	if fallbackErr != nil {
		return nil, errors.Join(err, fallbackErr)
	}
	return known.GetKeys(), nil
}
