// Package rule routes environment events: a rule matches types of events and logs them or handles
// them with a function, a processor or an agent.
//
// Of the rules that match an event, only the one with the highest priority handles it. A thread
// uses a snapshot of the rules, so rules can be added, changed and removed without affecting the
// replay of running threads.
package rule
