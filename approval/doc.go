// Package approval decides which tool calls run, which need approval and which never run, and which
// calls an approval covers.
//
// A [Rule] matches calls by tool, agent and arguments. [Decide] evaluates all rules: one that
// denies always wins, one that cannot be evaluated requires approval, and otherwise the first that
// matches decides. The decisions of people are read from a thread's records: see [History]. There
// is no other state, and all functions are pure.
//
// # Guarantees
//
//   - A denied call never runs, even if it was approved.
//   - A call that cannot be checked needs approval: an expression that fails, ambiguous arguments, a
//     digest that cannot be computed.
//   - A [Grant] covers nothing beyond its scope. Session: the same tool, arguments, paths and working
//     directory, byte for byte. Pattern: the same except for the arguments with globs, whose wildcards
//     match a short list of harmless characters. Both: the same agent, and an unchanged tool
//     definition.
//   - An approval belongs to one round of requests for one call. A decision in an earlier round does
//     not count in the next.
package approval
