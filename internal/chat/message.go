package chat

import (
	"cmp"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Message is a message of a person, or an answer.
type Message struct {
	ID, EventID string

	// Of a message of a person.
	Sender, Content string
	CreatedAt       time.Time

	// Answer means that it is an answer: a turn of agents, or what follows a message that joined a turn.
	Answer bool
	Parts  []Part

	// Ended tells how the turn ended; nil while it goes on. Left means that the turn goes on in another answer, since a
	// message has joined it.
	Ended *event.StatusChange
	Left  bool

	added, stored, revisions []int // when parts were added and stored, and changed last
	revision                 int
}

// AnswerID returns the id of the answer to a posted message.
func AnswerID(messageID string) string { return messageID + answerSuffix }

const answerSuffix = ".reply"

// Revision counts the changes of the message.
func (m *Message) Revision() int { return m.revision }

// Changed reports whether a part has changed since a revision.
func (m *Message) Changed(part, since int) bool { return m.revisions[part] > since }

// ChangedAt returns the revision in which a part changed last.
func (m *Message) ChangedAt(part int) int { return m.revisions[part] }

// Added returns the revision in which a part was added.
func (m *Message) Added(part int) int { return m.added[part] }

// Stored returns the revision in which a text was stored, or else that in which the part was added. Texts of two agents may begin in
// another order.
func (m *Message) Stored(part int) int { return cmp.Or(m.stored[part], m.added[part]) }

// Over reports whether nothing follows in the message.
func (m *Message) Over() bool { return m.Ended != nil || m.Left }

func (m *Message) add(p Part) place {
	m.Parts, m.stored, m.revisions = append(m.Parts, p), append(m.stored, 0), append(m.revisions, 0)
	at := place{m, len(m.Parts) - 1}
	at.touch()
	m.added = append(m.added, m.revision)
	return at
}

// place is the place of a part.
type place struct {
	message *Message
	index   int
}

// touch notes that the part has changed.
func (p place) touch() {
	p.message.revision++
	p.message.revisions[p.index] = p.message.revision
}

// store notes that the part is stored.
func (p place) store() {
	if at := &p.message.stored[p.index]; *at == 0 {
		*at = p.message.revision
	}
}
