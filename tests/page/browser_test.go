package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/tests/internal/browser"
)

// TestBrowsers keeps the browsers of tests apart, which are in one process.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<!doctype html><title>site</title>") }))
	t.Cleanup(site.Close)
	one := browser.New(t)
	first, second, other := one.Open(site.URL), one.Open(site.URL), browser.New(t).Open(site.URL)
	browser.Evaluate[string](first, `localStorage.setItem("key", "value"); document.cookie = "key=value"`)
	second.Until(`localStorage.getItem("key") === "value" && document.cookie === "key=value"`)
	assert.Empty(t, browser.Evaluate[string](other, `(localStorage.getItem("key") ?? "") + document.cookie`))
	for _, tab := range []*browser.Tab{first, second, other} {
		assert.True(t, browser.Evaluate[bool](tab, `document.hasFocus() && document.visibilityState === "visible"`))
		browser.Evaluate[float64](tab, "new Promise(requestAnimationFrame)")
	}
	ctx, cancel := context.WithCancel(first.Ctx())
	defer cancel()
	crashes := chromedp.Events(ctx, inspector.TargetCrashed)
	go func() {
		// There is no response.
		_, _ = chromedp.Run(ctx, func(ctx context.Context, target *chromedp.Target) (cdp.Empty, error) {
			return cdp.Call(ctx, target, cdppage.Crash, cdp.Empty{})
		})
	}()
	for _, err := range crashes {
		require.NoError(t, err)
		break
	}
	other.Until(`document.title === "site"`)
}
