// Package config reads the file in which people who write no Go declare their
// agents, the workflows of theirs that are hooks, and rules for environment events.
//
// [Load] returns what the file says as plain values: [agent.Agent] for each agent,
// [hook.Hook] for each hook workflow, and a description of each provider of models and
// of each built-in tool, from which the caller builds them. [Default] is the configuration without a file.
// [Source] follows a file, so that an edited prompt applies to the next model call.
//
// Nothing is guessed: a field that is not known, a name that nothing has, a value
// that is out of bounds, or a variable that is not set is an [*Error] with its place
// in the file, and all of them are reported together. [Explain] prints them with
// the lines in question.
//
// Keys never stand in the file, only the names of the variables that hold them.
// What is printed of a file, or of a [Config], shows no key.
package config
