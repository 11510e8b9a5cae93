package turn_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat/chattest"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/turn"
)

const id = "c"

func request(round int) event.AgentEvent { return chattest.Request(id, round) }

func approve(round int) event.AgentEvent {
	return chattest.Decision(id, event.DecisionApprove, round)
}

func decide(d event.Decision) event.AgentEvent { return chattest.Decision(id, d, 0) }

// vote is an approval of one of three.
func vote(by string, round int) event.AgentEvent {
	e := approve(round)
	e.Approval.By, e.Approval.Missing = by, 1
	return e
}

func reminder(votes ...event.Vote) event.AgentEvent {
	e := request(0)
	e.Request.Reminder, e.Request.Votes = 1, votes
	return e
}

func failure() event.AgentEvent {
	e := chattest.Result(id, "broken")
	e.IsError = true
	return e
}

func read(events ...event.AgentEvent) *turn.Calls {
	var cs turn.Calls
	for _, e := range events {
		e.EventID = chattest.Event
		cs.Apply(e)
	}
	return &cs
}

// TestStates: what has become of a call, of the turn's own agents or of a sub-agent.
func TestStates(t *testing.T) {
	call := chattest.Call("r", id, "f")
	for name, test := range map[string]struct {
		events []event.AgentEvent
		want   turn.State
		waits  bool
	}{
		"it runs":                    {[]event.AgentEvent{call}, turn.Running, false},
		"a request":                  {[]event.AgentEvent{call, request(0)}, turn.WaitsForApproval, true},
		"a reminder":                 {[]event.AgentEvent{call, request(0), reminder()}, turn.WaitsForApproval, true},
		"one of the votes":           {[]event.AgentEvent{call, request(0), vote("ann", 0)}, turn.WaitsForApproval, true},
		"all votes":                  {[]event.AgentEvent{call, request(0), vote("ann", 0), approve(0)}, turn.Running, false},
		"covered by a grant":         {[]event.AgentEvent{call, approve(0)}, turn.Running, false},
		"denied by a policy":         {[]event.AgentEvent{call, decide(event.DecisionDeny)}, turn.Denied, false},
		"denied, which has a result": {[]event.AgentEvent{call, request(0), decide(event.DecisionDeny), failure()}, turn.Denied, false},
		"expired":                    {[]event.AgentEvent{call, request(0), decide(event.DecisionExpired), failure()}, turn.Expired, false},
		"the second round":           {[]event.AgentEvent{call, request(0), approve(0), request(2)}, turn.WaitsForApproval, true},
		"the second round, approved": {[]event.AgentEvent{call, request(0), approve(0), request(2), approve(2)}, turn.Running, false},
		"a vote of the first round in the second":     {[]event.AgentEvent{call, request(2), vote("ann", 0)}, turn.WaitsForApproval, true},
		"a decision of the first round in the next":   {[]event.AgentEvent{call, request(2), decide(event.DecisionDeny)}, turn.WaitsForApproval, true},
		"a grant instead of the second round":         {[]event.AgentEvent{call, request(0), approve(0), approve(2)}, turn.Running, false},
		"the first round is read again":               {[]event.AgentEvent{call, request(0), approve(0), request(2), request(0), approve(0)}, turn.WaitsForApproval, true},
		"the second round is decided, and read again": {[]event.AgentEvent{call, request(0), approve(0), request(2), approve(2), request(0), approve(0)}, turn.Running, false},
		"revoked, before it runs":                     {[]event.AgentEvent{call, request(0), approve(0), decide(event.DecisionRevoked)}, turn.Running, false},
		"revoked, while another round waits":          {[]event.AgentEvent{call, request(0), approve(0), request(2), decide(event.DecisionRevoked)}, turn.WaitsForApproval, true},
		"cancelled without a decision":                {[]event.AgentEvent{call, request(0), failure()}, turn.Failed, false},
		"for a client":                                {[]event.AgentEvent{call, chattest.ForClient(id)}, turn.WaitsForClient, true},
		"for a client, once approved":                 {[]event.AgentEvent{call, request(0), approve(0), chattest.ForClient(id)}, turn.WaitsForClient, true},
		"for a client, of a late reader":              {[]event.AgentEvent{request(0), approve(0), chattest.ForClient(id)}, turn.WaitsForClient, true},
		"answered by the client":                      {[]event.AgentEvent{call, chattest.ForClient(id), chattest.Result(id, "x")}, turn.Done, false},
		"a question":                                  {[]event.AgentEvent{call, chattest.Question(id, 1)}, turn.WaitsForInput, true},
		"a question, once approved":                   {[]event.AgentEvent{call, request(0), approve(0), chattest.Question(id, 1)}, turn.WaitsForInput, true},
		"an answer":                                   {[]event.AgentEvent{call, chattest.Question(id, 1), chattest.Answer(id, 1)}, turn.Running, false},
		"an answer of the round before":               {[]event.AgentEvent{call, chattest.Question(id, 2), chattest.Answer(id, 1)}, turn.WaitsForInput, true},
		"a question is read again":                    {[]event.AgentEvent{call, chattest.Question(id, 1), chattest.Answer(id, 1), chattest.Question(id, 1)}, turn.Running, false},
		"a question, then a request":                  {[]event.AgentEvent{call, chattest.Question(id, 1), request(0)}, turn.WaitsForApproval, true},
		"a question, and the result":                  {[]event.AgentEvent{call, chattest.Question(id, 1), chattest.Result(id, "x")}, turn.Done, false},
		"a question, after the result":                {[]event.AgentEvent{call, chattest.Result(id, "x"), chattest.Question(id, 1)}, turn.Done, false},
		"the turn ends":                               {[]event.AgentEvent{call, request(0), chattest.Ended("interrupted", "")}, turn.Interrupted, false},
		"the turn ends, with a question":              {[]event.AgentEvent{call, chattest.Question(id, 1), chattest.Ended("interrupted", "")}, turn.Interrupted, false},
		"the turn ends after the result":              {[]event.AgentEvent{call, chattest.Result(id, "x"), chattest.Ended("completed", "")}, turn.Done, false},
		"of a sub-agent: a request":                   {[]event.AgentEvent{request(0)}, turn.WaitsForApproval, true},
		"of a sub-agent: approved":                    {[]event.AgentEvent{request(0), approve(0)}, turn.Done, false},
		"of a sub-agent: withdrawn":                   {[]event.AgentEvent{request(0), decide(event.DecisionWithdrawn)}, turn.Done, false},
		"of a sub-agent: a question":                  {[]event.AgentEvent{chattest.Question(id, 1)}, turn.Done, true},
		"of a sub-agent: the question is withdrawn":   {[]event.AgentEvent{chattest.Question(id, 1), chattest.Withdrawal(id, 1)}, turn.Done, false},
		"of a sub-agent: the turn ends":               {[]event.AgentEvent{request(0), chattest.Ended("completed", "")}, turn.WaitsForApproval, true},
	} {
		t.Run(name, func(t *testing.T) {
			cs := read(test.events...)
			c := cs.Find(id)
			assert.Equal(t, test.want, c.State())
			assert.Equal(t, test.waits, c.Waits())
			assert.Len(t, cs.Waiting(), map[bool]int{true: 1}[test.waits])
		})
	}
}

