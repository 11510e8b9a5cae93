// Package world presents threads as a world of agents: programs publish messages to chats, and
// handlers subscribe to their events.
//
// A world is a namespace of threads with its agents, and a chat is a thread. The package is a thin
// layer for programs that were written for such a world: threads route messages, run calls and
// store everything.
//
//	w := runtime.World()
//	w.SubscribeToMessages(world.Sync(func(m world.Message) { fmt.Println(m.Sender, m.Content) }))
//	err := w.Start(ctx, world.Chat{ID: "c1", Agents: []string{"planner", "writer"}})
//	...
//	id, err := w.PublishMessage(ctx, "@writer, a poem", "ann", "c1")
//
// # Senders
//
// The role of a sender does not depend on the form of its name. A sender is an agent if the chat or
// the agent source has an agent of that name, ignoring case. "system" and "world" are reserved. Any
// other sender is a person, also "user-support" if no agent has that name.
//
// # Durability
//
// [World.Publish], [World.PublishMessage] and [World.PublishToolResult] change the thread, and the
// store keeps their messages. Subscribers in all processes receive them once they are stored. The
// other publishers reach only the subscribers of this process: their events are not stored, and no
// agent sees them.
package world
