// Package process runs the devserver and its servers as processes that tests kill and start again,
// and records what their clients see meanwhile.
package process
