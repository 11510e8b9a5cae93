package agent

import (
	"context"
	"slices"
)

// Lister is an optional interface of a [Source] that can list its agents.
type Lister interface {
	// Agents returns the agents of a namespace, the default agent first.
	Agents(ctx context.Context, namespace string) ([]Agent, error)
}

// Agents implements [Lister].
func (f Fixed) Agents(context.Context, string) ([]Agent, error) {
	return slices.Clone(f), nil
}
