package addressing

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

func TestMentions(t *testing.T) {
	for _, tc := range []struct {
		name, content string
		want          []string
	}{
		{"S4-37 first in the message", "@alice hello", []string{"alice"}},
		{"S4-37 nothing else", "@alice", []string{"alice"}},
		{"S4-37 letters, digits, - and _", "@Agent-2_b hello", []string{"agent-2_b"}},
		{"S4-37 a digit first", "@2nd hello", []string{"2nd"}},
		{"S4-37 after whitespace", " \t\u00a0@alice hello", []string{"alice"}},
		{"S4-37 on any line", "hello\n\n@alice hello", []string{"alice"}},
		{"S4-37 on several lines", "@bob one\r\n  @alice two\nthree", []string{"bob", "alice"}},
		{"S4-37 the same again", "@bob\n@BOB\n@alice\n@bob", []string{"bob", "alice"}},
		{"S4-37 one on a line counts", "@bob @alice hello", []string{"bob"}},
		{"S4-37 punctuation behind it", "@bob, hello\n@alice: hello\n@carl.\n@dora's idea\n@eve/ hello\n@fay... hello", []string{"bob", "alice", "carl", "dora", "eve", "fay"}},
		{"S4-37 invisible characters in front", "\ufeff@alice hi\n\u200b@bob\n\u200f@carl \u05e9\n \u2067\u00ad@dora", []string{"alice", "bob", "carl", "dora"}},
		{"S4-37 in an isolate", "\u2068@alice\u2069 hi\n@\u2068bob\u2069 hi", []string{"alice", "bob"}},
		{"S4-37 invisible characters behind it", "@alice\u200d hi\n@bob\ufe0f\n@carl\u2069. hi\n@dora\u200bhi", []string{"alice", "bob", "carl", "dora"}},
		{"S4-37 invisible characters do not end it", "@alice\u2060é\n@bob\u200e.go\n@carl.\u200ego\n@dora\ufeff@example.com", nil},
		{"S4-37 a name that was broken on purpose", "@\u200balice\n@al\u200dice", nil},
		{"S4-37 a visible format character in front", "\u0600@alice", nil},
		{"S4-37 the full-width @", "\uff20alice hi\n\uff20bob\uff0chi\n@carl\uff20example.com\n\uff20\uff20dora", []string{"alice", "bob"}},
		{"a block behind a byte order mark", "\ufeff```\n@one\n```\u200b\n@alice", []string{"alice"}},
		{"S4-37 in the middle", "hello @alice", nil},
		{"S4-37 behind a mark of Markdown", "> @alice\n- @alice\n**@alice**", nil},
		{"S4-37 malformed: no name", "@\n@ alice\n@-\n@_a\n@!", nil},
		{"S4-37 malformed: twice", "@@alice", nil},
		{"S4-37 malformed: letters that no name has", "@élan\n@aliceé\n@alice\u0301\n@аlice", nil},
		{"S4-37 malformed: an address", "@alice@example.com\n@alice.@b", nil},
		{"S4-37 malformed: a file, a path", "@alice.go\n@alice/core", nil},
		{"S4-37 no text", "", nil},
		{"a block of code", "```python\n@dataclass\nclass A: pass\n```\n@alice look", []string{"alice"}},
		{"another kind of block", "~~~\n@one\n```\n@two\n~~~\n@alice", []string{"alice"}},
		{"a block in a longer fence", "````\n```\n@one\n```\n@two\n````\n@alice", []string{"alice"}},
		{"a block that is indented", "1. so:\n   ```\n   @one\n   ```\n@alice", []string{"alice"}},
		{"a block without an end", "@alice\n```\n@one", []string{"alice"}},
		{"a fence with text behind it does not end a block", "```\n``` @no\n@one\n```\n@alice", []string{"alice"}},
		{"code within a text is no block", "```x``` is it\n@alice", []string{"alice"}},
		{"two backquotes are no fence", "``\n@alice\n``", []string{"alice"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, Mentions(tc.content))
			require.Equal(t, len(tc.want) > 0, HasMentionAtStart(tc.content), "S4-41")
		})
	}
}

