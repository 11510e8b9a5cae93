package conversation

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// ThreadID is what a transcript calls the thread. Its first line names it, so that all that
// a model is shown says which thread it is about.
const ThreadID = "conversation-0"

var threadID = regexp.MustCompile(`conversation-\d+`)

// in puts the id of a thread into a text.
func in(thread, text string) string { return strings.ReplaceAll(text, ThreadID, thread) }

// Model answers as the transcript says. It remembers nothing: what an agent says next
// follows from how often it has spoken in what it is shown.
type Model struct {
	Transcript *Transcript

	// Said counts the messages of agents that a thread has.
	Said func(ctx context.Context, thread string) (int, error)

	// Context ends when nobody waits for an answer any more.
	Context context.Context
}

// Script is llmtest's: what the model says to a request. An answer waits until the thread
// has all that agents say before it, so that agents that answer at the same time do so in
// the order of the transcript.
func (m *Model) Script(req llm.Request) string {
	thread := threadOf(req.Messages)
	turn, spoken := 0, 0
	for _, msg := range req.Messages {
		if msg.Role == event.RoleAssistant {
			turn++
		}
	}
	for _, l := range m.Transcript.Lines {
		switch {
		case l.Who == Namer && req.Model == Namer:
			return in(thread, l.Says)
		case l.Who == req.Model && turn == 0:
			m.await(thread, spoken)
			return scripted(req.Messages, in(thread, l.Says))
		case l.Who == req.Model:
			turn--
		}
		if m.Transcript.isAgent(l.Who) {
			spoken++
		}
	}
	return scripted(req.Messages, "The transcript does not say that I am asked again.")
}

// await waits until the agents of a thread have said so much.
func (m *Model) await(thread string, spoken int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if n, err := m.Said(m.Context, thread); err == nil && n >= spoken {
			return
		}
		select {
		case <-tick.C:
		case <-m.Context.Done():
			return
		}
	}
}

func threadOf(messages []llm.Message) string {
	for _, msg := range messages {
		if id := threadID.FindString(msg.Content); id != "" {
			return id
		}
	}
	return ""
}

// scripted makes the stand-in say a text: behind a thought, or it would skip the mention
// that the text begins with, and as what follows the calls that it has made already.
func scripted(messages []llm.Message, text string) string {
	rounds := 0
	for _, msg := range messages {
		switch {
		case msg.Role == event.RoleUser:
			rounds = 0
		case len(msg.ToolCalls) > 0:
			rounds++
		}
	}
	return strings.Repeat("use nothing\nthen\n", rounds) + "think so\n" + text
}
