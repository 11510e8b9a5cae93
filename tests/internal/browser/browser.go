// Package browser drives Chromium in tests of the page and of other frontends.
package browser

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/css"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
)

// Pictures is the folder of the pictures of views in each theme and width, "" for none.
var Pictures = flag.String("pictures", "", "folder into which tests of the page write a picture of each view in each theme and width")

// Browser is a private profile in a running Chromium.
type Browser struct {
	// T is the test that fails with the tabs that are opened next. It changes in subtests.
	T testing.TB

	profile cdp.BrowserContextID
}

// Tab is a tab of a browser. The test fails if its page throws an error or breaks its
// Content-Security-Policy.
type Tab struct {
	// T is the test that fails when a step does. It changes in subtests.
	T testing.TB

	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// Open opens a page in a new tab of 1280 by 800 pixels, for a person whose name it knows.
func (b *Browser) Open(address string) *Tab {
	b.T.Helper()
	return b.OpenAs("ann", address)
}

// OpenAs is [Browser.Open] for another person. Without a name, the page asks for it.
func (b *Browser) OpenAs(name, address string) *Tab {
	t := b.T
	t.Helper()
	ctx, closed := chromedp.NewContext(chromium.ctx, chromedp.WithExistingBrowserContext(b.profile))
	t.Cleanup(closed)
	page := &Tab{T: t, ctx: ctx}
	page.Do(chromedp.EmulateViewport(1280, 800), focused, unwatched)
	// The subscriptions begin before the page is loaded.
	thrown, logged := chromedp.Events(ctx, runtime.ExceptionThrown), chromedp.Events(ctx, log.EntryAdded)
	go func() {
		for e, err := range thrown {
			if err != nil {
				return
			}
			page.add(fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
		}
	}()
	go func() {
		for e, err := range logged {
			if err != nil {
				return
			}
			if e.Entry.Source == log.EntrySourceSecurity || e.Entry.Source == log.EntrySourceJavascript {
				page.add(e.Entry.Text)
			}
		}
	}()
	t.Cleanup(func() {
		page.mu.Lock()
		defer page.mu.Unlock()
		assert.Empty(t, page.problems, "errors of the page")
		if t.Failed() {
			t.Logf("the page showed: %s", page.body())
		}
	})
	if name != "" {
		page.Do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
			_, err := cdp.Call(ctx, target, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
				Source: fmt.Sprintf(`if (location.protocol.startsWith("http")) localStorage.setItem("threadmill.name", %q)`, name),
			})
			return chromedp.Void{}, err
		})
	}
	page.Do(chromedp.Navigate(address))
	return page
}

// focused makes a tab visible and focused, as the tab of a person is: other tests have tabs in the same process.
func focused(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
	_, err := cdp.Call(ctx, target, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	return chromedp.Void{}, err
}

// unwatched ends what the driver watches and no test needs: requests, the tree of elements and styles. A load takes a quarter less CPU.
func unwatched(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
	for _, disable := range []cdp.Command[cdp.Empty, cdp.Empty]{network.Disable, dom.Disable, css.Disable} {
		if _, err := cdp.Call(ctx, target, disable, cdp.Empty{}); err != nil {
			return chromedp.Void{}, err
		}
	}
	return chromedp.Void{}, nil
}

// Moves lets the page move what moves. In other tabs it does not, as for a person who asks for less motion: it takes CPU.
func (p *Tab) Moves() {
	p.T.Helper()
	p.Do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "no-preference"}}}
		return cdp.Call(ctx, target, emulation.SetEmulatedMedia, media)
	})
}

// Ctx is the context of the tab, for chromedp.
func (p *Tab) Ctx() context.Context { return p.ctx }

func (p *Tab) add(problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, problem)
}

// Do runs actions of chromedp, one after the other.
func (p *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, testenv.Patience)
	defer cancel()
	if chromedp.FromContext(p.ctx).Target == nil {
		ctx = p.ctx // the first call opens the tab, which lives as long as its context
	}
	require.NoError(p.T, chromedp.Do(ctx, steps...))
}

