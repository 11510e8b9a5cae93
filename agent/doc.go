// Package agent declares the agents of an application: each has instructions, a model, tools, an
// approval policy and limits.
//
// Activities read the agents again for each step, and workflow code never does. A changed prompt,
// model or tool takes effect with the next model call and cannot break the replay of a running
// thread.
package agent
