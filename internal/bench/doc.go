// Package bench measures what conq's queues cost, as ratios: against the same
// writes through Pebble alone, and against the same operations on a short queue.
// It holds benchmarks only; docs/performance.md says what they have shown.
//
//	go test -run '^$' -bench . ./internal/bench | tee bench.txt
//	go run ./internal/bench/table < bench.txt
//
// Names are made of key=value parts, as benchstat wants them:
//
//	Enqueue, Dequeue  durability=always|interval|memory / goroutines=1|16|64 / system=floor|tx|handle
//	Depth             state=... / op=...
//	Lone              store=...: a handle against the recipe alone, for one caller
//
// # The floor
//
// The floor is what writing items through Pebble and its log takes; conq has a journal of
// its own, and can be below it. It writes, from as many goroutines, one batch an operation with the bytes that conq
// would write: an item's key and its payload, or the deletion of a key. It opens
// the directory that conq has made, with the options that conq has left there in
// Pebble's OPTIONS file, and with the same sync setting. A test opens what the
// floor has written as a queue.
//
// It finds out nothing: which index comes next, which item is first, whether
// somebody else took it. That is what the ratio shows.
package bench
