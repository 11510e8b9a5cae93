package cards

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/tests/internal/browser"
)

// keys is a tab that is used without a pointer.
type keys struct{ *browser.Tab }

var (
	enter = browser.Stroke("Enter", "\r", 13)
	space = browser.Stroke(" ", " ", 32)
	down  = browser.Stroke("ArrowDown", "", 40)
)

// to presses Tab until a control has the focus, and checks that people can see it.
func (p keys) to(selector, text string) {
	p.T.Helper()
	is := fmt.Sprintf(`((e) => e.matches(%q) && [e.textContent, e.ariaLabel, e.labels?.[0]?.textContent].join(" ").includes(%q))`, selector, text)
	p.Until(fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && !e.disabled && %s(e))`, selector, is))
	for range 400 {
		if browser.Evaluate[bool](p.Tab, is+`(document.activeElement)`) {
			p.Until(`((style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0)(getComputedStyle(document.activeElement))`)
			return
		}
		p.Do(browser.Stroke("Tab", "", 9))
	}
	require.FailNow(p.T, "Tab does not lead there", "%s %s", selector, text)
}

// kept checks that the focus is in the main part, although what had it has gone.
func (p keys) kept() {
	p.T.Helper()
	p.Until(`document.activeElement.closest("#main") !== null`)
}

// press presses Enter on a control.
func (p keys) press(selector, text string) {
	p.T.Helper()
	p.to(selector, text)
	p.Do(enter)
}

// types replaces the text of a field.
func (p keys) types(selector, text string) {
	p.T.Helper()
	p.to(selector, "")
	p.Do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		all := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "a", WindowsVirtualKeyCode: 65, Modifiers: 2, Commands: []string{"selectAll"}}
		if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, all); err != nil {
			return chromedp.Void{}, err
		}
		return cdp.Call(ctx, target, input.InsertText, input.InsertTextParams{Text: text})
	})
}

// TestPageFormsByKeys signs in, makes, edits, compares, rolls back and deletes agents, schedules and MCP servers, and signs out, with keys alone.
func TestPageFormsByKeys(t *testing.T) {
	t.Parallel()
	w := newKeyedWith(t, nil, declaring(t))
	_, secret := w.create("root", time.Time{}, "admin")
	b := browser.New(t)
	p := keys{b.OpenAs("", w.API.URL+"/")}
	p.Until(`document.activeElement.id === "key"`)
	p.types("#key", secret)
	p.Do(enter)
	p.Until(`document.querySelector("tm-sign-in") === null`)

	// An agent.
	p.press("#nav a", "Agents")
	p.press("tm-agents a", "New agent")
	p.Until(`document.activeElement.id === "field-name"`)
	p.types("#field-name", "clerk")
	p.types("#field-model", "openai/stand-in")
	p.types("#field-instructions", "Say one.")
	p.to("summary", "Limits")
	p.Do(space)
	p.types("#field-limits-maxSteps", "7")
	p.press("tm-form button", "Save")
	p.Sees("tm-agents h2", "version 1")
	p.kept()
	p.press("tm-agents a.button", "Edit")
	p.types("#field-instructions", "Say two.")
	p.press("tm-form button", "Save")
	p.Sees("tm-agents h2", "version 2")
	p.kept()
	p.Sees("tm-versions h3", "Version 1 → 2")
	p.to(`[name=version-to]`, "")
	p.Do(down)
	p.Sees("tm-versions h3", "Version 1 → 1")
	p.press(`tm-versions button`, "Roll back to version 1…")
	p.press(".preview button", "Store version 1 again")
	p.Sees("tm-agents h2", "version 3")
	p.kept()
	p.press("tm-agents button", "Delete…")
	p.press("dialog button", "Delete it")
	p.Sees("tm-agents .badge", "deleted")
	p.kept()
	p.press("tm-versions button", "Restore version 3…")
	p.press(".preview button", "Restore version 3")
	p.Sees("tm-agents h2", "version 5")
	p.kept()

	// A schedule.
	p.press("#nav a", "Schedules")
	p.press("tm-schedules a", "New schedule")
	p.types("#field-id", "standup")
	p.types("#field-threadId", "team")
	p.types("#field-message-content", "What is on today?")
	p.press("tm-form button", "Save")
	p.Sees("tm-schedules h2", "standup")
	p.kept()
	p.press("tm-schedules button", "Pause")
	p.Sees("tm-schedules .badge", "paused")
	p.kept()
	p.press("tm-schedules a", "Edit")
	p.types("#field-message-content", "What is new?")
	p.press("tm-form button", "Save")
	p.Sees("tm-schedules", "What is new?")
	p.kept()
	p.press("tm-schedules button", "Delete…")
	p.press("dialog button", "Delete it")
	p.Sees("tm-schedules .badge", "deleted")
	p.kept()
	p.press("#nav a", "Schedules")
	p.Sees("tm-schedules", "There are no schedules.")

	// An MCP server.
	p.press("#nav a", "MCP servers")
	p.press("tm-servers button", "Add a server")
	p.types("#field-name", "hub")
	p.to("[name=either]", "at an address")
	p.Do(down)
	p.Until(`document.activeElement.labels[0].textContent === "a program" && document.querySelector("#field-command").checkVisibility()`)
	p.types("#field-command", "true\n")
	p.press("tm-form button", "Save")
	p.Sees("tm-servers h2", "hub")
	p.kept()
	p.press("tm-servers section button", "Edit")
	p.types("#field-description", "does nothing")
	p.press("tm-form button", "Save")
	p.Sees("tm-servers section", "does nothing")
	p.kept()
	p.press("tm-servers button", "Remove…")
	p.press("dialog button", "Remove it")
	p.Sees("tm-servers", "There are no MCP servers.")
	p.kept()

	p.press(".account summary", "root")
	p.press(".account button", "Sign out")
	p.Until(`document.activeElement.id === "key"`)
}
