package agent

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
)

// Limits of an [Agent], in bytes.
const (
	MaxName  = 64
	MaxModel = 256
)

const (
	maxTemperature     = 2
	maxMaxOutputTokens = 10_000_000
	maxMaxSteps        = 1000
	maxModelTimeout    = time.Hour
	maxContextMessages = 100_000
	maxMaxToolCalls    = 256
	minMaxReplyBytes   = 1 << 10
	maxMaxReplyBytes   = 8 << 20
	minMaxResult       = 1 << 10
	maxMaxResult       = 8 << 20
	maxTools           = 500
	maxCollections     = 50
)

var nameForm = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9][A-Za-z0-9_-]{0,%d}$`, MaxName-1))

// Validate reports the first invalid field, as a [*event.FieldError] with its place:
// limits.maxSteps, approvalRules[1].when.
func (a Agent) Validate() error {
	provider, model, slash := strings.Cut(a.Model, "/")
	switch {
	case a.Name == "":
		return event.FieldErrorf("name", "is required")
	case !nameForm.MatchString(a.Name):
		return event.FieldErrorf("name", "%q must be 1 to %d letters, digits, - and _, beginning with a letter or digit", a.Name, MaxName)
	case a.Model == "":
		return event.FieldErrorf("model", `is required, as "provider/model"`)
	case slash && (provider == "" || model == ""), len(a.Model) > MaxModel:
		return event.FieldErrorf("model", `%.128q is neither of the form "provider/model" nor the name of a fallback chain`, a.Model)
	case a.Temperature != nil && !(*a.Temperature >= 0 && *a.Temperature <= maxTemperature):
		return event.FieldErrorf("temperature", "is %g, must be 0 to %d", *a.Temperature, maxTemperature)
	case a.MaxOutputTokens < 0 || a.MaxOutputTokens > maxMaxOutputTokens:
		return event.FieldErrorf("maxOutputTokens", "is %d, must be 1 to %d; omit it for the provider's default", a.MaxOutputTokens, maxMaxOutputTokens)
	case a.Limits.MaxSteps < 0 || a.Limits.MaxSteps > maxMaxSteps:
		return event.FieldErrorf("limits.maxSteps", "is %d, must be 1 to %d (or 0 for the default, %d)", a.Limits.MaxSteps, maxMaxSteps, DefaultMaxSteps)
	case a.Limits.ModelTimeout < 0 || a.Limits.ModelTimeout > maxModelTimeout:
		return event.FieldErrorf("limits.modelTimeout", "is %s, must be positive and at most 1h", a.Limits.ModelTimeout)
	case a.Limits.ContextMessages < 0 || a.Limits.ContextMessages > maxContextMessages:
		return event.FieldErrorf("limits.contextMessages", "is %d, must be 1 to %d (or 0 for the default, %d)", a.Limits.ContextMessages, maxContextMessages, DefaultContextMessages)
	case a.Limits.MaxToolCalls < 0 || a.Limits.MaxToolCalls > maxMaxToolCalls:
		return event.FieldErrorf("limits.maxToolCalls", "is %d, must be 1 to %d (or 0 for the default, %d)", a.Limits.MaxToolCalls, maxMaxToolCalls, DefaultMaxToolCalls)
	case a.Limits.MaxReplyBytes != 0 && (a.Limits.MaxReplyBytes < minMaxReplyBytes || a.Limits.MaxReplyBytes > maxMaxReplyBytes):
		return event.FieldErrorf("limits.maxReplyBytes", "is %d, must be %d to %d (or 0 for the default, %d)", a.Limits.MaxReplyBytes, minMaxReplyBytes, maxMaxReplyBytes, DefaultMaxReplyBytes)
	case a.Limits.MaxResult != 0 && (a.Limits.MaxResult < minMaxResult || a.Limits.MaxResult > maxMaxResult):
		return event.FieldErrorf("limits.maxResult", "is %d, must be %d to %d (or 0 for the default, %d)", a.Limits.MaxResult, minMaxResult, maxMaxResult, DefaultMaxResult)
	case a.Knowledge.Passages < 0 || a.Knowledge.Passages > MaxPassages:
		return event.FieldErrorf("knowledge.passages", "is %d, must be 0 to %d", a.Knowledge.Passages, MaxPassages)
	case len(a.Knowledge.Collections) > maxCollections:
		return event.FieldErrorf("knowledge.collections", "has %d names, must have at most %d", len(a.Knowledge.Collections), maxCollections)
	case a.OnWaiting != "" && !a.OnWaiting.Valid():
		return event.FieldErrorf("onWaiting", "is %q, must be answer, hold or cancel", a.OnWaiting)
	}
	for _, check := range []func() error{a.validateTools, a.validateApprovals} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (a Agent) validateTools() error {
	if len(a.Tools) > maxTools {
		return event.FieldErrorf("tools", "has %d names, must have at most %d", len(a.Tools), maxTools)
	}
	for i, name := range a.Tools {
		switch {
		case name == "":
			return event.FieldErrorf(fmt.Sprintf("tools[%d]", i), "is empty")
		case slices.Contains(a.Tools[:i], name):
			return event.FieldErrorf(fmt.Sprintf("tools[%d]", i), "%q is duplicated", name)
		}
	}
	return nil
}

func (a Agent) validateApprovals() error {
	for _, tool := range slices.Sorted(maps.Keys(a.Approvals)) {
		if p := a.Approvals[tool]; p != PolicyNever && p != PolicyAlways && p != PolicyDeny {
			return event.FieldErrorf("approvals."+tool, "is %q, must be never, always or deny", p)
		}
	}
	if err := approval.ValidateRules(a.ApprovalRules); err != nil {
		return err
	}
	return event.WithinField("approvalTerms", a.ApprovalTerms.Validate())
}
