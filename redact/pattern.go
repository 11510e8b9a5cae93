package redact

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Cards matches the numbers of payment cards: 13 to 19 digits with the prefix of a card network and a valid check digit. Single spaces
// and hyphens may lie between the digits, also those of typographers, which models like to write.
func Cards() Pattern { return Pattern{Name: "card", builtin: []matcher{cards{}}} }

// Emails matches e-mail addresses.
func Emails() Pattern { return Pattern{Name: "email", builtin: []matcher{emails}} }

var emails = hinted("@", `[\pL\pN._%+'-]+@(?:[\pL\pN](?:[\pL\pN-]*[\pL\pN])?\.)+\pL{2,}`)

// Keys matches credentials that their form gives away: private keys in PEM, JSON Web Tokens, tokens after
// "Bearer", passwords in URLs, and the keys and tokens of Anthropic, AWS, GitHub, GitLab, Google, OpenAI, Slack,
// Stripe and Threadmill.
func Keys() Pattern { return Pattern{Name: "key", builtin: keys} }

// begins is where a key begins: at a word, behind "_", or behind an escape of a text in JSON, such as the n of \n. There is no \b behind them.
const begins = `(?:\b|_|\\[nrtbf]|\\u[0-9a-fA-F]{4})`

var keys = []matcher{
	hinted("-----BEGIN ", `-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]|-[^-])*(?:-----END [A-Z ]*PRIVATE KEY-----)?`),
	hinted("eyJ", begins+`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`),
	hinted("earer ", begins+`[Bb]earer +[A-Za-z0-9._~+/=-]{16,}`),
	hinted("://", `://[^\s/:@]*:[^\s/@]+@`),
	hinted("sk-", begins+`sk-[A-Za-z0-9_-]{20,}`),
	hinted("AKIA", begins+`AKIA[A-Z0-9]{16}(?:\b|_)`),
	hinted("ASIA", begins+`ASIA[A-Z0-9]{16}(?:\b|_)`),
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

func (h *withHint) behind(match []int) int { return match[1] }

// cards finds numbers of payment cards. A regular expression finds neither check digits nor a number among the
// digits before and after it.
type cards struct{}

const (
	minCard = 13
	maxCard = 19
)

// isSeparator reports whether a character is a space or hyphen of any width. No dot is: with it, fractions look like cards.
func isSeparator(c rune) bool {
	return unicode.In(c, unicode.Zs, unicode.Pd) || c == '\u00AD' || c == '\u2212'
}

func isDigit(c rune) bool { return '0' <= c && c <= '9' }

// digits are digits with at most one separator between two of them, and their positions in the text.
type digits struct {
	number []byte
	at     []int
}

func (cards) find(text string, from int) (out [][]int) {
	var run digits
	separated := false
	for i, c := range text[from:] {
		switch {
		case isDigit(c):
			run.number, run.at, separated = append(run.number, byte(c)), append(run.at, from+i), false
		case len(run.at) > 0 && !separated && isSeparator(c):
			separated = true
		default:
			out = run.find(out, text)
			run.number, run.at = run.number[:0], run.at[:0]
		}
	}
	return run.find(out, text)
}

// find appends the numbers among digits of a text. They may overlap: together they are then one match.
func (d digits) find(out [][]int, text string) [][]int {
	for start := 0; start+minCard <= len(d.number); start++ {
		if !d.begins(text, start) {
			continue
		}
		for n := min(maxCard, len(d.number)-start); n >= minCard; n-- {
			// It also ends with a group.
			if end := start + n; (end == len(d.at) || d.at[end] > d.at[end-1]+1) && checks(d.number[start:end]) {
				out = append(out, []int{d.at[start], d.at[end-1] + 1})
				break
			}
		}
	}
	return out
}

// begins reports whether a number may begin with a digit: with a group of digits, since a part of a longer group is something else.
func (d digits) begins(text string, i int) bool {
	at := d.at[i]
	return network(d.number[i:]) && (at == 0 || !isDigit(rune(text[at-1])) || escaped(text[:at]))
}

// escaped reports whether a text ends with an escape of a text in JSON that may end with a digit, such as \u0009.
func escaped(text string) bool {
	hex, ok := strings.CutPrefix(text[max(0, len(text)-maxContext):], `\u`)
	return ok && len(hex) == 4 && !strings.ContainsFunc(hex, func(c rune) bool { return !unicode.Is(unicode.ASCII_Hex_Digit, c) })
}

func (cards) open(text string, from int) int {
	// A number that begins before the last maxCard digits is complete.
	var run digits
	separated := false
	for end := len(text); end > from && len(run.at) < maxCard; {
		c, size := utf8.DecodeLastRuneInString(text[from:end])
		if !isDigit(c) && (separated || !isSeparator(c)) {
			break
		}
		end -= size
		if separated = !isDigit(c); !separated {
			run.number, run.at = append(run.number, byte(c)), append(run.at, end)
		}
	}
	slices.Reverse(run.number)
	slices.Reverse(run.at)
	for i, at := range run.at {
		if run.begins(text, i) {
			return at
		}
	}
	return len(text)
}

// behind: another number may begin with the next group of the same one.
func (cards) behind(match []int) int { return match[0] + 1 }

// network reports whether digits begin like those of a card network (ISO/IEC 7812: 2221 to 2720, 3, 4, 5 and 6), as far as they are known.
func network(digits []byte) bool {
	switch digits[0] {
	case '3', '4', '5', '6':
		return true
	}
	first := string(digits[:min(4, len(digits))])
	return first >= "2221"[:len(first)] && first <= "2720"[:len(first)]
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
