package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/threadmilltest"
)

// TestHandover has the conversation of the program: the turn limit hands over to bob, who helps.
func TestHandover(t *testing.T) {
	t.Parallel()
	rt := threadmilltest.New(t, configuration())
	rt.Open("t1", signals.Start{Agents: []string{"clerk", "depot"}, TurnLimit: turnLimit})
	for _, c := range cases {
		rt.Wait(rt.Say("t1", c.question))
		require.Contains(t, rt.Transcript("t1"), ": @human ")
		rt.Wait(rt.SayAs("t1", "bob", c.help))
	}
	rt.Golden("t1", "testdata/handover.txt")
}
