// Package clock is the tool current_time: models do not know what time it is.
//
// The names of time zones are embedded (about 450 KB of the program), so that the
// tool works in an image without them.
package clock

import (
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
	// Time is in the form of RFC 3339, to the second.
	Time     string `json:"time"`
	Weekday  string `json:"weekday"`
	Timezone string `json:"timezone"`
}

// Option sets what few need.
type Option func(*clock)

// Now replaces the clock, for tests. Default [time.Now].
func Now(now func() time.Time) Option { return func(c *clock) { c.now = now } }

// Timezone is the zone of calls that name none. Default UTC.
func Timezone(zone *time.Location) Option { return func(c *clock) { c.zone = zone } }

// New makes the tool. It is quick.
func New(opts ...Option) tool.Tool {
	c := &clock{now: time.Now, zone: time.UTC}
	for _, opt := range opts {
		opt(c)
	}
	return tool.MustFunc(Name, "Tells the current date and time, and the day of the week.", c.tell, tool.Quick())
}

type clock struct {
	now  func() time.Time
	zone *time.Location
}

type arguments struct {
	Timezone string `json:"timezone,omitempty" jsonschema:"IANA name of the time zone, such as Europe/Berlin; leave it out for the default"`
}

func (c *clock) tell(_ context.Context, _ tool.Call, in arguments) (Time, error) {
	zone := c.zone
	if in.Timezone != "" {
		var err error
		// "Local" would be the zone of the machine, which says nothing to a model.
		if zone, err = time.LoadLocation(in.Timezone); err != nil || in.Timezone == "Local" {
			return Time{}, fmt.Errorf("timezone: %q is not the IANA name of a time zone; "+
				"use one such as Europe/Berlin or America/New_York, or leave it out for %s", in.Timezone, c.zone)
		}
	}
	now := c.now().In(zone)
	return Time{Time: now.Format(time.RFC3339), Weekday: now.Weekday().String(), Timezone: zone.String()}, nil
}