// body returns the text of the page.
func (p *Tab) body() string {
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body?.innerText ?? ''"))
	if err != nil {
		return err.Error()
	}
	return text
}

// Evaluate returns the value of a JavaScript expression.
func Evaluate[T any](p *Tab, expression string) T {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, testenv.Patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.T, err, expression)
	return out
}

// watch looks for up to a second whether an expression is true. To look from here as often takes several times the CPU.
const watch = `new Promise((done) => {
	const end = Date.now() + 1000;
	const look = () => {
		let found = false;
		try { found = Boolean(%s); } catch {}
		if (found || Date.now() > end) done(found); else setTimeout(look, 20);
	};
	look();
})`

// Until waits until a JavaScript expression is true.
func (p *Tab) Until(expression string) {
	p.T.Helper()
	p.until(fmt.Sprintf(watch, expression), expression)
}

// until evaluates an expression until it is true. A page that is loaded meanwhile fails it.
func (p *Tab) until(expression, shown string) {
	p.T.Helper()
	require.Eventually(p.T, func() bool {
		ctx, cancel := context.WithTimeout(p.ctx, testenv.Patience)
		defer cancel()
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression, chromedp.EvalAwaitPromise))
		return err == nil && ok
	}, testenv.Patience, testenv.Tick, "%s", shown)
}

// Sees waits until an element contains a text.
func (p *Tab) Sees(selector, text string) {
	p.T.Helper()
	p.Until(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q))", selector, text))
}

// Click clicks on the first element that a selector and a text describe, visible and not disabled.
func (p *Tab) Click(selector, text string) {
	p.T.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%q)].find((e) => e.checkVisibility() && !e.disabled && e.textContent.includes(%q))", selector, text)
	p.Until(find + " !== undefined")
	// Found again in the same step: a page that has rendered again in between has another element, or none for a moment.
	click := "((e) => Boolean(e && (e.click(), true)))(" + find + ")" // once, since it may load another page
	p.until(click, click)
}

// Focus gives the focus to the element that a selector describes, once it is visible.
func (p *Tab) Focus(selector string) {
	p.T.Helper()
	p.Until(fmt.Sprintf("((e) => Boolean(e?.checkVisibility()) && (e.focus(), e === document.activeElement))(document.querySelector(%q))", selector))
}

// Fill inserts a text into the element that a selector describes.
func (p *Tab) Fill(selector, text string) {
	p.T.Helper()
	p.Focus(selector)
	p.Do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		return cdp.Call(ctx, target, input.InsertText, input.InsertTextParams{Text: text})
	})
}

// Enter inserts a text into the element that a selector describes, and presses Enter.
func (p *Tab) Enter(selector, text string) {
	p.T.Helper()
	p.Fill(selector, text)
	p.Do(Stroke("Enter", "\r", 13))
}

// Write replaces what a field contains, once it can be used.
func (p *Tab) Write(selector, text string) {
	p.T.Helper()
	p.Until(fmt.Sprintf("((e) => e && !e.disabled && (e.focus(), e.select(), true))(document.querySelector(%q))", selector))
	p.Fill(selector, text)
}

// Drop drops files with these names and contents on the page.
func (p *Tab) Drop(files map[string]string) {
	p.T.Helper()
	list, err := json.Marshal(files)
	require.NoError(p.T, err)
	Evaluate[chromedp.Void](p, fmt.Sprintf(`(() => {
		const dataTransfer = new DataTransfer();
		for (const [name, text] of Object.entries(%s)) dataTransfer.items.add(new File([text], name));
		document.querySelector("main").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
	})()`, list))
}

// Stroke presses a key as a person does: what the page prevents does not happen.
func Stroke(name, text string, code int64) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		press := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: name, Text: text, WindowsVirtualKeyCode: code}
		if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, press); err != nil {
			return chromedp.Void{}, err
		}
		press.Type, press.Text = input.DispatchKeyEventTypeKeyUp, ""
		return cdp.Call(ctx, target, input.DispatchKeyEvent, press)
	}
}

