// Package config reads the configuration file, in which people who do not write Go declare their
// agents, models, hook workflows and rules for environment events.
//
// [Load] returns the content of the file as plain values: an [agent.Agent] for each agent, a
// [hook.Hook] for each hook workflow, and descriptions of the model providers and built-in tools,
// which the caller constructs. [Default] is the configuration without a file. [Source] follows a
// file, so that an edited prompt applies to the next model call.
//
// The file is strict: each unknown field or name, value outside its limits and unset variable is an
// [*Error] with its position in the file, and all errors are reported together. [Explain] formats
// them with the lines of the file.
//
// The file contains no keys, only the names of environment variables with keys. Errors and printed
// values of a [Config] do not show keys.
package config
