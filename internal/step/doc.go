// Package step is the contract between the workflows of a thread and its activities: the inputs of
// steps, their plans and results, the decisions of hooks, and the types of errors. Workflows and
// activities import it; neither imports the other.
//
// A step's input is named after the step ([Model], [Tool], [Plan], [Hook], …), and its result is the
// reply ([ModelReply], [ToolReply], …). Each is stored in histories as JSON, so fields are added and
// never renamed. Text in a history has a limit: see [Carry].
package step
