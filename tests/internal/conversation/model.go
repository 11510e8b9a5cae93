package conversation

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// ThreadID is the placeholder for the thread's id in a transcript. The first line contains it, so
// that every model call identifies its thread.
const ThreadID = "conversation-0"

var threadID = regexp.MustCompile(`conversation-\d+`)

// in replaces the placeholder in a text by a thread's id.
func in(thread, text string) string { return strings.ReplaceAll(text, ThreadID, thread) }

// Model replies as in the transcript. It has no state: the next reply of an agent follows from the
// number of its messages in the model's input.
type Model struct {
	Transcript *Transcript

	// Said counts the messages of agents in a thread.
	Said func(ctx context.Context, thread string) (int, error)

	// Context ends when no reply is needed any more.
	Context context.Context
}

// Script is llmtest's: the reply to a request. A reply waits until the thread has all previous
// messages of agents, so that concurrent agents reply in the order of the transcript.
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

// await waits until the agents of a thread have sent a number of messages.
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

// scripted makes the model reply with a text: after a thought, because it would skip a mention at
// the beginning, and after the calls that it has already made.
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
