// Package world is Threadmill as a world of agents: messages are published to chats, and
// handlers subscribe to what happens in them.
//
// It is a thin layer, for programs that were written for such a world. A world is a
// namespace of threads with its agents, a chat is a thread. What answers a message, what
// runs a call, and what is kept is the thread; this package posts to it, and tells of it.
//
//	w := runtime.World()
//	w.SubscribeToMessages(world.Sync(func(m world.Message) { fmt.Println(m.Sender, m.Content) }))
//	err := w.Start(ctx, world.Chat{ID: "c1", Agents: []string{"planner", "writer"}})
//	...
//	id, err := w.PublishMessage(ctx, "@writer, a poem", "ann", "c1")
//
// # Who says it
//
// A sender's role follows from what is known of the sender, never from its name: it is an
// agent if it is one of the chat's or of the registry's, without regard to case. "system"
// and "world" are reserved. Everybody else is a person, "user-support" too if no agent has
// that name.
//
// # What is kept
//
// [World.PublishMessage] and [World.PublishToolResult] change the thread, and are kept;
// subscribers are told of it when the thread has stored it, in whatever process it was
// published. The other publishers tell the subscribers of this process, and nobody else:
// nothing of it is stored, and no agent hears of it.
package world
