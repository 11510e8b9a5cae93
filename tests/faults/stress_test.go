package faults

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// The seed makes the times of the kills the same in each run; what they hit is not.
const (
	stormSeed     = 51
	stormKills    = 10
	stormThreads  = 6
	stormMessages = 6
	stormLongest  = 3 * time.Second // of a life, from readiness on
	stormStart    = time.Second     // of a life that ends while the process starts
	stormOver     = 5 * time.Minute // until every turn has ended
)

func stormConfig(provider string) string {
	return `version: 1
models:
  openai: {type: openai, apiKeyEnv: OPENAI_API_KEY, baseURL: "` + provider + `"}
agents:
  - name: assistant
    model: openai/stand-in
    tools: [shell_cmd, current_time]
    approvals: {shell_cmd: never}
tools:
  shell_cmd: {root: ./data/workspace}
`
}

// storm kills the process again and again, while clients post and viewers watch.
func (f faults) storm(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	s := f.stage(t, stormConfig)
	s.Start()
	threads, viewers := []string{}, map[string]*proc.Viewer{}
	for i := range stormThreads {
		id := fmt.Sprintf("storm-%d", i)
		s.Open(id, said(id, 0))
		threads, viewers[id] = append(threads, id), s.Watch(t, id, nil)
	}
	var posting sync.WaitGroup
	for _, id := range threads {
		posting.Go(func() { s.postAll(id) })
	}
	random := rand.New(rand.NewPCG(stormSeed, 0))
	for i := range stormKills {
		longest := stormStart
		if i%3 != 2 { // some kills come during the start, but not all
			s.AwaitReady()
			longest = stormLongest
		}
		s.pause(time.Duration(random.Int64N(int64(longest))))
		s.Kill()
		s.Launch()
	}
	s.AwaitReady()
	posting.Wait()
	for _, id := range threads {
		require.Eventually(t, func() bool { return check.CountEvents(s.Events(id), event.EventFinal) >= stormMessages }, stormOver, 10*testenv.Tick, id)
		s.requireSeen(id, viewers[id])
	}
	require.Zero(t, s.Terminate())
	db, hits := s.open(), 0
	for _, id := range threads {
		requireWhole(t, db, id)
		hits += s.requireConversation(db, id) + s.requireModelCalls(id)
	}
	t.Logf("%d steps were hit", hits)
	require.Positive(t, hits, "the storm must hit something")
}

// pause waits for a while.
func (s stage) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// said is a message of a client: a quick tool, one that is not idempotent, or plain text; all
// messages are different.
func said(thread string, i int) string {
	name := fmt.Sprintf("%s.%d", thread, i)
	switch i % 3 {
	case 0:
		return fmt.Sprintf(`use shell_cmd {"command":"echo %s >> storm; sleep 0.3; echo done"}`, name)
	case 1:
		return name + "\ncount 20 every 50ms"
	}
	return "use current_time {}\nthen\n" + name
}

// postAll posts a thread's messages except the first, each until it is accepted, and then once
// more, like a client that has lost the response.
func (s stage) postAll(thread string) {
	for i := 1; i < stormMessages; i++ {
		body := map[string]any{"id": fmt.Sprintf("%s-%d", thread, i), "content": said(thread, i)}
		for range 2 {
			assert.Eventually(s.t, func() bool {
				return s.Try(s.t.Context(), http.MethodPost, "/v1/threads/"+thread+"/messages", body, nil) == http.StatusAccepted
			}, stormOver, testenv.Tick)
		}
	}
}

// requireConversation checks that every message was answered once, in order, and that no command
// ran twice. It returns the number of commands that a kill hit.
func (s stage) requireConversation(db store.Store, thread string) (hits int) {
	records, err := db.Records(s.t.Context(), key(thread), store.Query{Types: []string{event.TypeMessage}})
	require.NoError(s.t, err)
	var turns [][]event.Message
	for _, r := range records {
		m := check.Decode[event.Message](s.t, r.Payload)
		if m.SenderType == event.CreatedByUser {
			turns = append(turns, nil)
		}
		turns[len(turns)-1] = append(turns[len(turns)-1], m)
	}
	require.Len(s.t, turns, stormMessages)
	for i, turn := range turns {
		require.Equal(s.t, said(thread, i), turn[0].Content)
		name := fmt.Sprintf("%s.%d", thread, i)
		last := turn[len(turn)-1]
		switch i % 3 {
		case 0:
			require.Len(s.t, turn, 4)
			ran := 0
			for _, line := range s.lines("storm") {
				if line == name {
					ran++
				}
			}
			require.LessOrEqual(s.t, ran, 1, "command %s ran again", name)
			if strings.Contains(turn[2].Content, "outcome is unknown") {
				hits++
				continue
			}
			require.Equal(s.t, 1, ran)
			require.Contains(s.t, turn[2].Content, "done")
		case 1:
			require.Len(s.t, turn, 2)
			require.True(s.t, strings.HasPrefix(last.Content, name) && strings.HasSuffix(last.Content, " 19 20"), last.Content)
		default:
			require.Len(s.t, turn, 4)
			require.Contains(s.t, last.Content, "current_time returned")
			require.Contains(s.t, last.Content, name)
		}
	}
	return hits
}

// requireModelCalls checks the provider's requests: none for a stored reply, and none with anything
// twice. It returns the number of calls that a kill hit.
func (s stage) requireModelCalls(thread string) (hits int) {
	shortest, requests, steps := 0, 0, map[int]string{}
	for _, r := range s.provider.Requests() {
		q := r.Conversation
		require.Equal(s.t, event.RoleSystem, q.Messages[0].Role, "the rules for tools")
		if !strings.Contains(q.Messages[1].Content, thread+".0 ") {
			continue
		}
		requests++
		n := len(q.Messages)
		require.GreaterOrEqual(s.t, n, shortest, "a reply that is stored was asked for again")
		shortest = n
		if before, ok := steps[n]; ok {
			require.Equal(s.t, before, string(r.Body), "another attempt is shown the same")
		}
		steps[n] = string(r.Body)
		check.RequireAnswered(s.t, q.Messages)
		users := []string{}
		for _, m := range q.Messages {
			if m.Role == event.RoleUser {
				users = append(users, m.Content)
			}
		}
		slices.Sort(users)
		require.Len(s.t, slices.Compact(users), len(users), "a message is shown twice")
	}
	replies := stormMessages + stormMessages*2/3
	require.Len(s.t, steps, replies)
	require.LessOrEqual(s.t, requests, replies+stormKills, "more calls than kills explain")
	return requests - replies
}
