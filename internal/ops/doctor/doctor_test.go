package doctor

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm"
)

// TestClock: a clock that was read within the time of a request agrees, and a difference counts from the nearer end.
func TestClock(t *testing.T) {
	before := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	after := before.Add(30 * time.Second)
	for _, tt := range []struct {
		read   time.Time
		status Status
		detail string
	}{
		{before, OK, "the clock of X agrees with that of this machine"},
		{before.Add(15 * time.Second), OK, "the clock of X agrees with that of this machine"},
		{after.Add(maxSkew - 1), OK, "the clock of X agrees with that of this machine"},
		{after.Add(maxSkew), Failed, "the clock of X is 5s ahead of that of this machine"},
		{before.Add(1 - maxSkew), OK, "the clock of X agrees with that of this machine"},
		{before.Add(-time.Hour), Failed, "the clock of X is 1h0m0s behind that of this machine"},
	} {
		got := Clock("X", tt.read, before, after)
		require.Equal(t, []any{"clocks", tt.status, tt.detail}, []any{got.Check, got.Status, got.Detail})
		require.Equal(t, tt.status == OK, got.Advice == "")
	}
}

func TestReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ping := func(answers time.Duration) Finding {
			return Reached(t.Context(), "store", "start it", func(ctx context.Context) error {
				select {
				case <-time.After(answers):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}
		require.Equal(t, Good("store", "it answers within 3ms"), ping(3*time.Millisecond))
		require.Equal(t, Bad("store", "start it", "it does not answer: context deadline exceeded"), ping(reachWithin+1))
	})
}

// TestSort: each check follows those that it needs, and findings of one check stay in their order.
func TestSort(t *testing.T) {
	all := []Finding{Good("models", "a"), Good("store", "b"), Good("workers", "1"), Good("temporal", "c"), Good("workers", "2")}
	Sort(all)
	require.Equal(t, []Finding{Good("temporal", "c"), Good("workers", "1"), Good("workers", "2"), Good("store", "b"), Good("models", "a")}, all)
}

// provider is a provider whose answers take no time.
type provider func(ctx context.Context, req llm.Request) error

func (p provider) Generate(ctx context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	return llm.Response{}, p(ctx, req)
}

// TestModels: each model that agents use is checked once, and the advice fits the failure.
func TestModels(t *testing.T) {
	failing := func(err error) provider { return func(context.Context, llm.Request) error { return err } }
	const address = "check the provider's address (baseURL), and that this machine reaches it"
	for name, tt := range map[string]struct {
		err    error
		advice string
	}{
		"no response":      {errors.New("connection refused"), address},
		"none, by the SDK": {&llm.Error{}, address},
		"key":              {&llm.Error{StatusCode: http.StatusUnauthorized}, "check the provider's key, and whether it may use this model"},
		"permission":       {&llm.Error{StatusCode: http.StatusForbidden}, "check the provider's key, and whether it may use this model"},
		"unknown model":    {&llm.Error{StatusCode: http.StatusNotFound}, "check the name of the model"},
		"invalid model":    {&llm.Error{StatusCode: http.StatusBadRequest}, "check the name of the model"},
		"limit":            {&llm.Error{StatusCode: http.StatusTooManyRequests}, "the provider limits requests: raise its limit, or configure a fallback chain"},
		"outage":           {&llm.Error{StatusCode: http.StatusBadGateway}, "the provider has a problem: configure a fallback chain, or wait"},
	} {
		t.Run(name, func(t *testing.T) {
			found := Models{Providers: map[string]llm.Provider{"p": failing(tt.err)}, Used: []string{"p/m"}, Call: true}.Check(t.Context())
			require.Equal(t, []Finding{Bad("models", tt.advice, "p/m: %s", tt.err)}, found)
		})
	}
	t.Run("each once, in order", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			calls := make(chan string, 10)
			p := provider(func(_ context.Context, req llm.Request) error { calls <- req.Model; return nil })
			m := Models{Providers: map[string]llm.Provider{"p": p}, Used: []string{"p/b/c", "p/a", "q/x", "p/a"}, Call: true}
			found := m.Check(t.Context())
			require.Equal(t, []Finding{
				Good("models", "p/a answers within 0s"), Good("models", "p/b/c answers within 0s"),
				Bad("models", `add the provider "q" to the configuration, or give the agent another model`, `q/x: there is no provider "q"`),
			}, found)
			require.Len(t, calls, 2)
			require.ElementsMatch(t, []string{"a", "b/c"}, []string{<-calls, <-calls})
			require.Equal(t, []string{"p/b/c", "p/a", "q/x", "p/a"}, m.Used, "the caller's list stays as it is")
			m.Call = false
			found = m.Check(t.Context())
			require.Equal(t, Good("models", "p/a is configured, and was not called"), found[0])
			require.Equal(t, Failed, found[2].Status)
			require.Empty(t, calls)
		})
	})
	t.Run("a provider that panics", func(t *testing.T) {
		p := provider(func(context.Context, llm.Request) error { panic("nil map") })
		found := Models{Providers: map[string]llm.Provider{"p": p}, Used: []string{"p/m"}, Call: true}.Check(t.Context())
		require.Equal(t, []Finding{Bad("models", "correct the provider, which is the program's own", "p/m: the provider panicked: nil map")}, found)
	})
	t.Run("a model that does not answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := provider(func(ctx context.Context, _ llm.Request) error { <-ctx.Done(); return ctx.Err() })
			begun := time.Now()
			found := Models{Providers: map[string]llm.Provider{"p": p}, Used: []string{"p/a", "p/b"}, Call: true}.Check(t.Context())
			require.Equal(t, modelWithin, time.Since(begun), "all at once")
			require.Equal(t, []Status{Failed, Failed}, []Status{found[0].Status, found[1].Status})
		})
	})
}
