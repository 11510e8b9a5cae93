package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/redact"
)

// redactor returns nil if the file declares nothing to redact.
func (d *document) redactor(e redactEntry) *redact.Redactor {
	var cfg redact.Config
	for _, known := range []struct {
		wanted  bool
		pattern redact.Pattern
	}{{e.Cards, redact.Cards()}, {e.Keys, redact.Keys()}, {e.Emails, redact.Emails()}} {
		if known.wanted {
			cfg.Patterns = append(cfg.Patterns, known.pattern)
		}
	}
	first := len(cfg.Patterns) // of the file's own
	for _, p := range e.Patterns {
		if p.Name == "" || p.Expression == "" {
			return nil // reported already
		}
		cfg.Patterns = append(cfg.Patterns, redact.Pattern{Name: p.Name, Expression: p.Expression})
	}
	if len(cfg.Patterns) == 0 {
		return nil
	}
	r, err := redact.New(cfg)
	if wrong, ok := errors.AsType[*redact.PatternError](err); ok {
		d.fieldErrorf(fmt.Sprintf("redact.patterns[%d].%s", wrong.Pattern-first, strings.ToLower(wrong.Field)), KindInvalid, "%s", wrong.Problem)
	}
	return r
}
