// Package doctor checks whether the parts of an installation work together, and says what to do if not. The API runs the checks
// where it runs (GET /v1/checks), and "starter doctor" those that it can run from its own machine.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Status is the result of a check.
type Status string

// The results.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failed  Status = "failed"
)

// Finding is what a check has found.
type Finding struct {
	Check  string `json:"check" doc:"What was checked"`
	Status Status `json:"status" enum:"ok,warning,failed" doc:"failed: something does not work. warning: it works, and should be looked at"`
	Detail string `json:"detail" doc:"What was found"`
	Advice string `json:"advice,omitempty" doc:"What to do, unless the status is ok"`
}

// Report is the result of the checks of the API.
type Report struct {
	Version  string    `json:"version" doc:"The version of the API"`
	Now      time.Time `json:"now" doc:"The time on the machine of the API"`
	Findings []Finding `json:"findings" nullable:"false" doc:"What the checks have found"`
}

// Good returns a finding without fault.
func Good(check, format string, args ...any) Finding {
	return Finding{Check: check, Status: OK, Detail: fmt.Sprintf(format, args...)}
}

// Bad returns a finding of something that does not work.
func Bad(check, advice, format string, args ...any) Finding {
	return Finding{Check: check, Status: Failed, Detail: fmt.Sprintf(format, args...), Advice: advice}
}

// Odd returns a finding of something that works, and should be looked at.
func Odd(check, advice, format string, args ...any) Finding {
	return Finding{Check: check, Status: Warning, Detail: fmt.Sprintf(format, args...), Advice: advice}
}

// maxSkew is the difference of clocks from which on times in records, schedules and expiries are misleading.
const maxSkew = 5 * time.Second

// Clock compares the clock of this machine with another one, read at some time between before and after.
func Clock(of string, read, before, after time.Time) Finding {
	const check = "clocks"
	skew := time.Duration(0)
	switch {
	case read.Before(before):
		skew = read.Sub(before)
	case read.After(after):
		skew = read.Sub(after)
	}
	if skew.Abs() < maxSkew {
		return Good(check, "the clock of %s agrees with that of this machine", of)
	}
	return Bad(check, "synchronize both machines by NTP: expiries, schedules and the order of times depend on it",
		"the clock of %s is %s %s that of this machine", of, skew.Abs().Round(time.Second), map[bool]string{true: "behind", false: "ahead of"}[skew < 0])
}

// reachWithin is the time limit for something that answers in milliseconds.
const reachWithin = 5 * time.Second

// Reached checks something that answers a ping.
func Reached(ctx context.Context, check, advice string, ping func(context.Context) error) Finding {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	begun := time.Now()
	if err := ping(ctx); err != nil {
		return Bad(check, advice, "it does not answer: %s", err)
	}
	return Good(check, "it answers within %s", time.Since(begun).Round(time.Millisecond))
}

// order is the order of checks in a report: each needs those before it.
var order = []string{"temporal", "namespace", "search attributes", "workers", "deployment", "api", "store", "live stream", "erasures", "models", "clocks", "versions"}

// Sort puts findings into the order in which people read them.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int { return slices.Index(order, a.Check) - slices.Index(order, b.Check) })
}
