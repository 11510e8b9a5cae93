// Package consumer is a program of somebody else, who imports a release.
package consumer

import (
	"testing"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/threadmilltest"
)

func TestRelease(t *testing.T) {
	rt := threadmilltest.New(t, threadmilltest.Scripted(threadmill.Config{
		Agents: []agent.Agent{{Name: "assistant", Model: "offline/model"}},
	}, scripted.New(scripted.Say("Hello."))))
	if text := rt.Wait(rt.Say("t1", "Hi")).Message.Content; text != "Hello." {
		t.Fatalf("the agent says %q", text)
	}
}
