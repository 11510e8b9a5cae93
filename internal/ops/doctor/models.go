package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Models are the models that agents use, as "provider/model", and their providers.
type Models struct {
	Providers map[string]llm.Provider
	Used      []string

	// Call calls each model once. Otherwise only the providers' names are checked.
	Call bool
}

// modelWithin is the time limit of the call of a model.
const modelWithin = 20 * time.Second

// Check checks each model.
func (m Models) Check(ctx context.Context) []Finding {
	used := slices.Clone(m.Used)
	slices.Sort(used)
	used = slices.Compact(used)
	out := make([]Finding, len(used))
	var called sync.WaitGroup
	for i, name := range used {
		called.Go(func() { out[i] = m.model(ctx, name) })
	}
	called.Wait()
	return out
}

func (m Models) model(ctx context.Context, name string) (found Finding) {
	const check = "models"
	defer func() {
		if p := recover(); p != nil {
			found = Bad(check, "correct the provider, which is the program's own", "%s: the provider panicked: %v", name, p)
		}
	}()
	provider, model, _ := strings.Cut(name, "/")
	p := m.Providers[provider]
	switch {
	case p == nil:
		return Bad(check, fmt.Sprintf("add the provider %q to the configuration, or give the agent another model", provider), "%s: there is no provider %q", name, provider)
	case !m.Call:
		return Good(check, "%s is configured, and was not called", name)
	}
	ctx, cancel := context.WithTimeout(ctx, modelWithin)
	defer cancel()
	begun := time.Now()
	_, err := p.Generate(ctx, llm.Request{
		Model: model, Messages: []llm.Message{{Role: event.RoleUser, Content: "Answer with the word ok."}}, MaxOutputTokens: 64,
	}, nil)
	if err != nil {
		return Bad(check, modelAdvice(err), "%s: %s", name, err)
	}
	return Good(check, "%s answers within %s", name, time.Since(begun).Round(time.Millisecond))
}

func modelAdvice(err error) string {
	failed, ok := errors.AsType[*llm.Error](err)
	switch {
	case !ok || failed.StatusCode == 0:
		return "check the provider's address (baseURL), and that this machine reaches it"
	case failed.StatusCode == http.StatusUnauthorized || failed.StatusCode == http.StatusForbidden:
		return "check the provider's key, and whether it may use this model"
	case failed.StatusCode == http.StatusNotFound || failed.StatusCode == http.StatusBadRequest:
		return "check the name of the model"
	case failed.StatusCode == http.StatusTooManyRequests:
		return "the provider limits requests: raise its limit, or configure a fallback chain"
	}
	return "the provider has a problem: configure a fallback chain, or wait"
}
