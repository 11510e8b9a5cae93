package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestChatOverPipes(t *testing.T) {
	w := newWorld(t)
	p := w.start(false, "chat")
	p.types("hello there\ntool 1\ny\ntool 2\nnot on a Friday\nbye\n")
	require.NoError(t, p.in.Close())
	p.exits(exitOK)
	out := p.out.String()
	head, rest, _ := strings.Cut(out, "\n")
	require.Contains(t, head, "/help lists the commands")
	id := strings.Fields(head)[1]
	require.Equal(t, `· thread opened with demo
ann › hello there
demo › you said: hello there
ann › tool 1
⚙ Using shell_cmd… {"command":"ls"}
shell_cmd {"command":"ls"} wants to run. Allow? [y]es once / [s]ession / [n]o / reason
✓ shell_cmd approved by ann
└ ✓ shell_cmd
  done
demo › you said: tool 1
ann › tool 2
⚙ Using shell_cmd… {"command":"ls"}
shell_cmd {"command":"ls"} wants to run. Allow? [y]es once / [s]ession / [n]o / reason
✗ shell_cmd denied by ann: not on a Friday
└ ✗ shell_cmd
  done
demo › you said: tool 2
ann › bye
demo › you said: bye
come back with: starter chat `+id+" --api "+w.url+"\n", rest)
	require.Equal(t, signals.Decide{
		ToolCallID: "call_1", Decision: event.DecisionApprove, Scope: event.ScopeOnce, By: "ann", Agent: "demo", ToolName: "shell_cmd",
	}, w.decisions["call_1"])
	require.Equal(t, event.DecisionDeny, w.decisions["call_2"].Decision)
	require.Empty(t, p.err.String())
}

func TestChatOnATerminal(t *testing.T) {
	w := newWorld(t)
	p := w.start(true, "chat", "--agent", "demo", "--title", "A talk", "--metadata", "team=red")
	p.shows("› ")
	p.types("hello\n")
	p.shows("demo › you said: hello\n› ")
	require.NotContains(t, p.out.String(), "ann › hello", "the terminal has echoed it")
	p.types("muse\n")
	p.shows("demo thinks › hm\n› ")
	p.types("tool 1\n")
	p.shows("allow? › ")
	p.types("\n")
	p.types("n\n")
	p.shows("denied by ann")
	p.shows("you said: tool 1\n› ")
	p.types("//slash\n")
	p.shows("you said: /slash\n› ")
	p.types("/nonsense\n")
	p.shows("/nonsense is not a command")
	p.types("/state\n")
	p.shows("thread t1 · idle · demo")
	p.types("/approvals\n")
	p.shows("nothing waits for an answer")
	p.interrupts <- os.Interrupt
	p.exits(exitOK)
	p.shows("come back with: starter chat ")
	require.Equal(t, []signals.Start{{Agents: []string{"demo"}, Title: "A talk", Metadata: []byte(`{"team":"red"}`)}}, w.opened)
}

func TestChatInterrupts(t *testing.T) {
	t.Run("once stops the turn", func(t *testing.T) {
		w := newWorld(t)
		p := w.start(true, "chat")
		p.types("wait\n")
		p.shows("demo › one ")
		p.interrupts <- os.Interrupt
		p.shows("· interrupted by ann\n› ")
		require.Equal(t, []signals.Control{{Action: signals.ControlInterrupt, By: "ann"}}, w.controls)
		p.types("hello\n")
		p.shows("you said: hello")
		p.types("/quit\n")
		p.exits(exitOK)
	})
	t.Run("by command, over a pipe", func(t *testing.T) {
		w := newWorld(t)
		p := w.start(false, "chat")
		p.types("wait\n")
		p.shows("demo › one ")
		p.types("/interrupt\n/quit\n")
		p.exits(exitOK)
		require.Contains(t, p.out.String(), "· interrupted by ann")
	})
	t.Run("twice leaves", func(t *testing.T) {
		w := newWorld(t)
		p := w.start(true, "chat")
		p.types("tool 1\n")
		p.shows("allow? › ")
		p.interrupts <- os.Interrupt
		p.interrupts <- os.Interrupt
		p.exits(exitOK)
		require.Contains(t, p.out.String(), "the turn continues without you; come back with: starter chat")
	})
}

