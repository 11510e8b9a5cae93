// Package process runs the devserver, and servers that it depends on, as processes
// that tests kill and start again, and watches what their clients see meanwhile.
package process
