// Package approval says which tool calls run, which wait for a person and which never run,
// and what an approval covers.
//
// A [Rule] looks at a call and its arguments. [Decide] asks all of them: one that denies
// always wins, one that cannot be evaluated makes the call ask, and of the others the
// first that matches decides. What people have decided is read from a thread's records,
// see [History]: there is no other state. All of it is pure.
//
// # What it guarantees
//
//   - What is denied never runs, whoever has approved it.
//   - What cannot be checked asks: an expression that fails, arguments that two readers
//     could read in two ways, a digest that cannot be made.
//   - A [Grant] covers what it was given for and no more. Session: the same tool, arguments,
//     paths and working directory, to the byte. Pattern: the same but for the arguments that
//     have globs, of which a wildcard covers a short list of harmless characters. Both: the
//     same agent, and a tool that still says the same of itself.
//   - An approval is of one round of asking about one call. What was decided in an earlier
//     round does not count in the next.
package approval
