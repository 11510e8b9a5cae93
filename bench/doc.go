// Command bench measures Threadmill against a bare Temporal loop, side by side: in
// one process, on one Temporal server, in alternating rounds. What counts are the
// ratios of a run; times depend on the machine. See README.md.
//
//	go run ./bench
//	go run ./bench -threads 1 -ways update -rounds 9 -json out.json
package main
