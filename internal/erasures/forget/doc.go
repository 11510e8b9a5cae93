// Package forget replaces what a person said, and the words by which the person is known, in what threads store and in what
// their workflows carry over. It decides about JSON alone, and knows which fields have texts, which have the names of people, and
// which have ids, types and times, which remain.
package forget
