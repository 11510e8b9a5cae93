package agent

import (
	"context"
	"slices"
)

// Lister is what a [Registry] can be as well: one that knows all of its agents.
type Lister interface {
	// Agents returns the agents of a namespace, the default agent first.
	Agents(ctx context.Context, namespace string) ([]Agent, error)
}

// Agents implements [Lister].
func (f Fixed) Agents(context.Context, string) ([]Agent, error) {
	return slices.Clone(f), nil
}
