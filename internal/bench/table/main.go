// Command table reads what `go test -bench` prints about package bench, once or
// several times over, and prints it as Markdown tables of medians and ratios.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

func main() {
	all, err := read(os.Stdin)
	if err == nil {
		err = all.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

// results are the samples of each unit of each benchmark.
type results struct {
	names   []string // in order of appearance, without Benchmark and the -P behind
	samples map[string]map[string][]float64
}

func read(r io.Reader) (*results, error) {
	all := &results{samples: make(map[string]map[string][]float64)}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if err := all.add(strings.Fields(lines.Text())); err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all.names) == 0 {
		return nil, fmt.Errorf("no benchmark in the input")
	}
	return all, nil
}

// add takes in a line: name, number of runs, then values with their units.
func (all *results) add(fields []string) error {
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return nil
	}
	name := strings.TrimPrefix(fields[0], "Benchmark")
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		name = name[:i]
	}
	if all.samples[name] == nil {
		all.samples[name] = make(map[string][]float64)
		all.names = append(all.names, name)
	}
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return err
		}
		unit := fields[i+1]
		all.samples[name][unit] = append(all.samples[name][unit], value)
	}
	return nil
}

// median returns the median of a benchmark's samples, and whether there are any.
func (all *results) median(name, unit string) (float64, bool) {
	values := slices.Sorted(slices.Values(all.samples[name][unit]))
	if len(values) == 0 {
		return 0, false
	}
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2, true
}

func (all *results) print(w io.Writer) error {
	out := bufio.NewWriter(w)
	all.printSystems(out)
	all.printStates(out)
	return out.Flush()
}

// printSystems prints a row for each benchmark that compares systems.
func (all *results) printSystems(w io.Writer) {
	var header bool
	for _, name := range all.names {
		base, isFloor := strings.CutSuffix(name, "/system=floor")
		if !isFloor {
			continue
		}
		if !header {
			header = true
			fmt.Fprintln(w, "| operation | durability | goroutines | floor ns | tx ns | ratio | handle ns | ratio |"+
				" floor p99 µs | tx p99 µs | handle p99 µs | retries a tx | items a handle's tx |")
			fmt.Fprintln(w, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
		}
		tx, handle := base+"/system=tx", base+"/system=handle"
		fmt.Fprintf(w, "| %s | %s |", column(base), strings.Join([]string{
			all.show(name, "ns/op"),
			all.show(tx, "ns/op"), all.ratio(tx, name),
			all.show(handle, "ns/op"), all.ratio(handle, name),
			all.show(name, "p99-µs"), all.show(tx, "p99-µs"), all.show(handle, "p99-µs"),
			all.show(tx, "retries/op"), all.inverse(handle, "txs/op"),
		}, " | "))
		fmt.Fprintln(w)
	}
}

// column returns the values of a name's parts, as columns.
func column(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		_, value, found := strings.Cut(part, "=")
		if found {
			parts[i] = value
		}
	}
	return strings.Join(parts, " | ")
}

// printStates prints a row for each operation, and its cost in each state of the
// queue beside that in the first state.
func (all *results) printStates(w io.Writer) {
	const prefix, separator = "Depth/state=", "/op="
	var states, ops []string
	for _, name := range all.names {
		rest, found := strings.CutPrefix(name, prefix)
		state, op, ok := strings.Cut(rest, separator)
		if !found || !ok {
			continue
		}
		if !slices.Contains(states, state) {
			states = append(states, state)
		}
		if !slices.Contains(ops, op) {
			ops = append(ops, op)
		}
	}
	if len(states) == 0 {
		return
	}
	fmt.Fprintf(w, "\n| operation | %s ns |", states[0])
	for _, state := range states[1:] {
		fmt.Fprintf(w, " %s ns | ratio | ratio, CPU |", state)
	}
	last := states[len(states)-1]
	fmt.Fprintf(w, " first when %s, µs |\n|---|--:|%s--:|\n", last, strings.Repeat("--:|--:|--:|", len(states)-1))
	for _, op := range ops {
		name := func(state string) string { return prefix + state + separator + op }
		fmt.Fprintf(w, "| %s | %s |", op, all.show(name(states[0]), "ns/op"))
		for _, state := range states[1:] {
			fmt.Fprintf(w, " %s | %s | %s |", all.show(name(state), "ns/op"),
				all.ratio(name(state), name(states[0])), all.ratioOf("cpu-ns/op", name(state), name(states[0])))
		}
		fmt.Fprintf(w, " %s |\n", all.show(name(last), "first-µs"))
	}
}

func (all *results) show(name, unit string) string {
	value, ok := all.median(name, unit)
	switch {
	case !ok:
		return ""
	case value != 0 && value < 10:
		return strconv.FormatFloat(value, 'f', 2, 64)
	}
	return strconv.FormatFloat(value, 'f', 0, 64)
}

func (all *results) ratio(name, base string) string { return all.ratioOf("ns/op", name, base) }

func (all *results) ratioOf(unit, name, base string) string {
	value, ok := all.median(name, unit)
	other, also := all.median(base, unit)
	if !ok || !also || other == 0 {
		return ""
	}
	return strconv.FormatFloat(value/other, 'f', 2, 64)
}

func (all *results) inverse(name, unit string) string {
	value, ok := all.median(name, unit)
	if !ok || value == 0 {
		return ""
	}
	return strconv.FormatFloat(1/value, 'f', 1, 64)
}
