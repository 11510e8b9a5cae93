package console

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		Wait(&out, "waiting for the thread")()
		assert.Empty(t, out.String(), "it was there at once")

		stop := Wait(&out, "waiting\x1b[2J")
		<-time.After(waitBefore + time.Millisecond)
		synctest.Wait()
		assert.Contains(t, out.String(), `waiting\u001b[2J · 1 s`)
		stop()
		assert.True(t, strings.HasSuffix(out.String(), "\r\x1b[K"))
		stop()
	})
}
