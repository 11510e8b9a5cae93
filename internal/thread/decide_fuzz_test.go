package thread

import (
	"encoding/json"
	"testing"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// FuzzDecision lets anything be said about a call that waits: it runs only by an approval
// of that very call, which is the stored one.
func FuzzDecision(f *testing.F) {
	for _, seed := range []string{
		`{"toolCallId":"c1","decision":"approve","by":"ann"}`,
		`{"toolCallId":"c1","decision":"deny","by":"ann","reason":"no"}`,
		`{"toolCallId":"c1","decision":"approve","by":"assistant"}`,
		`{"toolCallId":"c1","decision":"approve","by":"ann","scope":"session","toolArgs":{"command":"ls"}}`,
		`{"toolCallId":"c1","decision":"approve","by":"ann","args":{"command":"ls"}}`,
		`{"toolCallId":"c1","decision":"approve","by":"ann","scope":"pattern","pattern":{"command":"*"}}`,
		`{"toolCallId":"c1","decision":"approve","by":"ann","round":2,"digest":"sha256:0"}`,
		`{"toolCallId":"c2","decision":"approve","by":"ann"}`, `[]`, `null`, `{"toolCallId":1}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		var d signals.Decide
		if json.Unmarshal([]byte(payload), &d) != nil || d.Validate() != nil {
			return
		}
		s := newState()
		r := begin(t, s, "e1", "go").Runs[0]
		takeStep(t, s, r, "", asks("c1"))
		c := r.Calls[0]
		s.ReadDecision(d).Take(t0)
		switch {
		case c.Stage == CallReady:
			if d.ToolCallID != "c1" || d.Decision != event.DecisionApprove || d.By == r.Agent || d.Checked() != "" || d.Round > 1 || c.DecisionID == "" {
				t.Fatalf("%s lets the call run", payload)
			}
		case c.Stage == CallSettled && (d.ToolCallID != "c1" || d.Decision != event.DecisionDeny):
			t.Fatalf("%s settles the call", payload)
		}
		if c.Plan.ID != "c1" || c.Requested.Arguments != `{"command":"rm"}` {
			t.Fatalf("%s changes the call", payload)
		}
		if again := s.decideUnchecked(t0, d); again == signals.DecideAccepted && c.Stage != CallWaiting && len(s.Decisions.ToCheck) == 0 && d.ToolCallID == "c1" && c.Requested.Quorum <= 1 {
			t.Fatalf("%s is accepted twice", payload)
		}
	})
}