// Press presses the key of a letter.
func (p *Tab) Press(letter string) {
	p.T.Helper()
	p.Do(Stroke(letter, letter, int64(strings.ToUpper(letter)[0])))
}

// KeyDown presses the key of a letter and does not release it, or sends what the keyboard repeats while it is held.
func KeyDown(letter string, again bool) chromedp.Action[chromedp.Void] {
	press := input.DispatchKeyEventParams{
		Type: input.DispatchKeyEventTypeKeyDown, Key: letter, Text: letter, WindowsVirtualKeyCode: int64(strings.ToUpper(letter)[0]), AutoRepeat: &again,
	}
	if letter == "Enter" {
		press.Text, press.WindowsVirtualKeyCode = "\r", 13
	}
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		return cdp.Call(ctx, target, input.DispatchKeyEvent, press)
	}
}

// Hold repeats a key that is held.
func (p *Tab) Hold(key string, times int) {
	p.T.Helper()
	for range times {
		p.Do(KeyDown(key, true))
	}
}

// Decide presses a key once the card that has the focus accepts keys.
func (p *Tab) Decide(letter string) {
	p.T.Helper()
	p.Until(`document.activeElement.closest(".approval[data-keys]:not(.decided)") !== null`)
	p.Press(letter)
}

// ThreadPage returns the address of a thread on the page.
func ThreadPage(api, id string) string { return api + "/#/threads/" + url.PathEscape(id) }

// Lines returns the texts of the lines of a thread that is shown, without times and without what is
// live only.
func (p *Tab) Lines() string {
	p.T.Helper()
	return strings.Join(Evaluate[[]string](p, `[...document.querySelectorAll(".lines > .line")].map((line) => {
		const copy = line.cloneNode(true);
		for (const e of copy.querySelectorAll(".when, .actions, time, .thought, .progress")) e.remove();
		return line.querySelector(".body")?.textContent === "" ? [] : [line.className + ": " + copy.textContent.trim()];
	}).flat()`), "\n")
}

// themes are what [Tab.AccessibleInThemes] checks of each theme.
var themes = []struct{ name, rules string }{
	{"dark", `{ type: "rule", values: ["color-contrast"] }`},
	{"light", accessible},
}

const accessible = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`

// AccessibleInThemes checks what the page shows with axe, in both themes. They differ in colors, so the dark one is checked
// for contrast only. Where [Pictures] are wanted, it takes one of each: picture is the name, and %s in it the theme.
func (p *Tab) AccessibleInThemes(picture string) {
	p.T.Helper()
	for _, theme := range themes {
		Evaluate[chromedp.Void](p, fmt.Sprintf("document.documentElement.dataset.theme = %q", theme.name))
		p.accessible(theme.rules)
		if *Pictures != "" && picture != "" {
			p.Picture(filepath.Join(*Pictures, fmt.Sprintf(picture, theme.name)))
		}
	}
}

// Accessible checks what the page shows with axe.
func (p *Tab) Accessible() {
	p.T.Helper()
	p.accessible(accessible)
}

func (p *Tab) accessible(rules string) {
	p.T.Helper()
	if Evaluate[bool](p, `typeof axe === "undefined"`) {
		axe, err := os.ReadFile(testenv.NPM(p.T, "axe-core/axe.min.js"))
		require.NoError(p.T, err)
		// Axe may not run under the page's policy.
		p.Do(chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
			enabled := true
			_, err := cdp.Call(ctx, s, cdppage.SetBypassCSP, cdppage.SetBypassCSPParams{Enabled: enabled})
			return err
		}))
		Evaluate[chromedp.Void](p, string(axe)+";undefined")
	}
	found := Evaluate[json.RawMessage](p, `axe.run(document, { runOnly: `+rules+` })
		.then((r) => r.violations.map((v) => v.id + ": " + v.help + "\n  " + v.nodes.slice(0, 4).map((n) => n.html.slice(0, 200) + " | " + n.failureSummary).join("\n  ")))`)
	var findings []string
	require.NoError(p.T, json.Unmarshal(found, &findings))
	assert.Empty(p.T, findings)
}