func TestMentionsInText(t *testing.T) {
	for _, tc := range []struct {
		name, content string
		want          bool
	}{
		{"S4-35 in the middle", "hello @alice", true},
		{"S4-35 in any case", "hello @ALICE.", true},
		{"S4-35 behind a bracket", "hello (@alice)", true},
		{"S4-35 behind a mark of Markdown", "- @alice", true},
		{"S4-35 another behind it", "hello @carol and @Bob-2", true},
		{"S4-35 somebody else", "hello @carol", false},
		{"S4-35 a longer name", "hello @alice2, @bob", false},
		{"S4-35 an address", "write to ann@alice, ann.@alice or to @alice@example.com", false},
		{"S4-35 a path", "see https://example.com/@alice or @alice/core", false},
		{"S4-35 invisible characters in front", "hello \u2068@alice\u2069", true},
		{"S4-35 a space of no width in front", "hello\u200b@alice", true},
		{"S4-35 the full-width @", "\u4f60\u597d\uff0c\uff20alice", true},
		{"S4-35 an address with invisible characters", "write to ann\u200d@alice, ann\uff20alice, ann\uff20\u200d@alice", false},
		{"S4-35 in a block of code", "so:\n```\nx @alice\n```", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, mentionsInText(tc.content, []string{"alice", "bob-2"}))
		})
	}
}

func TestAutoMention(t *testing.T) {
	for _, tc := range []struct {
		name, content, want string
		added               bool
	}{
		{"S4-38 no mention", "I agree.", "@Bob I agree.", true},
		{"S4-38 a mention in the middle", "I agree with @carol.", "@Bob I agree with @carol.", true},
		{"S4-38 a malformed mention", "@@carol I agree", "@Bob @@carol I agree", true},
		{"S4-38 only itself", "@alice I agree.", "@Bob I agree.", true},
		{"S4-38 itself, in any case, twice", "@ALICE @alice, I agree.", "@Bob I agree.", true},
		{"S4-38 whitespace in front", "\n\n  I agree.", "@Bob I agree.", true},
		{"S4-38 a mention in code is none", "```\n@carol\n```", "@Bob\n```\n@carol\n```", true},
		{"S4-40 it mentions the sender", "@bob I agree.", "@bob I agree.", false},
		{"S4-40 it mentions another", "@carol I agree.", "@carol I agree.", false},
		{"S4-40 on a later line", "I agree.\n\n@carol what about you?", "I agree.\n\n@carol what about you?", false},
		{"S4-40 itself, then another", "@alice @carol I agree.", "@carol I agree.", false},
		{"S4-40 itself, on a line of its own", "@carol I agree.\n@alice\nSo do it.", "@carol I agree.\nSo do it.", false},
		{"S4-40 it speaks of itself", "@alice's idea.\n@carol?", "alice's idea.\n@carol?", false},
		{"S4-40 itself in the middle", "@carol ask @alice", "@carol ask @alice", false},
		{"S4-40 itself in code", "@carol so:\n```\n@alice\n```", "@carol so:\n```\n@alice\n```", false},
		{"S4-40 itself in front of code", "@carol so:\n@alice ```\n@bob\n```", "@carol so:\n```\n@bob\n```", false},
		{"S4-38 itself behind a byte order mark", "\ufeff@alice I agree.", "@Bob I agree.", true},
		{"S4-38 itself, as Asian input methods write it", "\uff20alice\uff0cI agree.", "@Bob I agree.", true},
		{"S4-38 code behind a byte order mark", "\ufeff```\n@carol\n```", "@Bob\n```\n@carol\n```", true},
		{"S4-40 it mentions another in an isolate", "\u2068@carol\u2069 I agree.", "\u2068@carol\u2069 I agree.", false},
		{"S4-38 nothing said", "", "", false},
		{"S4-38 nothing but itself", "@alice", "", false},
		{"S4-38 nothing but whitespace", " \n", " \n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.added, shouldAutoMention(tc.content, "alice", "Bob", true))
			require.Equal(t, tc.want, AutoMention(tc.content, "alice", "Bob"))
			require.False(t, shouldAutoMention(tc.content, "alice", "Bob", false), "S4-39 people need none")
		})
	}
	t.Run("S4-38 nobody to mention", func(t *testing.T) {
		for _, sender := range []string{"", "alice", "ALICE", "no name", "é", "a@b"} {
			require.False(t, shouldAutoMention("I agree.", "alice", sender, true), sender)
			require.Equal(t, "I agree.", AutoMention("I agree.", "alice", sender), sender)
		}
	})
}

