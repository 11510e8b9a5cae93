package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
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

// Redactor reads the section redact of a file, for programs that need nothing else of it.
func Redactor(path string) (*redact.Redactor, error) {
	read := readFile(path)
	if read.err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, read.err)
	}
	d := &document{name: path, getenv: os.Getenv}
	root, ok := d.open([]byte(read.data))
	if !ok {
		return nil, d.err()
	}
	var f configFile
	d.decode(root, "", reflect.ValueOf(&f).Elem(), fieldRule{})
	r := d.redactor(f.Redact)
	d.errs = slices.DeleteFunc(d.errs, func(e *Error) bool { return !strings.HasPrefix(e.Path, "redact") })
	if err := d.err(); err != nil || r != nil {
		return r, err
	}
	return nil, fmt.Errorf("%s: redact: nothing is set: set cards, keys, emails or patterns", path)
}
