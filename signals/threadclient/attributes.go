package threadclient

import (
	"context"
	"fmt"
	"sort"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/signals"
)

func memo(title string, agents []string) map[string]any {
	m := map[string]any{signals.MemoAgents: append([]string{}, agents...)}
	if title != "" {
		m[signals.MemoTitle] = title
	}
	return m
}

func staticSummary(threadID, title string) string {
	if title == "" {
		return fmt.Sprintf("thread %s", threadID)
	}
	return title
}

// EnsureAttributes registers the search attributes of threads with a Temporal namespace that lacks
// them. If the server does not allow that, as on Temporal Cloud, the error names the attributes to
// create.
func EnsureAttributes(ctx context.Context, c client.Client, temporalNamespace string) error {
	look := func() (attributes, error) { return searchattr.Known(ctx, c, temporalNamespace) }
	add := func(missing attributes) error {
		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			SearchAttributes: missing, Namespace: temporalNamespace,
		})
		return err
	}
	err := ensure(look, add)
	if err != nil {
		return fmt.Errorf("search attributes of namespace %s: %w", temporalNamespace, err)
	}
	return nil
}

type attributes = map[string]enumspb.IndexedValueType

// ensureTries is the number of attempts. If two workers register attributes at the same time, the
// server rejects one of them; on its next attempt, the attributes exist.
const ensureTries = 3

func ensure(look func() (attributes, error), add func(missing attributes) error) error {
	for try := 1; ; try++ {
		known, err := look()
		if err != nil {
			return fmt.Errorf("asking Temporal for them: %w", err)
		}
		missing := attributes{}
		var names []string
		for name, typ := range searchattr.Types() {
			if _, ok := known[name]; !ok {
				missing[name] = typ
				names = append(names, fmt.Sprintf("%s (%s)", name, typ))
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if err = add(missing); err == nil {
			return nil
		}
		if try == ensureTries {
			sort.Strings(names)
			return fmt.Errorf("registering them: %w; create them by hand: %s", err, strings.Join(names, ", "))
		}
	}
}