// mentionForm says what a mention is in another way, for text without blocks of code that [plain] has
// rewritten: \x{E000} and \x{E001} are invisible, \x{E001} of these sets a direction.
var mentionForm = regexp.MustCompile(`^[\s\p{Z}\x{85}\v\x{E000}\x{E001}]*@\x{E001}*([A-Za-z0-9][A-Za-z0-9_-]*)[\x{E000}\x{E001}]*` +
	`(?:$|[^\p{L}\p{Nd}\p{M}@_./\x{E000}\x{E001}-]|[./][\x{E000}\x{E001}]*(?:$|[^\p{L}\p{Nd}\p{M}@\x{E000}\x{E001}]))`)

func plain(r rune) rune {
	switch {
	case r == '\ue000' || r == '\ue001':
		return '!'
	case r == '＠':
		return '@'
	case r == '\u200b':
		return ' '
	case unicode.Is(unicode.Bidi_Control, r):
		return '\ue001'
	case invisible(r):
		return '\ue000'
	}
	return r
}

func FuzzMentions(f *testing.F) {
	for _, seed := range []string{"@alice hi\n @Bob", "@a@b", "@a.b", "@é", "@a.", "x\n@a-é", "```\n@a\n```", "@a\u2028", "@a\xff", "\v@a", "\ufeff@a\u200d.\u200eb", "\uff20\u2068a\u2069\u200bb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		got := Mentions(content)
		require.Equal(t, got, Mentions(content), "the same each time")
		for i, name := range got {
			require.True(t, isName(name) && name == strings.ToLower(name), "%q", name)
			require.NotContains(t, got[:i], name)
		}
		if mayHaveBlock(content) {
			require.Subset(t, spelled(content), got, "what is in a block is left out, nothing is made up")
			return
		}
		require.ElementsMatch(t, spelled(content), got)
	})
}

func mayHaveBlock(content string) bool {
	return strings.Contains(content, "```") || strings.Contains(content, "~~~")
}

// spelled are the names that lines begin with.
func spelled(content string) []string {
	var out []string
	for _, line := range strings.Split(content, "\n") {
		if m := mentionForm.FindStringSubmatch(strings.Map(plain, line)); m != nil && !slices.Contains(out, strings.ToLower(m[1])) {
			out = append(out, strings.ToLower(m[1]))
		}
	}
	return out
}

func FuzzAutoMention(f *testing.F) {
	for _, seed := range []string{"I agree.", "@alice @bob", "@alice's\n@alice", "@alice ```\n@alice\n```\n@alice", "```\n@alice", "\n\n@alice:\n~~~", "@alice.@alice", "<world>TO:alice</world>@alice"} {
		f.Add(seed, "alice", "bob")
	}
	f.Fuzz(func(t *testing.T, content, self, sender string) {
		got := AutoMention(content, self, sender)
		require.Equal(t, got, AutoMention(got, self, sender), "a second time changes nothing")
		mentions := Mentions(got)
		require.False(t, HasName(mentions, self), "it does not address itself")
		if isName(sender) && !strings.EqualFold(self, sender) && strings.TrimFunc(got, blank) != "" {
			require.NotEmpty(t, mentions, "somebody hears it")
		}
		if before := others(Mentions(content), self); len(before) > 0 && !mayHaveBlock(content) {
			require.Subset(t, mentions, before, "those whom it addresses stay")
		}
		for _, auto := range []bool{false, true} {
			require.False(t, HasName(Mentions(Rewrite(content, self, sender, true, auto)), self), "it does not address itself")
		}
	})
}
