// Package killing has worlds whose worker is a process of its own, which tests kill. That process is the test
// binary itself: [Main] makes it a worker.
package killing