func TestChatOutlivesItsServers(t *testing.T) {
	w := newWorld(t)
	p := w.start(false, "chat")
	p.types("wait\n")
	p.shows("demo › one ")
	w.change(func() { w.down = true })
	p.shows("\n" + lostText + "\n")
	// After two rejections, the stream counts as lost, and so does Temporal on the next request:
	// neither can be lost again after the other has returned.
	require.NoError(t, w.await(t.Context(), func() bool { return w.refused > 1 && w.turns > 1 }))
	w.change(func() { w.down = false })
	p.shows(backText)
	p.shows("two\n")
	require.NoError(t, p.in.Close())
	p.exits(exitOK)
	require.Equal(t, 1, strings.Count(p.out.String(), "one"))
	require.Equal(t, 1, strings.Count(p.out.String(), "two"))
	require.Equal(t, 1, strings.Count(p.out.String(), lostText))
}

func TestChatShowsWhatTheStreamOwes(t *testing.T) {
	w := newWorld(t)
	w.mute, w.settle = true, 50*time.Millisecond
	p := w.start(false, "chat")
	p.types("hello\n")
	p.shows("demo › you said: hello\n")
	p.types("fail again\n")
	p.shows("error: the model is again\n")
	w.change(func() { w.mute = false })
	p.types("once more\n")
	p.shows("demo › you said: once more\n")
	require.NoError(t, p.in.Close())
	p.exits(exitOK)
	require.Equal(t, 1, strings.Count(p.out.String(), "you said: hello"))
	require.Equal(t, 1, strings.Count(p.out.String(), "error: the model is again"))
}

func TestChatFailureAndRetry(t *testing.T) {
	w := newWorld(t)
	w.queue.Failed = []event.Item{{ID: "e1", Error: "the model is tired", Status: event.ItemFailed}}
	p := w.start(false, "chat")
	p.types("fail tired\n")
	p.shows("error: the model is tired\n/retry tries it again\n")
	p.types("/retry\n")
	p.shows("demo › it worked\n")
	require.NoError(t, p.in.Close())
	p.exits(exitFailed)
	require.Equal(t, 1, strings.Count(p.out.String(), "error: the model is tired"))
	require.Equal(t, []string{"retry e1 by ann"}, w.queueEdit)
}

func TestChatComesBack(t *testing.T) {
	w := newWorld(t)
	for i := range 12 {
		w.say(fmt.Sprintf("m%d", i), "ann", event.CreatedByUser, fmt.Sprintf("message %d", i))
	}
	w.chunk(event.AgentEvent{Type: event.EventStream, Agent: "demo", MessageID: "m99", Attempt: 1, Content: "in the middle"})
	w.state.Approvals = 1
	w.waiting = []event.ApprovalRequest{{ToolCallID: "call_7", ToolName: "shell_cmd", Arguments: `{}`, Agent: "demo"}}
	p := w.start(false, "chat", "t1")
	p.shows("shell_cmd {} wants to run. Allow?")
	p.shows("demo › in the middle")
	p.types("yes\n/quit\n")
	p.exits(exitOK)
	out := p.out.String()
	require.Contains(t, out, "… 2 earlier messages\nann › message 2\n")
	require.NotContains(t, out, "message 1\n")
	require.Equal(t, 1, strings.Count(out, "message 11"))
	require.Equal(t, event.DecisionApprove, w.decisions["call_7"].Decision)
}

func TestChatWithoutAThread(t *testing.T) {
	w := newWorld(t)
	p := w.start(false, "chat", "gone")
	p.exits(exitFailed)
	require.Contains(t, p.err.String(), `there is no thread "gone"`)
	p = w.start(false, "chat", "closed")
	p.exits(exitFailed)
	require.Contains(t, p.err.String(), `thread "closed" is closed`)
	p = w.start(false, "chat", "fresh", "--create")
	p.types("hi\n")
	require.NoError(t, p.in.Close())
	p.exits(exitOK)
	require.Contains(t, p.out.String(), "thread fresh")
	p = w.start(false, "chat", "t1", "--namespace", "team red", "--profile", "prod", "--as", "bob", "--thoughts", "hide", "--title", "new", "--agent", "demo")
	require.NoError(t, p.in.Close())
	p.exits(exitOK)
	p.shows("come back with: starter chat t1 --api " + w.url + " --as bob --namespace 'team red' --profile prod --thoughts hide\n")
}

func TestChatEndsWithItsThread(t *testing.T) {
	w := newWorld(t)
	p := w.start(true, "chat", "t1")
	p.shows("› ")
	w.record(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusClosed, By: "bob"}})
	p.exits(exitOK)
	require.Contains(t, p.out.String(), "thread closed by bob")
}
