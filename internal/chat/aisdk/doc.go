// Package aisdk encodes the answers of a chat in the protocol of the AI SDK: as chunks of a UI message stream, and as whole
// messages.
//
// An answer is one assistant message. The replies of its agents are steps, each behind a data-agent part with the
// agent's name.
package aisdk
