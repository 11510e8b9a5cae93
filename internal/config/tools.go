package config

import (
	"slices"
	"time"
)

// Bounds. Those of agents and tools are the bounds of the packages that enforce
// them, which a test compares.
const (
	maxSteps        = 1000
	maxModelTimeout = time.Hour
	maxContext      = 100_000
	maxOutputTokens = 10_000_000

	maxShellTimeout     = 12 * time.Hour
	defaultShellTimeout = 2 * time.Minute
	minOutput           = 256
	maxOutput           = 16 << 20
	defaultOutput       = 64 << 10
	defaultProgress     = 1 << 20
)

func defaultTools() Tools { return Tools{Shell: Shell{Root: DefaultRoot}} }

func (f field) readTools(t *Tools) {
	for _, f := range f.fields(ShellCmd, CurrentTime, "client") {
		switch f.key {
		case "client":
			t.Client = f.clientTools()
		case ShellCmd:
			f.shell(&t.Shell)
		case CurrentTime:
			f.clock(&t.Clock)
		}
	}
}

func (f field) shell(s *Shell) {
	for _, f := range f.fields("root", "timeout", "maxOutput", "maxProgress", "env", "runner") {
		switch f.key {
		case "root":
			if root, ok := f.word(); ok {
				s.Root = f.doc.relative(root)
			}
		case "timeout":
			s.Timeout, _ = f.duration(0, maxShellTimeout, byDefault(defaultShellTimeout))
		case "maxOutput":
			s.MaxOutput, _ = f.size(minOutput, maxOutput, defaultOutput)
		case "maxProgress":
			s.MaxProgress, _ = f.size(minOutput, maxOutput, defaultProgress)
		case "env":
			s.Env = f.variables()
		case "runner":
			s.Runner = words(f.itemsOr("for sh -c"), value.word)
		}
	}
}

func (f field) variables() []string {
	var names []string
	for _, item := range f.items() {
		s, ok := item.word()
		switch {
		case !ok:
		case !anyVariable.MatchString(s):
			item.fail("must be the name of an environment variable (letters, digits and _), without a value")
		case slices.Contains(names, s):
			item.fail("%q is in the list twice: remove one", s)
		default:
			names = append(names, s)
		}
	}
	return names
}

func (f field) clock(c *Clock) {
	for _, f := range f.fields("timezone") {
		s, ok := f.word()
		if !ok {
			continue
		}
		zone, err := time.LoadLocation(s)
		if err != nil || s == "Local" {
			f.fail("%q is not the IANA name of a time zone, such as Europe/Berlin or UTC", s)
			continue
		}
		c.Timezone = zone
	}
}
