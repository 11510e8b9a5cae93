package threadmill

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/world"
)

// World presents the runtime's namespace as a world of agents: programs publish messages to chats
// and subscribe to their events. See package world. [Config].Callbacks apply to subscribers as to
// all viewers.
func (r *Runtime) World() *world.World { return r.world }

func (r *Runtime) newWorld() (*world.World, error) {
	namespace := r.client.Namespace()
	views := r.cfg.Callbacks.views(r.cfg.Logger)
	return world.New(world.Config{
		Client: r.client, Store: r.cfg.Store, Stream: r.cfg.Stream, Namespace: namespace, Agents: r.cfg.AgentSource, Logger: r.cfg.Logger,
		View: func(chatID string) func(context.Context, event.AgentEvent) event.AgentEvent {
			return views(store.Key{Namespace: namespace, ThreadID: chatID})
		},
	})
}
