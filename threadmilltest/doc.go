// Package threadmilltest tests applications of Threadmill.
package threadmilltest
