package tests

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// browser is a running Chromium.
type browser struct {
	t   testing.TB
	ctx context.Context
}

// tab is a tab of a browser. The test fails if its page throws an error or breaks its
// Content-Security-Policy.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

func newBrowser(t testing.TB) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(testenv.Browser(t)), chromedp.NoSandbox)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, closed := chromedp.NewContext(allocator)
	t.Cleanup(closed)
	require.NoError(t, chromedp.Do(ctx))
	return &browser{t: t, ctx: ctx}
}

// open opens a page in a new tab of 1280 by 800 pixels, for a person whose name it knows.
func (b *browser) open(address string) *tab {
	b.t.Helper()
	return b.openAs("ann", address)
}

// openAs is open for another person. Without a name, the page asks for it.
func (b *browser) openAs(name, address string) *tab {
	b.t.Helper()
	ctx, closed := chromedp.NewContext(b.ctx)
	b.t.Cleanup(closed)
	page := &tab{t: b.t, ctx: ctx}
	page.do(chromedp.EmulateViewport(1280, 800))
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
	b.t.Cleanup(func() {
		page.mu.Lock()
		defer page.mu.Unlock()
		assert.Empty(b.t, page.problems, "errors of the page")
		if b.t.Failed() {
			b.t.Logf("the page showed: %s", page.body())
		}
	})
	if name != "" {
		page.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
			_, err := cdp.Call(ctx, target, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
				Source: fmt.Sprintf(`if (location.protocol.startsWith("http")) localStorage.setItem("threadmill.name", %q)`, name),
			})
			return chromedp.Void{}, err
		})
	}
	page.do(chromedp.Navigate(address))
	return page
}

func (p *tab) add(problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, problem)
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, harness.Patience)
	defer cancel()
	if chromedp.FromContext(p.ctx).Target == nil {
		ctx = p.ctx // the first call opens the tab, which lives as long as its context
	}
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

// body returns the text of the page.
func (p *tab) body() string {
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body?.innerText ?? ''"))
	if err != nil {
		return err.Error()
	}
	return text
}

// evaluate returns the value of a JavaScript expression.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, harness.Patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	return out
}

// until waits until a JavaScript expression is true.
func (p *tab) until(expression string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		ctx, cancel := context.WithTimeout(p.ctx, harness.Patience)
		defer cancel()
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		return err == nil && ok
	}, harness.Patience, harness.Tick, "%s", expression)
}

// sees waits until an element contains a text.
func (p *tab) sees(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q))", selector, text))
}

// click clicks on the first element that a selector and a text describe, visible and not disabled.
func (p *tab) click(selector, text string) {
	p.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%q)].find((e) => e.checkVisibility() && !e.disabled && e.textContent.includes(%q))", selector, text)
	p.until(find + " !== undefined")
	evaluate[chromedp.Void](p, find+".click()")
}

// fill inserts a text into the element that a selector describes.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.do(chromedp.WaitVisible(selector), chromedp.Focus(selector), func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		return cdp.Call(ctx, target, input.InsertText, input.InsertTextParams{Text: text})
	})
}

// enter inserts a text into the element that a selector describes, and presses Enter.
func (p *tab) enter(selector, text string) {
	p.t.Helper()
	p.fill(selector, text)
	p.do(stroke("Enter", "\r", 13))
}

// stroke presses a key as a person does: what the page prevents does not happen.
func stroke(name, text string, code int64) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		press := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: name, Text: text, WindowsVirtualKeyCode: code}
		if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, press); err != nil {
			return chromedp.Void{}, err
		}
		press.Type, press.Text = input.DispatchKeyEventTypeKeyUp, ""
		return cdp.Call(ctx, target, input.DispatchKeyEvent, press)
	}
}

// press presses the key of a letter.
func (p *tab) press(letter string) {
	p.t.Helper()
	p.do(stroke(letter, letter, int64(strings.ToUpper(letter)[0])))
}

// keyDown presses the key of a letter and does not release it, or sends what the keyboard repeats while it is held.
func keyDown(letter string, again bool) chromedp.Action[chromedp.Void] {
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

// hold repeats a key that is held.
func (p *tab) hold(key string, times int) {
	p.t.Helper()
	for range times {
		p.do(keyDown(key, true))
	}
}

// decide presses a key once the card that has the focus accepts keys.
func (p *tab) decide(letter string) {
	p.t.Helper()
	p.until(`document.activeElement.closest(".approval[data-keys]:not(.decided)") !== null`)
	p.press(letter)
}

// threadPage returns the address of a thread on the page.
func threadPage(api, id string) string { return api + "/#/threads/" + url.PathEscape(id) }

// lines returns the texts of the lines of a thread that is shown, without times and without what is
// live only.
func (p *tab) lines() string {
	p.t.Helper()
	return strings.Join(evaluate[[]string](p, `[...document.querySelectorAll(".lines > .line")].map((line) => {
		const copy = line.cloneNode(true);
		for (const e of copy.querySelectorAll(".when, .actions, time, .thought, .progress")) e.remove();
		return line.querySelector(".body")?.textContent === "" ? [] : [line.className + ": " + copy.textContent.trim()];
	}).flat()`), "\n")
}
