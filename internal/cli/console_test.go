package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
)

// Keys as terminals send them.
const (
	ctrlC    = "\x03"
	ctrlD    = "\x04"
	up       = "\x1b[A"
	down     = "\x1b[B"
	altEnter = "\x1b\r"
)

func (p *program) presses(keys string) {
	p.t.Helper()
	_, err := p.in.Write([]byte(keys))
	require.NoError(p.t, err)
}

func TestInputIsUndisturbed(t *testing.T) {
	w := newWorld(t)
	p := w.start(true, "chat")
	p.types("wait\n")
	p.shows("demo › one\n⠋ working · Ctrl-C stops\n› ")
	p.types("half a")
	p.shows("\n› half a")
	w.chunk(event.AgentEvent{Type: event.EventThought, Agent: "other", MessageID: "o", Attempt: 1, Content: "thinking"})
	w.say("m1", "bob", event.CreatedByUser, "I look on\nwith you")
	p.shows("bob › I look on\nwith you")
	p.shows("\n› half a\n")
	p.types(" message\n")
	p.shows("queued: it is answered after this turn; /steer text is said into it")
	p.shows("› half a message\n")
	p.types("/steer hurry\n")
	require.Eventually(t, func() bool { return len(w.posted()) == 3 }, testenv.Patience, testenv.Tick)
	assert.Equal(t, event.OnBusySteer, w.posted()[2].OnBusy)
	p.presses("draft")
	p.shows("\n› draft\n")
	p.presses(ctrlC)
	require.Eventually(t, func() bool { return !strings.Contains(p.out.String(), "draft") }, testenv.Patience, testenv.Tick, "Ctrl-C clears the input first")
	assert.Empty(t, w.controlled())
	p.presses(ctrlC)
	p.shows("interrupted by ann")
	assert.Equal(t, 1, strings.Count(p.out.String(), "› half a message"), "what was typed is not repeated when it comes back")
	p.presses(ctrlD)
	p.exits(exitOK)
}

func TestInputHasLinesAndHistory(t *testing.T) {
	w := newWorld(t)
	w.say("m0", "ann", event.CreatedByUser, "an old one")
	p := w.start(true, "chat", "t1")
	p.presses("first" + altEnter + "second\r")
	p.shows("› first\n  second\ndemo › you said: first\nsecond\n› ")
	p.presses(up)
	p.shows("\n› first\n  second\n")
	p.presses(up + up)
	p.shows("\n› an old one\n")
	p.presses(up)
	p.presses(down + down + down)
	require.Eventually(t, func() bool { return strings.HasSuffix(p.out.String(), "\n›\nt1") }, testenv.Patience, testenv.Tick, "%s", p.out)
	p.presses("\x1b[200~pasted\nlines\x1b[201~")
	p.shows("\n› pasted\n  lines\n")
	p.presses("\r")
	p.shows("you said: pasted\nlines")
	p.presses(ctrlC)
	p.exits(exitOK)
}

func TestTabCompletes(t *testing.T) {
	w := newWorld(t)
	w.state.Agents = []string{"planner", "publisher", "reviewer"}
	p := w.start(true, "chat", "t1")
	p.shows("›\nt1") // it knows the agents
	p.presses("hello @re\t")
	p.shows("› hello @reviewer ")
	p.presses("and @p\t")
	p.shows("› hello @reviewer and @planner\n@planner  @publisher")
	p.presses("\t")
	p.shows("› hello @reviewer and @publisher\n")
	p.presses("\x1b[Z")
	p.shows("› hello @reviewer and @planner\n")
	p.presses(ctrlC + "/st\t")
	p.shows("› /steer\n/steer  /state")
	p.presses(ctrlC + ctrlC)
	p.exits(exitOK)
}

func TestTitlesAreVisible(t *testing.T) {
	w := newWorld(t)
	p := w.start(true, "chat", "t1")
	p.shows("›\nt1")
	w.record(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusUpdated, Title: "Ship it", Detail: "title"}})
	p.shows("· title set: Ship it\n›\nShip it · t1")
	p.presses(ctrlD)
	p.exits(exitOK)
}

func TestRefusedMessageLeavesNothingToWaitFor(t *testing.T) {
	w := newWorld(t)
	w.refuses = true
	p := w.start(true, "chat", "t1")
	p.types("hello\n")
	p.shows("› hello\nerror: post to thread \"t1\": refused: no\n›\nt1")
	p.presses(ctrlD)
	p.exits(exitOK)
}

func TestInterruptBeforeTheThreadAnswers(t *testing.T) {
	w := newWorld(t)
	p := w.start(true, "chat", "slow")
	p.presses(ctrlC)
	p.exits(exitFailed)
	require.Equal(t, "starter: stopped\n", p.err.String())
}

func TestMarkdownIsRendered(t *testing.T) {
	w := newWorld(t)
	p := w.start(true, "chat", "t1")
	w.reply("e1", "Some **bold** `code`\n\n- \x1b[2Jone\n- two &#27;[2J")
	p.shows("demo › Some bold code\n\n• \\u001b[2Jone\n• two \\u001b[2J\n› ")
	p.presses(ctrlD)
	p.exits(exitOK)
}
