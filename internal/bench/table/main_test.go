package main

import (
	"strings"
	"testing"
)

const input = `goos: linux
cpu: Some CPU
BenchmarkEnqueue/durability=always/goroutines=16/system=floor-2   100  1000 ns/op  5.0 p99-µs
BenchmarkEnqueue/durability=always/goroutines=16/system=floor-2   100  3000 ns/op  7.0 p99-µs
BenchmarkEnqueue/durability=always/goroutines=16/system=floor-2   100  2000 ns/op  6.0 p99-µs
BenchmarkEnqueue/durability=always/goroutines=16/system=tx-2      100  6000 ns/op  60 p99-µs  0.25 retries/op  1 txs/op
BenchmarkEnqueue/durability=always/goroutines=16/system=handle-2  100  3000 ns/op  30 p99-µs  0 retries/op  0.1 txs/op
BenchmarkDepth/state=few/op=dequeue-2                              10  100 ns/op  200 cpu-ns/op  9 first-µs
BenchmarkDepth/state=many/op=dequeue-2                             10  120 ns/op  300 cpu-ns/op  500 first-µs
PASS
`

const output = `| operation | durability | goroutines | floor ns | tx ns | ratio | handle ns | ratio | floor p99 µs | tx p99 µs | handle p99 µs | retries a tx | items a handle's tx |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
| Enqueue | always | 16 | 2000 | 6000 | 3.00 | 3000 | 1.50 | 6.00 | 60 | 30 | 0.25 | 10.0 |

| operation | few ns | many ns | ratio | ratio, CPU | first when many, µs |
|---|--:|--:|--:|--:|--:|
| dequeue | 100 | 120 | 1.20 | 1.50 | 500 |
`

func TestTables(t *testing.T) {
	all, err := read(strings.NewReader(input))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := all.print(&got); err != nil {
		t.Fatal(err)
	}
	if got.String() != output {
		t.Errorf("got\n%s\nwant\n%s", got.String(), output)
	}
}

func TestBadInput(t *testing.T) {
	for _, bad := range []string{"", "PASS\n", "BenchmarkX-2 10 many ns/op\n"} {
		if _, err := read(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}
