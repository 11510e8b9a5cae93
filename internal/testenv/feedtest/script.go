package feedtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// Run runs a script while watch reads.
func (w *Thread) Run(s Script, watch func()) {
	done := make(chan struct{})
	go func() {
		defer close(done) // even if the reader fails
		watch()
	}()
	for _, step := range s {
		step(w)
	}
	<-done
}

// Script is the sequence of steps in which a run of several agents changes the store and the log.
type Script []func(w *Thread)

// Runs interleaves the scripts of agents at random.
func Runs(rng *rand.Rand, agents int) Script {
	parts := make([]Script, agents)
	for i := range parts {
		parts[i] = agentRun(rng, fmt.Sprintf("a%d", i))
	}
	out := Script{func(w *Thread) { w.StoreAll(Said("hello")) }}
	for len(parts) > 0 {
		i := rng.IntN(len(parts))
		out = append(out, parts[i][0])
		if parts[i] = parts[i][1:]; len(parts[i]) == 0 {
			parts = append(parts[:i], parts[i+1:]...)
		}
	}
	return append(out, func(w *Thread) { w.StoreAll(Closed()) })
}

// agentRun is one agent's run: a reply with tool calls, their execution, another reply.
func agentRun(rng *rand.Rand, agent string) Script {
	known := int64(1)
	var s Script
	say := func(e func(after int64) stream.Entry) {
		s = append(s, func(w *Thread) { w.Publish(e(known)) })
	}
	put := func(records func() []event.Record) {
		var stored store.Appended
		s = append(s,
			func(w *Thread) { stored = w.append(records()) },
			func(w *Thread) { w.announce(stored); known = stored.Head })
	}
	reply := func(id string) string {
		attempts, text := 1+rng.IntN(2), ""
		for attempt := 1; attempt <= attempts; attempt++ {
			text = ""
			if attempt > 1 {
				say(func(after int64) stream.Entry { return Reset(after, id, attempt) })
			}
			for i := range 1 + rng.IntN(5) {
				token := fmt.Sprintf("%s/%d.%d ", id, attempt, i)
				text += token
				say(func(after int64) stream.Entry { return Piece(after, id, attempt, token) })
				if attempt > 1 && rng.IntN(3) == 0 {
					say(func(after int64) stream.Entry { return Piece(after, id, attempt-1, "stale") })
				}
			}
		}
		return text
	}
	first := reply(agent + "-m1")
	var ids []string
	for i := range 1 + rng.IntN(3) {
		ids = append(ids, fmt.Sprintf("%s-c%d", agent, i))
	}
	put(func() []event.Record { return []event.Record{LLMCall(), Message(agent+"-m1", first), Calls(ids...)} })
	for _, id := range ids {
		for i := range rng.IntN(3) {
			say(func(after int64) stream.Entry { return Progress(after, id, fmt.Sprint(i)) })
		}
		put(func() []event.Record { return []event.Record{Result(id, "done")} })
	}
	second := reply(agent + "-m2")
	put(func() []event.Record {
		return []event.Record{LLMCall(), Message(agent+"-m2", second), Record(event.TypeFinal, event.Final{Agent: agent, MessageID: agent + "-m2"})}
	})
	return s
}

// NewRand returns a deterministic source of randomness.
func NewRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// Intercepted is a turn whose reply, calls and result are changed by hooks after they were stored,
// and a held reply.
func Intercepted() Script {
	redacted := Result("c1", "[redacted]")
	var asResult event.Message
	if err := json.Unmarshal(redacted.Payload, &asResult); err != nil {
		panic(err)
	}
	edited := func(d *event.Interception) {
		d.Agent = "bot"
		d.ToolCalls = []event.ToolCall{
			{ID: "c1", Function: event.Function{Name: "shell_cmd", Arguments: `{"dry":true}`}}, {ID: "c2", Function: event.Function{Name: "shell_cmd", Arguments: `{}`}},
		}
	}
	put := func(records ...event.Record) func(*Thread) { return func(w *Thread) { w.StoreAll(records...) } }
	say := func(after int64, id, text string) func(*Thread) {
		return func(w *Thread) { w.Piece(after, id, 1, text) }
	}
	return Script{
		put(Said("go")),
		put(Decided("message", event.OutcomePassed, Did("audit", "passed"))),
		say(2, "m1", "a sec"), say(2, "m1", "ret"),
		put(LLMCall(), Message("m1", "a secret"), Calls("c1", "c2")),
		put(Decided("message", event.OutcomeReplaced, Did("guard", "replaced"), With(Reply("m1", "redacted")))),
		say(6, "m1", "late"),
		put(Decided("tool_call", event.OutcomeReplaced, Did("dry", "replaced"), edited)),
		func(w *Thread) { w.Publish(Progress(7, "c1", "half")) },
		put(Result("c1", "a secret")),
		put(Decided("message", event.OutcomeReplaced, Did("guard", "replaced"), With(asResult))),
		func(w *Thread) { w.Publish(Progress(9, "c1", "late")) },
		put(Result("c2", "out")),
		put(Held("m2", "held back")),
		put(Decided("message", event.OutcomeResponded, Did("guard", "responded"))),
		put(Held("m3", "not let out yet")),
		put(Decided("message", event.OutcomePassed, Did("guard", "passed"), With(Reply("m3", "let out"))), Record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m3"})),
		put(Closed()),
	}
}
