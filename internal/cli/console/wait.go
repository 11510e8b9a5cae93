package console

import (
	"fmt"
	"io"
	"sync"
	"time"

	"charm.land/bubbles/v2/spinner"

	"github.com/threadmill/threadmill/internal/text/term"
)

// waitBefore is the time after which a person is told what is being waited for.
const waitBefore = time.Second

// Wait shows on a terminal what is being waited for, once that takes a while, until stop is called.
func Wait(out io.Writer, what string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		since := time.Now()
		select {
		case <-done:
			return
		case <-time.After(waitBefore):
		}
		tick := time.NewTicker(spinner.MiniDot.FPS)
		defer tick.Stop()
		for i := 0; ; i++ {
			fmt.Fprintf(out, "\r%s %s · %d s", spinner.MiniDot.Frames[i%len(spinner.MiniDot.Frames)], term.Line(what), int(time.Since(since).Seconds()))
			select {
			case <-done:
				fmt.Fprint(out, "\r\x1b[K")
				return
			case <-tick.C:
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(done)
		<-ended
	})
}