// TestVotes: each person has one vote in a round, and a reminder has those that a late reader missed.
func TestVotes(t *testing.T) {
	for name, test := range map[string]struct {
		events []event.AgentEvent
		want   []string
	}{
		"none":                            {[]event.AgentEvent{request(0)}, nil},
		"two people":                      {[]event.AgentEvent{request(0), vote("ann", 0), vote("bob", 1)}, []string{"ann", "bob"}},
		"one person twice":                {[]event.AgentEvent{request(0), vote("ann", 0), vote(" Ann", 0)}, []string{"ann"}},
		"of the round before":             {[]event.AgentEvent{request(0), vote("ann", 0), request(2), vote("bob", 0)}, nil},
		"a reminder":                      {[]event.AgentEvent{request(0), vote("ann", 0), reminder(event.Vote{By: "ann"})}, []string{"ann"}},
		"a reminder, to a late reader":    {[]event.AgentEvent{reminder(event.Vote{By: "ann"}), vote("bob", 0)}, []string{"ann", "bob"}},
		"a reminder, to an early one":     {[]event.AgentEvent{request(0), vote("ann", 0), vote("bob", 0), reminder(event.Vote{By: "ann"})}, []string{"ann", "bob"}},
		"a request without a known voter": {[]event.AgentEvent{vote("ann", 0), request(0)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var by []string
			for _, v := range read(test.events...).Find(id).Votes {
				by = append(by, v.By)
			}
			assert.Equal(t, test.want, by)
		})
	}
}

func TestRounds(t *testing.T) {
	c := read(request(0), approve(0), request(2), vote("ann", 2), decide(event.DecisionRevoked)).Find(id)
	assert.Equal(t, event.DecisionApprove, c.DecidedIn(1).Decision)
	assert.Nil(t, c.DecidedIn(2), "a vote decides nothing")
	assert.Nil(t, c.Decided())
	assert.Equal(t, 1, c.Decision.Missing)
}

func TestWaitingInOrder(t *testing.T) {
	cs := read(chattest.Request("a", 0), chattest.Request("b", 0), chattest.Question("d", 1), chattest.Decision("a", event.DecisionApprove, 0),
		chattest.Request("a", 2), chattest.Request("b", 0), chattest.Request("e", 0), chattest.Decision("e", event.DecisionDeny, 0))
	var ids []string
	for _, c := range cs.Waiting() {
		ids = append(ids, c.ID)
	}
	assert.Equal(t, []string{"b", "d", "a"}, ids)
}

// TestPage: the page's time line says of the same events that the same calls wait for a person.
func TestPage(t *testing.T) {
	type turnOf struct {
		Events []event.AgentEvent `json:"events"`
		Want   [][]string         `json:"want"` // after each event
	}
	var turns []turnOf
	for seed := range uint64(200) {
		author := chattest.NewAuthor(rand.New(rand.NewPCG(seed, 1)))
		var cs turn.Calls
		var one turnOf
		for len(one.Events) < 60 {
			for _, e := range author.Next() {
				e.EventID = chattest.Event
				cs.Apply(e)
				asks := []string{}
				for _, c := range cs.Waiting() {
					if c.Client == nil {
						asks = append(asks, c.ID)
					}
				}
				slices.Sort(asks)
				one.Events, one.Want = append(one.Events, e), append(one.Want, asks)
			}
		}
		turns = append(turns, one)
	}
	raw, err := json.Marshal(turns)
	require.NoError(t, err)
	cmd := testenv.Node(t, "turns.mjs")
	cmd.Stdin = bytes.NewReader(raw)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
