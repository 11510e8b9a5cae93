package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// spoken are the states of an element that a screen reader announces.
var spoken = []accessibility.PropertyName{
	accessibility.PropertyNameLevel, accessibility.PropertyNameExpanded, accessibility.PropertyNameSelected, accessibility.PropertyNameChecked,
	accessibility.PropertyNamePressed, accessibility.PropertyNameDisabled, accessibility.PropertyNameRequired, accessibility.PropertyNameInvalid,
}

// announced are the roles that Reading shows. Others group or style what is in them, and have other names in other versions of the browser.
var announced = strings.Fields("main complementary region navigation form search dialog group article feed list listitem table row cell columnheader rowheader " +
	"heading link button textbox searchbox combobox option checkbox radio spinbutton tab tablist tabpanel status alert progressbar code blockquote term definition image")

// renamed are the roles that the browser has names of its own for. What is in them is not read.
var renamed = map[string]string{"DisclosureTriangle": "summary", "Date": "date"}

// Reading returns what a screen reader reads of the main part of the page: a line for each element with a role, with its name and states, and for each text.
func (p *Tab) Reading() string {
	p.T.Helper()
	tree, err := chromedp.Run(p.ctx, func(ctx context.Context, target *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	require.NoError(p.T, err)
	nodes := map[accessibility.NodeID]*accessibility.Node{}
	for _, n := range tree.Nodes {
		nodes[n.NodeID] = n
	}
	var out strings.Builder
	var read func(n *accessibility.Node, depth int, above string)
	read = func(n *accessibility.Node, depth int, above string) {
		role, name := text(n.Role), text(n.Name)
		inside := depth
		leaf, whole := renamed[role]
		if whole {
			role = leaf
		}
		switch {
		case role == "StaticText":
			if name = strings.Join(strings.Fields(name), " "); name != "" && name != above {
				fmt.Fprintf(&out, "%s%s\n", strings.Repeat("  ", depth), name)
			}
		case !n.Ignored && (whole || slices.Contains(announced, role)):
			fmt.Fprintf(&out, "%s[%s]", strings.Repeat("  ", depth), role)
			if name = strings.Join(strings.Fields(name), " "); name != "" {
				fmt.Fprintf(&out, " %s", name)
			}
			for _, state := range n.Properties {
				if value := text(state.Value); slices.Contains(spoken, state.Name) && value != "false" {
					fmt.Fprintf(&out, " (%s %s)", state.Name, value)
				}
			}
			out.WriteByte('\n')
			inside++
			above = name
		}
		if whole {
			return
		}
		for _, id := range n.ChildIDs {
			if child := nodes[id]; child != nil {
				read(child, inside, above)
			}
		}
	}
	for _, n := range tree.Nodes {
		if !n.Ignored && text(n.Role) == "main" {
			read(n, 0, "")
		}
	}
	return out.String()
}

// text returns a value of the accessibility tree as text.
func text(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	var s string
	if json.Unmarshal(v.Value, &s) == nil {
		return s
	}
	return string(v.Value)
}

// Picture writes what the window shows into a PNG file.
func (p *Tab) Picture(file string) {
	p.T.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p.T, err)
	require.NoError(p.T, os.WriteFile(file, picture, 0o600))
}
