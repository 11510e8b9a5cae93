package thread

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// maxEndedTurns is the number of turns that the Web UI lists.
const maxEndedTurns = 8

// EndedTurn is what the Web UI says of a turn that has ended.
type EndedTurn struct {
	At     time.Time          `json:"at"` // when it began
	By     string             `json:"by,omitempty"`
	Type   string             `json:"type"`
	Agents []string           `json:"agents,omitempty"`
	Took   int64              `json:"took"` // milliseconds
	Tokens int                `json:"tokens,omitempty"`
	Status signals.TurnStatus `json:"status"`

	row string // its row of the table, once that was shown
}

func (e *EndedTurn) asRow() string {
	took := time.Duration(e.Took) * time.Millisecond
	if took > time.Minute {
		took = took.Round(time.Second)
	}
	return fmt.Sprintf("\n| %s | %s | %s | %s | %d | %s |", e.At.UTC().Format("15:04:05Z"), cell(cmp.Or(e.By, e.Type)), cell(strings.Join(e.Agents, ", ")), took, e.Tokens, e.Status)
}

// noteEnd notes the end of a turn for people who look at the thread's workflow.
func (t *Turn) noteEnd(now time.Time, status signals.TurnStatus) {
	s := t.thread
	e := EndedTurn{At: t.StartedAt, By: t.User, Type: t.Item.Type, Took: now.Sub(t.StartedAt).Milliseconds(), Tokens: tokens(s.Usage) - t.Before, Status: status}
	if len(t.Runs) > 0 {
		e.Agents = make([]string, 0, len(t.Runs))
	}
	for _, r := range t.Runs {
		e.Agents = append(e.Agents, cmp.Or(r.Agent, s.Roster.Default, "default agent"))
	}
	s.Ended, s.endedTable = keepLast(append(s.Ended, e), maxEndedTurns), ""
}

func tokens(u event.Usage) int { return u.InputTokens + u.OutputTokens }

// tableOfEnded returns a table of the last turns, the newest first.
func (s *State) tableOfEnded() string {
	if len(s.Ended) == 0 || s.endedTable != "" {
		return s.endedTable
	}
	var b strings.Builder
	b.Grow(128 * len(s.Ended))
	b.WriteString("\n\n| turn | of | agents | took | tokens | result |\n|---|---|---|---|---|---|")
	for i := len(s.Ended) - 1; i >= 0; i-- {
		if e := &s.Ended[i]; e.row == "" {
			e.row = e.asRow()
		}
		b.WriteString(s.Ended[i].row)
	}
	s.endedTable = b.String()
	return s.endedTable
}

// cell returns a text that does not end the cell of a table.
func cell(text string) string { return cells.Replace(text) }

var cells = strings.NewReplacer("|", "\\|", "\n", " ", "\r", " ")
