// Package clock provides the tool current_time, since models do not know the time.
//
// The time zone database is embedded (about 450 KB), so the tool works in images without one.
package clock

import (
	"cmp"
	"context"
	"fmt"
	"time"
	_ "time/tzdata" // small images have no time zones

	"github.com/threadmill/threadmill/tool"
)

// Name is the tool's name.
const Name = "current_time"

// Time is the tool's result.
type Time struct {
	// Time is in RFC 3339 format, to the second.
	Time     string `json:"time"`
	Weekday  string `json:"weekday"`
	Timezone string `json:"timezone"`
}

// Config configures the tool. The zero value is the default.
type Config struct {
	// Now is the clock, for tests. Default [time.Now].
	Now func() time.Time

	// Timezone is the time zone of calls without one. Default UTC.
	Timezone *time.Location
}

// New returns the tool. It is quick.
func New(cfg Config) tool.Tool {
	c := &clock{now: cfg.Now, zone: cmp.Or(cfg.Timezone, time.UTC)}
	if c.now == nil {
		c.now = time.Now
	}
	return tool.MustFunc(Name, "Tells the current date and time, and the day of the week.", c.tell, tool.Quick())
}

type clock struct {
	now  func() time.Time
	zone *time.Location
}

type arguments struct {
	Timezone string `json:"timezone,omitempty" jsonschema:"IANA name of the time zone, such as Europe/Berlin; omit it for the default"`
}

func (c *clock) tell(_ context.Context, _ tool.Call, in arguments) (Time, error) {
	zone := c.zone
	if in.Timezone != "" {
		var err error
		// "Local" would be the machine's time zone, which means nothing to a model.
		if zone, err = time.LoadLocation(in.Timezone); err != nil || in.Timezone == "Local" {
			return Time{}, fmt.Errorf("timezone: %q is not the IANA name of a time zone; "+
				"use one such as Europe/Berlin or America/New_York, or omit it for %s", in.Timezone, c.zone)
		}
	}
	now := c.now().In(zone)
	return Time{Time: now.Format(time.RFC3339), Weekday: now.Weekday().String(), Timezone: zone.String()}, nil
}
