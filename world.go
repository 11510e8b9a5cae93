package threadmill

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/world"
)

// World is the runtime's namespace as a world of agents: for programs that publish messages
// to chats and subscribe to what happens in them. See package world. What subscribers are
// told goes through Config.Callbacks, as for all viewers.
func (r *Runtime) World() *world.World { return r.world }

func (r *Runtime) newWorld() (*world.World, error) {
	namespace := r.client.Namespace()
	views := r.cfg.Callbacks.views(r.cfg.Logger)
	return world.New(world.Config{
		Client: r.client, Store: r.cfg.Store, Stream: r.cfg.Stream, Namespace: namespace, Registry: r.cfg.Registry, Logger: r.cfg.Logger,
		View: func(chatID string) func(context.Context, event.AgentEvent) event.AgentEvent {
			return views(store.Key{Namespace: namespace, ThreadID: chatID})
		},
	})
}
