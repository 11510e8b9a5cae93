package activities

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/llm"
)

// maxDown bounds the time for which a provider's Retry-After makes calls skip a model.
const maxDown = time.Hour

// choices are the models that may make a call, and the chosen one.
type choices struct {
	fallback llm.Fallback
	models   []string
	at       int

	// skipped are the models before the chosen one that are down.
	skipped []event.FailedModel
}

func (c choices) model() string { return c.models[c.at] }

// chain returns the models of an agent or a title: those of a fallback chain, or one.
func (a *Activities) chain(model string) choices {
	if f, ok := a.cfg.Fallbacks[model]; ok {
		f = f.WithDefaults()
		return choices{fallback: f, models: f.Chain}
	}
	return choices{models: []string{model}}
}

// choose chooses the model of a call: the one that was chosen on another task queue, or the first
// from next on that is not down.
func (a *Activities) choose(model, next string, route *step.Route) choices {
	c := a.chain(model)
	if route != nil {
		if i := slices.Index(c.models, route.Model); i >= 0 {
			c.at = i
			return c
		}
	}
	c.at = max(0, slices.Index(c.models, next))
	a.skip(&c, time.Now())
	return c
}

// skip goes on to a model that is not down. If all are down, the one that returns first is chosen
// or, if others have failed before in this call, the next one.
func (a *Activities) skip(c *choices, now time.Time) {
	begin, soonest := c.at, c.at
	var until time.Time
	for i := begin; i < len(c.models); i++ {
		d, down := a.down.of(c.models[i], now)
		if !down {
			c.at = i
			return
		}
		if i == begin || d.until.Before(until) {
			soonest, until = i, d.until
		}
		c.skipped = append(c.skipped, event.FailedModel{Model: c.models[i], Class: d.class, Error: d.message})
	}
	if begin == 0 {
		c.at = soonest
	}
	c.skipped = c.skipped[:c.at-begin]
}

// next returns the model to call after the chosen one has failed, or "".
func (c choices) next() string {
	if c.at+1 < len(c.models) {
		return c.models[c.at+1]
	}
	return ""
}

// triggers reports whether a failure makes the chain go on. A provider that is overloaded only for
// seconds gets them.
func (c choices) triggers(e *llm.Error, delay time.Duration) bool {
	on := e.Trigger()
	return len(c.models) > 1 && slices.Contains(c.fallback.On, on) && (e.StatusCode != 429 || delay > soon)
}

// firstToken returns the time within which the reply must begin. The last model has no limit: a slow
// reply is better than none.
func (c choices) firstToken() time.Duration {
	if c.next() == "" || !slices.Contains(c.fallback.On, llm.OnSlow) {
		return 0
	}
	return c.fallback.FirstToken
}

// failures returns the failures of a call so far, with those of the model that has just failed or
// was skipped.
func failures(before []event.FailedModel, more ...event.FailedModel) []event.FailedModel {
	out := slices.Clone(before)
	for _, f := range more {
		i := slices.IndexFunc(out, func(o event.FailedModel) bool { return o.Model == f.Model })
		if i < 0 {
			out = append(out, f)
			continue
		}
		f.Attempts += out[i].Attempts
		out[i] = f
	}
	return out
}

// breaker knows the models that have just failed for a call of this process.
type breaker struct {
	mu     sync.Mutex
	models map[string]down
}

// down is a model that calls skip until a time, and its failure.
type down struct {
	until          time.Time
	class, message string
}

func (b *breaker) of(model string, now time.Time) (down, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, ok := b.models[model]
	return d, ok && now.Before(d.until)
}

func (b *breaker) fell(model string, d down) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.models == nil {
		b.models = map[string]down{}
	}
	b.models[model] = d
}

func (b *breaker) answered(model string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.models, model)
}

// fell notes that the chosen model of a chain has failed.
func (a *Activities) fell(c choices, e *llm.Error, message string) {
	until := time.Now().Add(max(c.fallback.ReturnAfter, min(e.RetryAfter, maxDown)))
	a.down.fell(c.model(), down{until: until, class: e.Class(), message: message})
}

// checkModels validates fallback chains, limits and the models that name them.
func (cfg *Config) checkModels() error {
	for name, f := range cfg.Fallbacks {
		_, isProvider := cfg.Models[name]
		switch {
		case !llm.ValidChainName(name):
			return fmt.Errorf("Config.Fallbacks[%q]: use 1 to 64 letters, digits, -, _ and ., beginning with a letter or digit", name)
		case isProvider:
			return fmt.Errorf("Config.Fallbacks[%q]: a provider in Config.Models has this name", name)
		}
		if err := f.Validate(); err != nil {
			return fmt.Errorf("Config.Fallbacks[%q].%w", name, err)
		}
		for i, model := range f.Chain {
			provider, _, _ := strings.Cut(model, "/")
			if _, ok := cfg.Models[provider]; !ok {
				return fmt.Errorf("Config.Fallbacks[%q].Chain[%d] is %q, but there is no provider %q in Config.Models", name, i, model, provider)
			}
		}
	}
	if cfg.TitleModel == "" {
		return nil
	}
	if _, ok := cfg.Fallbacks[cfg.TitleModel]; ok {
		return nil
	}
	_, _, err := cfg.provider(cfg.TitleModel)
	if err != nil {
		return fmt.Errorf("Config.TitleModel: %w; set it right, or leave it empty", err)
	}
	return nil
}

// provider returns the provider of a model, and the model's name without the provider.
func (cfg *Config) provider(model string) (llm.Provider, string, error) {
	name, rest, ok := strings.Cut(model, "/")
	if !ok || name == "" || rest == "" {
		return nil, "", fmt.Errorf(`model %q must be "provider/model", such as "openai/gpt-5.6-luna", or the name of a fallback chain`, model)
	}
	p, ok := cfg.Models[name]
	if !ok {
		return nil, "", fmt.Errorf("model %q needs a provider %q, which is not configured", model, name)
	}
	return CheckedProvider(cfg.Redact, p), rest, nil
}

// asError returns a failure that the driver has classified.
func asError(err error) *llm.Error {
	var e *llm.Error
	errors.As(err, &e)
	return e
}
