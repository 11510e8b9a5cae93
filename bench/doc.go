// Command bench compares Threadmill with a bare Temporal loop: in one process, on one Temporal
// server, in alternating rounds. The ratios of a run are meaningful; times depend on the machine.
// With -knowledge, it measures how well and how fast documents are found. See README.md.
//
//	go run ./bench
//	go run ./bench -threads 1 -ways update -rounds 9 -json out.json
//	go run ./bench -knowledge
package main
