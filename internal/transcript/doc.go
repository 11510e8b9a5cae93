// Package transcript reads what was said in a thread from its records: the messages with the decisions of hooks on them, for people and for
// models, and the content of its events.
package transcript
