package redact

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// expression is a regular expression, and one of everything with which a match begins. Those with after begin behind the first character of
// a text, on which conditions such as \b depend.
type expression struct {
	whole, wholeAfter, begun, begunAfter *regexp.Regexp
}

func compile(text string) (matcher, error) {
	if text == "" {
		return nil, errors.New("is required")
	}
	whole, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression: %w", err)
	}
	if whole.MatchString("") {
		return nil, errors.New("matches the empty string: it would match everywhere")
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression: %w", err)
	}
	out, begin := expression{whole: whole}, `(?:`+prefixes(parsed.Simplify()).String()+`)\z`
	for _, one := range []struct {
		to   **regexp.Regexp
		text string
	}{{&out.wholeAfter, after(text)}, {&out.begun, begin}, {&out.begunAfter, after(begin)}} {
		if *one.to, err = regexp.Compile(one.text); err != nil {
			return nil, fmt.Errorf("is too complex: %w", err)
		}
	}
	return out, nil
}

// after returns the expression of the first match behind a text's first character, in the first group.
func after(text string) string { return `\A(?s:.)(?s:.*?)((?:` + text + `))` }

func (e expression) find(text string, from int) (out [][]int) {
	if from == 0 {
		return e.whole.FindAllStringIndex(text, -1)
	}
	for {
		_, size := utf8.DecodeLastRuneInString(text[:from])
		base := from - size
		at := e.wholeAfter.FindStringSubmatchIndex(text[base:])
		if at == nil || at[2] == at[3] {
			return out
		}
		out = append(out, []int{base + at[2], base + at[3]})
		from = base + at[3]
	}
}

func (e expression) open(text string, from int) int {
	// The leftmost match is the one that begins first. There is one, if only the empty one at the end.
	if from == 0 {
		if at := e.begun.FindStringIndex(text); at != nil {
			return at[0]
		}
		return len(text)
	}
	_, size := utf8.DecodeLastRuneInString(text[:from])
	if at := e.begunAfter.FindStringSubmatchIndex(text[from-size:]); at != nil {
		return from - size + at[2]
	}
	return len(text)
}

func (e expression) behind(match []int) int { return match[1] }

// prefixes returns the expression of all beginnings of what an expression matches, the empty and the whole one included.
func prefixes(re *syntax.Regexp) *syntax.Regexp {
	switch re.Op { //nolint:exhaustive // what is missing cannot begin, or Simplify removes it
	case syntax.OpLiteral:
		// abc: (a(bc?)?)?
		out := empty()
		for i := len(re.Rune) - 1; i >= 0; i-- {
			one := &syntax.Regexp{Op: syntax.OpLiteral, Flags: re.Flags, Rune: re.Rune[i : i+1]}
			out = optional(concat(one, out))
		}
		return out
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return optional(re)
	case syntax.OpCapture:
		return prefixes(re.Sub[0])
	case syntax.OpQuest:
		return prefixes(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus:
		return concat(&syntax.Regexp{Op: syntax.OpStar, Flags: re.Flags, Sub: re.Sub}, prefixes(re.Sub[0]))
	case syntax.OpAlternate:
		out := &syntax.Regexp{Op: syntax.OpAlternate}
		for _, sub := range re.Sub {
			out.Sub = append(out.Sub, prefixes(sub))
		}
		return out
	case syntax.OpConcat:
		// abc: p(a)|a(p(b)|b p(c))
		out := empty()
		for i := len(re.Sub) - 1; i >= 0; i-- {
			out = &syntax.Regexp{Op: syntax.OpAlternate, Sub: []*syntax.Regexp{concat(re.Sub[i], out), prefixes(re.Sub[i])}}
		}
		return out
	}
	// What lies at the end of the text is not known yet, so a condition on it may hold.
	return empty()
}

func empty() *syntax.Regexp { return &syntax.Regexp{Op: syntax.OpEmptyMatch} }

func optional(re *syntax.Regexp) *syntax.Regexp {
	return &syntax.Regexp{Op: syntax.OpQuest, Flags: re.Flags, Sub: []*syntax.Regexp{re}}
}

func concat(a, b *syntax.Regexp) *syntax.Regexp {
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{a, b}}
}
