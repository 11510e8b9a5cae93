package approval

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A glob matches a value literally, byte by byte, except for its wildcards:
//
//   - any run of letters, digits, spaces and - _ . = : , + % @
//     **   the same, and /
//
// Wildcards match nothing else: no characters that end a shell command and begin another, no
// quotes, no control characters. A character that is not listed requires approval.
const (
	inSegment = `[\p{L}\p{Nd} \-_.=:,+%@]*`
	inPath    = `[\p{L}\p{Nd} \-_.=:,+%@/]*`
)

// Limits of a match, whose time depends on both.
const (
	maxGlob      = 1 << 10
	maxWildcards = 20
	maxCovered   = 64 << 10
)

// match returns the reason why a glob does not match a value, or nil.
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

// wildcards counts the runs of stars.
func wildcards(glob string) int {
	return len(strings.FieldsFunc(glob, func(r rune) bool { return r != '*' }))
}

// expression converts a glob to a regular expression. More than two stars are equivalent to two.
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

// leadsUp reports whether two dots in a value may denote a parent directory: exactly two, and not
// between letters or digits as in main..topic.
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

// encoded matches percent-encodings that change a path after decoding: control characters, the dot,
// the slash, the backslash, the percent sign, and the overlong encodings that old decoders accept
// for a dot or a slash.
var encoded = regexp.MustCompile(`(?i)%(?:[01][0-9a-f]|7f|2e|2f|5c|25|c[01])`)
