package llm

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Trigger is a kind of failure after which another model of a chain is called.
type Trigger string

// The triggers of a [Fallback].
const (
	// OnOverload: the provider has no capacity for the call (429 that allows no retry within
	// seconds, 529, 503 that says so).
	OnOverload Trigger = "overload"
	// OnOutage: the provider fails (other 5xx), cannot be reached, or its reply breaks off.
	OnOutage Trigger = "outage"
	// OnSlow: no part of the reply has arrived within [Fallback].FirstToken.
	OnSlow Trigger = "slow"
)

// Triggers returns all triggers.
func Triggers() []Trigger { return []Trigger{OnOverload, OnOutage, OnSlow} }

// Fallback is a chain of models. A call uses the first one; if it fails by a trigger, the next one.
// A failure that a call causes itself, such as a rejected request or a refusal, is no trigger.
type Fallback struct {
	// Chain are 2 to 8 models, each "provider/model". The first one is the first choice.
	Chain []string

	// On are the triggers. Default: all.
	On []Trigger

	// FirstToken is the limit of [OnSlow]. It does not apply to the last model of the chain.
	// Default: no limit.
	FirstToken time.Duration

	// ReturnAfter is the time for which other calls skip a model that has failed, unless its
	// provider requires a longer delay. Default 1 minute.
	ReturnAfter time.Duration
}

// Defaults and limits of a [Fallback].
const (
	DefaultReturnAfter = time.Minute

	MinChain       = 2
	MaxChain       = 8
	MinFirstToken  = 100 * time.Millisecond
	MaxFirstToken  = time.Hour
	MinReturnAfter = time.Second
	MaxReturnAfter = time.Hour
)

var chainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// ValidChainName reports whether a chain may have this name. It has no slash, unlike a model.
func ValidChainName(name string) bool { return chainName.MatchString(name) }

// WithDefaults returns the chain with the defaults of zero fields.
func (f Fallback) WithDefaults() Fallback {
	if len(f.On) == 0 {
		f.On = Triggers()
	}
	f.ReturnAfter = cmp.Or(f.ReturnAfter, DefaultReturnAfter)
	return f
}

// Validate reports the first field that is invalid.
func (f Fallback) Validate() error {
	d := f.WithDefaults()
	for i, model := range f.Chain {
		provider, name, slash := strings.Cut(model, "/")
		switch {
		case !slash:
			return fmt.Errorf("Chain[%d] is %q, must be provider/model: a chain contains no other chain", i, model) //nolint:staticcheck // the name of the field
		case provider == "" || name == "":
			return fmt.Errorf("Chain[%d] is %q, must be provider/model", i, model) //nolint:staticcheck // the name of the field
		case slices.Contains(f.Chain[:i], model):
			return fmt.Errorf("Chain[%d]: %q is there twice", i, model) //nolint:staticcheck // the name of the field
		}
	}
	for i, on := range f.On {
		if !slices.Contains(Triggers(), on) {
			return fmt.Errorf("On[%d] is %q, must be overload, outage or slow", i, on) //nolint:staticcheck // the name of the field
		}
	}
	switch {
	case len(f.Chain) < MinChain || len(f.Chain) > MaxChain:
		return fmt.Errorf("Chain has %d models, must have %d to %d", len(f.Chain), MinChain, MaxChain) //nolint:staticcheck // the name of the field
	case f.FirstToken != 0 && (f.FirstToken < MinFirstToken || f.FirstToken > MaxFirstToken):
		return fmt.Errorf("FirstToken is %s, must be %s to %s", f.FirstToken, MinFirstToken, MaxFirstToken)
	case f.FirstToken == 0 && slices.Contains(f.On, OnSlow):
		return fmt.Errorf("FirstToken is required with the trigger %q", OnSlow)
	case f.FirstToken != 0 && !slices.Contains(d.On, OnSlow):
		return fmt.Errorf("FirstToken has no effect without the trigger %q in On", OnSlow)
	case d.ReturnAfter < MinReturnAfter || d.ReturnAfter > MaxReturnAfter:
		return fmt.Errorf("ReturnAfter is %s, must be %s to %s", f.ReturnAfter, MinReturnAfter, MaxReturnAfter)
	}
	return nil
}

// Trigger returns the kind of the failure, or "" if no other model should be called for it.
func (e *Error) Trigger() Trigger {
	switch {
	case !e.Retryable || e.ContextOverflow || e.StatusCode == 409:
		return ""
	case e.Slow:
		return OnSlow
	case e.StatusCode == 429, e.StatusCode == 529, mentionsOverload(e.Code), e.StatusCode == 503 && mentionsOverload(e.Message):
		return OnOverload
	}
	return OnOutage
}

func mentionsOverload(s string) bool { return strings.Contains(strings.ToLower(s), "overload") }
