package markdown_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/threadmill/threadmill/internal/text/markdown"
)

// outline writes nodes as tags in brackets.
func outline(nodes []markdown.Node) string {
	var out strings.Builder
	for _, n := range nodes {
		if n.Tag == "" {
			out.WriteString(n.Text)
			continue
		}
		out.WriteString("[" + n.Tag)
		for _, name := range []string{"href", "class", "align", "start", "src", "style", "onclick", "id", "rel", "target", "title"} {
			if value, ok := n.Attributes[name]; ok {
				out.WriteString(" " + name + "=" + value)
			}
		}
		out.WriteString(" " + outline(n.Children) + "]")
	}
	return out.String()
}

func TestRender(t *testing.T) {
	for source, want := range map[string]string{
		"":                              "",
		"one *two* **three**\n\nfour":   "[p one [em two] [strong three]]\n[p four]\n",
		"a\nb":                          "[p a[br ]\nb]\n",
		"# A\n- b\n- c":                 "[h1 A]\n[ul \n[li b]\n[li c]\n]\n",
		"3. x":                          "[ol start=3 \n[li x]\n]\n",
		"- [x] done":                    "[ul \n[li ☑ done]\n]\n",
		"~~no~~ `code`":                 "[p [del no] [code code]]\n",
		"t1~ab and t1~cd, ~/a ~/b":      "[p t1~ab and t1~cd, ~/a ~/b]\n",
		"[a](https://example.com/?q=1)": "[p [a href=https://example.com/?q=1 a]]\n",
		"https://example.com":           "[p [a href=https://example.com https://example.com]]\n",
		"|a|b|\n|:-|-:|\n|1|2|":         "[table \n[thead \n[tr \n[th align=left a]\n[th align=right b]\n]\n]\n[tbody \n[tr \n[td align=left 1]\n[td align=right 2]\n]\n]\n]\n",
		"```go\nreturn 1\n```":          "[pre class=chroma [code [span class=line [span class=cl [span class=k return][span class=w  ][span class=mi 1][span class=w \n]]]]]",
	} {
		assert.Equal(t, want, outline(markdown.Render(source)), source)
	}
}

// Text is never markup, and links lead nowhere that runs or loads anything.
func TestRenderHostile(t *testing.T) {
	for source, want := range map[string]string{
		"<script>alert(1)</script>":                   "[p <script>alert(1)</script>]",
		"a <img src=x onerror=alert(1)> b":            "[p a <img src=x onerror=alert(1)> b]\n",
		"<!-- x -->":                                  "[p <!-- x -->]",
		"[a](javascript:alert(1))":                    "[p a]\n",
		"[a](JaVaScRiPt:alert(1))":                    "[p a]\n",
		"[a](data:text/html,x)":                       "[p a]\n",
		"[a](//evil.example)":                         "[p a]\n",
		"[a](/v1/keys)":                               "[p a]\n",
		"![alt](https://evil.example/x.png)":          "[p [a href=https://evil.example/x.png alt]]\n",
		"![alt](javascript:x)":                        "[p alt]\n",
		`[a](https://e.example "t\" onclick=\"x")`:    "[p [a href=https://e.example a]]\n",
		"```\"><script>\n<b>\n```":                    "[pre [code <b>\n]]\n",
		"\x1b[31mred\x1b[0m":                          `[p \u001b[31mred\u001b[0m]` + "\n",
		"safe\u202etxt.exe":                           `[p safe\u202etxt.exe]` + "\n",
		"[click\u200b](https://e.example/\u202egpj)":  `[p [a href=https://e.example/%5Cu202egpj click\u200b]]` + "\n",
		"<style>*{display:none}</style>\n\n*b*":       "[p <style>*{display:none}</style>][p [em b]]\n",
		"[x]: javascript:a\n\n[x]":                    "[p x]\n",
		"<https://e.example/><javascript:alert(1)>":   "[p [a href=https://e.example/ https://e.example/]javascript:alert(1)]\n",
		"<details open ontoggle=alert(1)>x</details>": "[p <details open ontoggle=alert(1)>x</details>]",
	} {
		assert.Equal(t, want, outline(markdown.Render(source)), source)
	}
	for _, deep := range []string{strings.Repeat("> ", 5000) + "x", strings.Repeat("- ", 5000) + "x", strings.Repeat("*a ", 5000), strings.Repeat("[", 20000)} {
		got := markdown.Render(deep)
		depth := 0
		for at := got; len(at) > 0; depth++ {
			at = at[len(at)-1].Children
		}
		assert.Less(t, depth, 100)
	}
}
