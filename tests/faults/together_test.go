package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
)

// cutThreads are cut by each kill; with killsEnv, there are as many cuts as it says.
const (
	cutThreads = 8
	killsEnv   = "THREADMILL_KILLS"
)

// together kills Temporal, the worker and the API at once, while clients post messages and approve commands. A client that was told
// that its message is kept gets a reply. Of the others, nobody sees anything, or all of it is done.
func (f faults) together(t *testing.T) {
	rounds := 2
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		rounds = (n + cutThreads - 1) / cutThreads
	}
	s := f.stage(t, nil)
	s.Start()
	all := make([]*cut, cutThreads)
	for i := range all {
		all[i] = &cut{stage: s, thread: fmt.Sprint("cut-", i), approves: i%2 == 1}
		s.Open(all[i].thread, "hello")
		all[i].turns = 1
		for range 4 { // from then on, the steps of a turn are local activities
			all[i].prepare("warm", "0")
			all[i].send(t.Context())
			all[i].settle()
		}
		all[i].told = 0
	}
	began := time.Now()
	for round := range rounds {
		for _, c := range all {
			c.prepare(fmt.Sprint("round-", round), "0.7") // most kills hit the command
		}
		var sending sync.WaitGroup
		for _, c := range all {
			sending.Go(func() {
				time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) // at random
				c.send(t.Context())
			})
		}
		time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond) // at random
		s.Kill()
		sending.Wait()
		s.Start()
		for _, c := range all {
			c.settle()
		}
		if round%10 == 9 {
			t.Logf("%d cuts after %s", (round+1)*cutThreads, time.Since(began).Round(time.Second))
		}
	}
	require.Zero(t, s.Terminate())
	db := s.open()
	told, silent := 0, 0
	for _, c := range all {
		requireWhole(t, db, c.thread)
		told, silent = told+c.told, silent+c.silent
	}
	t.Logf("%d cuts by %d kills: %d were told before, %d of the others were lost with their senders", rounds*cutThreads, rounds, told, silent)
}

// cut is a thread that is cut in the middle of what a client sends it.
type cut struct {
	stage
	thread   string
	approves bool

	// turns have ended. told counts those of whose cause the client was told before the kill, silent what left nothing.
	turns, told, silent int

	name, call string
	kept       bool
}

// prepare leads the thread to the moment before the client sends something. A command takes so many seconds.
func (c *cut) prepare(round, seconds string) {
	c.t.Helper()
	c.name = round + "-" + strconv.Itoa(c.turns)
	if c.approves {
		c.Say(c.thread, fmt.Sprintf(`use shell_cmd {"command":"echo %s-%s >> ran; sleep %s"}`, c.thread, c.name, seconds))
		c.call = c.AwaitApproval(c.thread).ToolCallID
		c.awaitRest(c.thread)
	}
}

// send posts a message or approves the command.
func (c *cut) send(ctx context.Context) {
	path, body := "/v1/threads/"+c.thread+"/messages", map[string]any{"content": c.name}
	if c.approves {
		path, body = "/v1/threads/"+c.thread+"/approvals/"+c.call, map[string]any{"decision": "approve", "by": "ann"}
	}
	status := c.Try(ctx, http.MethodPost, path, body, nil)
	if c.kept = status == http.StatusOK || status == http.StatusAccepted; c.kept {
		c.told++
	}
}

// settle waits until the thread has done what follows, and checks that it is all or nothing.
func (c *cut) settle() {
	c.t.Helper()
	c.awaitRest(c.thread)
	if !c.kept && !c.begun() {
		c.silent++
		if !c.approves {
			return
		}
		require.Equal(c.t, c.call, c.AwaitApproval(c.thread).ToolCallID, "it waits still")
		require.Equal(c.t, "accepted", c.Approve(c.thread, c.call))
	}
	c.turns++
	c.AwaitTurns(c.thread, c.turns)
	said := c.Messages(c.thread)
	last := said[len(said)-1]
	defer c.explain()
	require.Equal(c.t, event.CreatedByAgent, last.SenderType)
	if !c.approves {
		require.Equal(c.t, c.name, last.Content)
		return
	}
	ran := 0
	for _, line := range c.lines("ran") {
		if line == c.thread+"-"+c.name {
			ran++
		}
	}
	if strings.Contains(last.Content, "outcome is unknown") {
		require.LessOrEqual(c.t, ran, 1)
	} else {
		require.Equal(c.t, 1, ran, "%s: %s", c.name, last.Content)
	}
}

// explain logs the newest events of the thread if the test has failed.
func (c *cut) explain() {
	if !c.t.Failed() {
		return
	}
	c.t.Logf("thread %s, turn %d, call %q, told %t", c.thread, c.turns, c.call, c.kept)
	var page struct{ Events []json.RawMessage }
	c.Try(context.Background(), http.MethodGet, "/v1/threads/"+c.thread+"/events?before=end&limit=20", nil, &page)
	for _, e := range page.Events {
		c.t.Logf("%s", e)
	}
}

// begun reports whether anybody can see what was sent. A thread that has seen it has a workflow task, which awaitRest awaits.
func (c *cut) begun() bool {
	c.t.Helper()
	if c.approves {
		var out struct{ Approvals []event.ApprovalRequest }
		require.Eventually(c.t, func() bool {
			return c.Try(c.t.Context(), http.MethodGet, "/v1/threads/"+c.thread+"/approvals", nil, &out) == http.StatusOK
		}, testenv.Patience, testenv.Tick)
		return len(out.Approvals) == 0
	}
	return slices.ContainsFunc(c.Messages(c.thread), func(m event.Message) bool { return m.Content == c.name })
}
