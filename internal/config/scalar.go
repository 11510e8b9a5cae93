package config

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// text returns a text that is not empty.
func (v value) text() (string, bool) {
	s := ""
	switch n := v.doc.resolve(v.node).(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		v.fail("is %s, must be text: put it in quotes", v.kind())
		return "", false
	case *ast.NullNode:
		v.fail("is empty: give it a value or remove the field")
		return "", false
	default:
		v.fail("is %s, must be text", v.kind())
		return "", false
	}
	if strings.TrimSpace(s) == "" {
		v.fail("is empty: give it a value or remove the field")
		return "", false
	}
	return s, true
}

// word returns a text in one line, without space around it.
func (v value) word() (string, bool) {
	s, ok := v.text()
	if !ok {
		return "", false
	}
	s = strings.TrimSpace(s)
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		v.fail("must be a single line without control characters")
		return "", false
	}
	return s, true
}

// oneOf returns a text out of a few.
func (v value) oneOf(known ...string) (string, bool) {
	switch v.doc.resolve(v.node).(type) {
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		v.fail("is %s, must be %s", v.kind(), strings.Join(known, " or "))
		return "", false
	}
	s, ok := v.word()
	if ok && !has(known, s) {
		v.fail("%q is not known; %s", s, suggest(s, known))
		return "", false
	}
	return s, ok
}

// shown is what stands there, for values that hold no secret.
func (v value) shown() string {
	if s, ok := v.doc.resolve(v.node).(*ast.StringNode); ok && len(s.Value) < 40 {
		return strconv.Quote(s.Value)
	}
	return v.kind()
}

// number returns a number that need not be whole.
func (v value) number(least, most float64) (float64, bool) {
	var f float64
	switch n := v.doc.resolve(v.node).(type) {
	case *ast.IntegerNode:
		f = integer(n)
	case *ast.FloatNode:
		f = n.Value
	default:
		v.fail("is %s, must be a number from %g to %g", v.shown(), least, most)
		return 0, false
	}
	if !(f >= least && f <= most) {
		v.fail("is %g, must be %g to %g", f, least, most)
		return 0, false
	}
	return f, true
}

// integer is exact for every number that is within bounds anywhere in the file.
func integer(n *ast.IntegerNode) float64 {
	switch i := n.Value.(type) {
	case int64:
		return float64(i)
	case uint64:
		return float64(i)
	}
	return math.NaN()
}

// count returns a whole number; unset says what leaving the field out means.
func (v value) count(most int, unset string) (int, bool) {
	n, ok := v.doc.resolve(v.node).(*ast.IntegerNode)
	if !ok {
		v.fail("is %s, must be a whole number from 1 to %d", v.shown(), most)
		return 0, false
	}
	if i := integer(n); !(i >= 1 && i <= float64(most)) {
		v.fail("is %s, must be 1 to %d; leave it out for %s", n.GetToken().Value, most, unset)
		return 0, false
	}
	return int(integer(n)), true
}

// boolean returns true or false.
func (v value) boolean() (is, ok bool) {
	n, ok := v.doc.resolve(v.node).(*ast.BoolNode)
	if !ok {
		v.fail("is %s, must be true or false", v.shown())
		return false, false
	}
	return n.Value, true
}

// duration returns a time such as 30s or 10m, with no least one if that is 0; unset
// says what leaving the field out means.
func (v value) duration(least, most time.Duration, unset string) (time.Duration, bool) {
	switch n := v.doc.resolve(v.node).(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		v.fail("%s has no unit: write it like %ss or %[1]sm", n.GetToken().Value, n.GetToken().Value)
		return 0, false
	}
	s, ok := v.word()
	if !ok {
		return 0, false
	}
	t, err := time.ParseDuration(s)
	switch {
	case err != nil:
		v.fail("%q is not a duration: write a number with its unit, such as 500ms, 30s, 10m or 1h30m", s)
	case t <= 0 || t < least || t > most:
		bounds := "positive and at most "
		if least > 0 {
			bounds = short(least) + " to "
		}
		v.fail("is %s, must be %s%s; leave it out for %s", s, bounds, short(most), unset)
	default:
		return t, true
	}
	return 0, false
}

// byDefault says what leaving a duration out means.
func byDefault(t time.Duration) string { return "the default, " + short(t) }

// short is the duration without its zeros: 10m, not 10m0s.
func short(t time.Duration) string {
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var units = []struct {
	name  string
	bytes int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"KB", 1000}, {"MB", 1000 * 1000}, {"B", 1}}

// size returns a number of bytes, written like 64KiB or as a plain number.
func (v value) size(least, most, unset int) (int, bool) {
	s := ""
	switch n := v.doc.resolve(v.node).(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		s = n.GetToken().Value
	default:
		var ok bool
		if s, ok = v.word(); !ok {
			return 0, false
		}
	}
	bytes, ok := parseSize(s)
	switch {
	case !ok:
		v.fail("%q is not a size: write a whole number of bytes, or one with its unit, such as 64KiB or 1MiB", s)
	case bytes < float64(least) || bytes > float64(most):
		v.fail("is %s, must be %s to %s; leave it out for the default, %s", s, bytesText(least), bytesText(most), bytesText(unset))
	default:
		return int(bytes), true
	}
	return 0, false
}

func parseSize(s string) (float64, bool) {
	unit := 1
	for _, u := range units {
		if len(s) > len(u.name) && strings.EqualFold(s[len(s)-len(u.name):], u.name) {
			s, unit = strings.TrimSpace(s[:len(s)-len(u.name)]), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return float64(n) * float64(unit), err == nil
}

func bytesText(n int) string {
	switch {
	case n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + "MiB"
	case n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + "KiB"
	}
	return strconv.Itoa(n) + "B"
}
