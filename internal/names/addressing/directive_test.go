package addressing

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDirected(t *testing.T) {
	for _, tc := range []struct {
		name, content, text string
		how                 direction
	}{
		{"S4-42 STOP", "Done.<world>STOP</world>", "Done.", direction{Ends: true}},
		{"S4-42 DONE", "<world>DONE</world> That is it.", "That is it.", direction{Ends: true}},
		{"S4-42 PASS", "<world>PASS</world>", "", direction{Ends: true}},
		{"S4-42 in any case, with spaces", "Yes <World> stop </WORLD> and no", "Yes and no", direction{Ends: true}},
		{"S4-42 on a line of its own", "Yes\n\n <world>STOP</world>\r\n", "Yes", direction{Ends: true}},
		{"S4-42 TO one", "<world>TO:bob</world>Look.", "Look.", direction{To: []string{"bob"}}},
		{"S4-42 TO several", "Look. <world>TO: Bob, @carol,bob</world>", "Look.", direction{To: []string{"bob", "carol"}}},
		{"S4-42 TO, twice", "<world>TO:bob</world>a\nb<world>to:carol;dora</world>", "a\nb", direction{To: []string{"bob", "carol", "dora"}}},
		{"S4-42 TO nobody", "a<world>TO:</world>", "a", direction{}},
		{"S4-42 TO names that are none", "a<world>TO:é, b@c, @, bob</world>", "a", direction{To: []string{"bob"}}},
		{"S4-42 both", "<world>TO:bob</world><world>STOP</world>a", "a", direction{Ends: true, To: []string{"bob"}}},
		{"S4-42 one that is none", "<world>HELLO</world> <world></world> <world>STOPPED</world>", "<world>HELLO</world> <world></world> <world>STOPPED</world>", direction{}},
		{"S4-42 without an end", "<world>STOP", "<world>STOP", direction{}},
		{"S4-42 over two lines", "<world>STOP\n</world>", "<world>STOP\n</world>", direction{}},
		{"S4-42 one within another", "<wor<world>TO:bob</world>ld>STOP</world>a", "a", direction{Ends: true, To: []string{"bob"}}},
		{"S4-42 in a block of code", "write:\n```\n<world>STOP</world>\n```", "write:\n```\n<world>STOP</world>\n```", direction{}},
		{"S4-42 in front of a block of code", "<world>STOP</world>```\n<world>TO:bob</world>\n```", "```\n<world>TO:bob</world>\n```", direction{Ends: true}},
		{"S4-42 none", " as it is \r\n", " as it is \r\n", direction{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, how := directed(tc.content)
			require.Equal(t, tc.text, text)
			require.Equal(t, tc.how, how)
		})
	}
}

func TestAddressing(t *testing.T) {
	for _, tc := range []struct {
		name, content string
		toAgent, auto bool
		want          string
	}{
		{"S4-38 to an agent", "I agree.", true, true, "@bob I agree."},
		{"S4-38 the agent does not want it", "@alice I agree.", true, false, "I agree."},
		{"S4-39 to a person", "I agree.", false, true, "I agree."},
		{"S4-39 to a person, itself", "@alice I agree.", false, true, "I agree."},
		{"S4-40 to another", "@carol I agree.", true, true, "@carol I agree."},
		{"S4-40 no loop: it mentions itself and the sender", "@alice @bob I agree.", true, true, "@bob I agree."},
		{"S4-42 STOP strips mentions", "@bob @carol, bye.\n@dora\nReally. <world>STOP</world>", true, true, "bye.\nReally."},
		{"S4-42 DONE forbids auto-mention", "I agree.<world>DONE</world>", true, true, "I agree."},
		{"S4-42 PASS says nothing", "@bob <world>PASS</world>", true, true, ""},
		{"S4-42 TO sets mentions", "@bob I agree. <world>TO:carol, Dora</world>", true, true, "@carol\n@dora\n\nI agree."},
		{"S4-42 TO, without auto-mention", "I agree.<world>TO:carol</world>", true, false, "@carol\n\nI agree."},
		{"S4-42 TO, to a person", "I agree.<world>TO:human</world>", false, true, "@human\n\nI agree."},
		{"S4-42 TO says nothing", "<world>TO:carol</world>", false, true, "@carol"},
		{"S4-42 TO itself is to nobody", "I agree.<world>TO:Alice</world>", true, true, "@bob I agree."},
		{"S4-42 TO itself and another", "I agree.<world>TO:alice,carol</world>", true, true, "@carol\n\nI agree."},
		{"S4-42 STOP beside TO", "I agree.<world>TO:carol</world> <world>STOP</world>", true, true, "I agree."},
		{"S4-42 a directive in code is none", "I agree:\n```\n<world>STOP</world>\n```", true, true, "@bob I agree:\n```\n<world>STOP</world>\n```"},
		{"S4-42 mentions in code stay", "```\n@dataclass\n```\n@bob ok? <world>STOP</world>", true, true, "```\n@dataclass\n```\nok?"},
		{"nothing to do", "  as it is\n\n", false, true, "  as it is\n\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, Rewrite(tc.content, "alice", "bob", tc.toAgent, tc.auto))
		})
	}
}

func FuzzDirectives(f *testing.F) {
	for _, seed := range []string{
		"a<world>STOP</world>b", "<world>TO:a,b</world>", "<wor<world>STOP</world>ld>STOP</world>", "```\n<world>STOP</world>\n```",
		"<world>STOP</world>```\n<world>DONE</world>", "@alice\n<WORLD>to:alice</WORLD>\n@bob", "</world><world>STOP</world></world>", "<world>ſtop</world>",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		text, how := directed(content)
		require.LessOrEqual(t, len(text), len(content))
		for i, name := range how.To {
			require.True(t, isName(name) && name == strings.ToLower(name), "%q", name)
			require.NotContains(t, how.To[:i], name)
		}
		again, none := directed(text)
		require.Equal(t, text, again, "no directive is left")
		require.Equal(t, direction{}, none)
		if how.Ends || how.To != nil {
			require.Contains(t, strings.ToLower(content), closingTag)
		} else if text == content {
			require.Equal(t, withoutSelf(content, "alice"), Rewrite(content, "alice", "bob", true, false))
		}
		said := Mentions(Rewrite(content, "alice", "bob", true, true))
		switch to := others(how.To, "alice"); {
		case how.Ends:
			require.Empty(t, said, "nobody is addressed")
		case len(to) > 0:
			require.Equal(t, to, said, "those are addressed whom the directive names")
		}
	})
}
