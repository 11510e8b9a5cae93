// Package chat shows a thread as a chat: messages of people, and answers of agents that are lists of parts.
//
// A [Chat] is the state that the thread's agent events have led to. What frontends get is encoded from that state,
// by a package for each protocol: a stream tells a client how the state differs from what it has, and a snapshot is
// what a client has that had nothing. A stream that begins late therefore shows what has become of everything, and
// not how it came about.
package chat
