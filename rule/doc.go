// Package rule says what becomes of environment events: a rule matches types of events
// and has them logged, or handled by a function, by a processor, or by an agent.
//
// Of the rules that match an event the one with the highest priority handles it, and no
// other. A thread asks a snapshot of the rules, so adding, changing and removing them
// never breaks one that runs.
package rule
