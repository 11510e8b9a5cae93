// Package conversation plays conversations from a file: the messages and decisions of people, and
// the replies of each agent's model. It renders the result, so that it can be compared with the
// expected one.
package conversation
