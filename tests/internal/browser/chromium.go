package browser

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
)

// guard runs Chromium, which stops when the kernel closes its pipes to the test binary, however that ends, and
// then removes its folder.
const guard = `PATH=$PATH:/usr/bin:/bin
dir=$1; shift
"$@"
rm -rf "$dir"`

// chromium is the Chromium of all tests of a package: a start takes about a second of CPU.
var chromium struct {
	start sync.Once
	ctx   context.Context
	err   error
}

func start(path string) (context.Context, error) {
	dir, err := os.MkdirTemp("", "threadmill-browser-")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(dir), chromedp.Flag("force-prefers-reduced-motion", true),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
			cmd.Args = append([]string{"sh", "-c", guard, "guard", dir, cmd.Path}, cmd.Args[1:]...)
			cmd.Path = "/bin/sh"
			// An interrupt at the terminal leaves the cleanup to the guard.
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		}))
	allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocator)
	return ctx, chromedp.Do(ctx)
}

// New returns a browser whose storage, cookies, cache and connections no other test shares. Its tabs close with the test.
func New(t testing.TB) *Browser {
	t.Helper()
	path := testenv.Browser(t)
	chromium.start.Do(func() { chromium.ctx, chromium.err = start(path) })
	require.NoError(t, chromium.err)
	process := chromedp.FromContext(chromium.ctx).Browser
	profile, err := cdp.Call(chromium.ctx, process, target.CreateBrowserContext, target.CreateBrowserContextParams{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := cdp.Call(chromium.ctx, process, target.DisposeBrowserContext, target.DisposeBrowserContextParams(profile))
		require.NoError(t, err)
	})
	return &Browser{T: t, profile: profile.BrowserContextID}
}
