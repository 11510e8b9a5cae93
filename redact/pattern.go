package redact

import (
	"regexp"
	"strings"
	"sync"
)

// Cards matches the numbers of payment cards: 13 to 19 digits with the prefix of a card network and a valid check digit. Single spaces
// and hyphens may lie between the digits, also those of typographers, which models like to write.
func Cards() Pattern { return Pattern{Name: "card", builtin: cards{}} }

// Emails matches e-mail addresses.
func Emails() Pattern { return Pattern{Name: "email", builtin: emails} }

var emails = hinted("@", `[\pL\pN._%+'-]+@(?:[\pL\pN](?:[\pL\pN-]*[\pL\pN])?\.)+\pL{2,}`)

// Keys matches credentials that their form gives away: private keys in PEM, JSON Web Tokens, tokens after
// "Bearer", passwords in URLs, and the keys and tokens of Anthropic, AWS, GitHub, GitLab, Google, OpenAI, Slack,
// Stripe and Threadmill.
func Keys() Pattern { return Pattern{Name: "key", builtin: keys} }

// begins is where a key begins: at a word or behind an escape of a text in JSON, such as the n of \n.
const begins = `(?:\b|\\[nrtbf]|\\u[0-9a-fA-F]{4})`

var keys = union{
	hinted("-----BEGIN ", `-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]|-[^-])*(?:-----END [A-Z ]*PRIVATE KEY-----)?`),
	hinted("eyJ", begins+`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`),
	hinted("earer ", begins+`[Bb]earer +[A-Za-z0-9._~+/=-]{16,}`),
	hinted("://", `://[^\s/:@]*:[^\s/@]+@`),
	hinted("sk-", begins+`sk-[A-Za-z0-9_-]{20,}`),
	hinted("AKIA", begins+`AKIA[A-Z0-9]{16}\b`),
	hinted("ASIA", begins+`ASIA[A-Z0-9]{16}\b`),
	hinted("gh", begins+`gh[pousr]_[A-Za-z0-9_]{20,}`),
	hinted("github_pat_", begins+`github_pat_[A-Za-z0-9_]{20,}`),
	hinted("glpat-", begins+`glpat-[A-Za-z0-9_-]{20,}`),
	hinted("AIza", begins+`AIza[A-Za-z0-9_-]{35}`),
	hinted("xox", begins+`xox[a-z]-[A-Za-z0-9-]{10,}`),
	hinted("k_", begins+`[rs]k_(?:live|test)_[A-Za-z0-9]{16,}`),
	hinted("whsec_", begins+`whsec_[A-Za-z0-9+/=]{16,}`),
	hinted("tm", begins+`tm[kt]_[A-Za-z0-9_.-]{16,}`),
}

// withHint is an expression whose matches contain a text. It saves most texts a slow search. It is compiled when it is first
// used: compiling all of them took two thirds of the start of a program.
type withHint struct {
	hint     string
	compiled func() matcher
}

func hinted(hint, text string) matcher {
	return &withHint{hint, sync.OnceValue(func() matcher {
		m, err := compile(text)
		if err != nil {
			panic(err)
		}
		return m
	})}
}

func (h *withHint) find(text string, from int) [][]int {
	if !strings.Contains(text, h.hint) {
		return nil
	}
	return h.compiled().find(text, from)
}

func (h *withHint) open(text string, from int) int { return h.compiled().open(text, from) }

// union matches what any of its matchers does.
type union []matcher

func (u union) find(text string, from int) (out [][]int) {
	for _, m := range u {
		out = append(out, m.find(text, from)...)
	}
	return out
}

func (u union) open(text string, from int) int {
	first := len(text)
	for _, m := range u {
		first = min(first, m.open(text, from))
	}
	return first
}

// cards finds numbers of payment cards. A regular expression finds neither check digits nor a number among the
// digits before and after it.
type cards struct{}

const (
	minCard = 13
	maxCard = 19
)

// separator is a space or hyphen of any width, and no dot, with which fractions look like cards.
const separator = `[\p{Zs}\p{Pd}\x{00AD}\x{2212}]`

// digits are digits with single separators. A separator at the end may be followed by further digits.
var (
	digits     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d(?:` + separator + `?\d)+`) })
	openDigits = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d(?:` + separator + `?\d)*` + separator + `?\z`) })
)

func (cards) find(text string, from int) (out [][]int) {
	for _, run := range digits().FindAllStringIndex(text[from:], -1) {
		run[0], run[1] = run[0]+from, run[1]+from
		var number []byte
		var at []int // where each digit is
		for i := run[0]; i < run[1]; i++ {
			if text[i] >= '0' && text[i] <= '9' {
				number, at = append(number, text[i]), append(at, i)
			}
		}
		// A number begins and ends with a group of digits: a part of a longer group is something else.
		begins := func(i int) bool { return i == 0 || i == len(at) || at[i] > at[i-1]+1 }
		for start := 0; start+minCard <= len(number); start++ {
			if !begins(start) || !network(number[start:]) {
				continue
			}
			for n := min(maxCard, len(number)-start); n >= minCard; n-- {
				if begins(start+n) && checks(number[start:start+n]) {
					// Another number may overlap it: together they are one match.
					out = append(out, []int{at[start], at[start+n-1] + 1})
					break
				}
			}
		}
	}
	return out
}

func (cards) open(text string, from int) int {
	if at := openDigits().FindStringIndex(text[from:]); at != nil {
		return from + at[0]
	}
	return len(text)
}

// network reports whether digits begin like those of a card network (ISO/IEC 7812: 2221 to 2720, 3, 4, 5 and 6).
func network(digits []byte) bool {
	switch digits[0] {
	case '3', '4', '5', '6':
		return true
	}
	first := string(digits[:4])
	return first >= "2221" && first <= "2720"
}

// checks reports whether the last digit is the check digit of the others (Luhn, ISO/IEC 7812-1).
func checks(digits []byte) bool {
	sum := 0
	for i, d := range digits {
		n := int(d - '0')
		if (len(digits)-i)%2 == 0 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}
