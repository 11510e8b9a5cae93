// Package rule routes environment events: a rule matches types of events and logs them or handles
// them with a function, a processor or an agent.
//
// Only the matching rule with the highest priority handles an event. A thread uses a snapshot of
// the rules, so rules can be added, changed and removed without affecting the replay of running
// threads.
package rule
