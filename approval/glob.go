package approval

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A glob covers a value literally, byte by byte, but for its wildcards:
//
//   - any run of letters, digits, spaces and - _ . = : , + % @
//     **   the same, with / among them
//
// That is all that a wildcard stands for: nothing by which a shell ends one command and
// begins another, no quotes, no control characters. What is not on this list is not
// covered, so a character that nobody thought of asks a person.
const (
	inSegment = `[\p{L}\p{Nd} \-_.=:,+%@]*`
	inPath    = `[\p{L}\p{Nd} \-_.=:,+%@/]*`
)

// Bounds of a match, which takes time by both.
const (
	maxGlob      = 1 << 10
	maxWildcards = 20
	maxCovered   = 64 << 10
)

// match says why a glob does not cover a value.
func match(glob, value string) error {
	if !strings.Contains(glob, "*") {
		if glob != value {
			return errors.New("without a wildcard, it has to be the same")
		}
		return nil
	}
	switch {
	case len(glob) > maxGlob || wildcards(glob) > maxWildcards:
		return fmt.Errorf("a glob has at most %d bytes and %d wildcards", maxGlob, maxWildcards)
	case len(value) > maxCovered:
		return fmt.Errorf("what is longer than %d bytes is covered as a whole only, without a wildcard", maxCovered)
	case !utf8.ValidString(glob) || !utf8.ValidString(value):
		return errors.New("one of them is not UTF-8 text")
	case leadsUp(value):
		return errors.New(`".." leads out of what a wildcard covers`)
	case encoded.MatchString(value):
		return errors.New("encoded characters such as %2e, a dot, hide what a wildcard covers")
	}
	form, err := regexp.Compile(expression(glob))
	if err != nil {
		return fmt.Errorf("the glob is too complicated: %w", err)
	}
	if !form.MatchString(value) {
		return errors.New(`a wildcard covers letters, digits, spaces and - _ . = : , + % @, and "**" the slash as well`)
	}
	return nil
}

// wildcards counts runs of stars.
func wildcards(glob string) int {
	return len(strings.FieldsFunc(glob, func(r rune) bool { return r != '*' }))
}

// expression writes a glob as a regular expression. More than two stars are as two.
func expression(glob string) string {
	var b strings.Builder
	b.WriteString(`\A`)
	for glob != "" {
		literal := glob
		if i := strings.IndexByte(glob, '*'); i >= 0 {
			literal = glob[:i]
		}
		b.WriteString(regexp.QuoteMeta(literal))
		rest := strings.TrimLeft(glob[len(literal):], "*")
		switch stars := len(glob) - len(literal) - len(rest); {
		case stars == 1:
			b.WriteString(inSegment)
		case stars > 1:
			b.WriteString(inPath)
		}
		glob = rest
	}
	b.WriteString(`\z`)
	return b.String()
}

// leadsUp reports whether two dots may be the parent of a directory: two of them, without
// a third, and without letters or digits on both sides, as main..topic has them.
func leadsUp(value string) bool {
	runes := []rune(value)
	for i := 0; i < len(runes); i++ {
		end := i
		for end < len(runes) && runes[end] == '.' {
			end++
		}
		if end-i == 2 && !(i > 0 && inName(runes[i-1]) && end < len(runes) && inName(runes[end])) {
			return true
		}
		if end > i {
			i = end
		}
	}
	return false
}

func inName(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// encoded finds what makes another path for who decodes addresses: control characters, the dot, the slash, the backslash and the percent sign, and what
// old readers take for a dot or a slash.
var encoded = regexp.MustCompile(`(?i)%(?:[01][0-9a-f]|7f|2e|2f|5c|25|c[01])`)
