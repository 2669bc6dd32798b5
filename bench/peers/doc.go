// Command peers measures conq beside the systems that its users would pick
// instead, and beside floors, what writing through Pebble and its log takes, on one
// machine in one run. It is a module of its own, so that conq gets none of its
// dependencies.
//
//	go run .                  all systems, one table and one plot
//	go run . -peers redis     those whose names match
//	go run . depth            one of the measurements of conq alone
//	go run . -help
//
// README.md says how it measures. An item goes through a system like this: a
// producer's put returns when the item is acknowledged, a consumer's take when it
// is removed for good. A server that is a peer runs in a temporary directory, on
// loopback, and is stopped however the program ends.
package main
