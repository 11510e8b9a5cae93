// Package uistream shows the turns of a thread as messages of the AI SDK: as a stream of chunks, the
// UI message stream of version 6, or as whole messages.
//
// A turn, or what follows a message that joined it, is one assistant message. The replies of its
// agents are steps, each behind a data-agent part with the agent's name. All decisions are pure: the
// chunks follow from the agent events alone, so a stream that begins again begins with the same.
package uistream
