package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/conq-go/conq/internal/load"
	"github.com/guptarohit/asciigraph"
)

// benchText describes what was measured.
func benchText(r *load.Report) string {
	var b strings.Builder
	speedTable(&b, r.Phases)
	b.WriteString("\n")
	costTable(&b, r.Phases)
	conflictLines(&b, r.Phases)
	for _, p := range r.Phases {
		calls := p.Take.Calls
		if calls.Count == 0 {
			calls = p.Put.Calls
		}
		b.WriteString(ratePlot(calls, p.Name+": "))
	}
	if r.Interrupted {
		b.WriteString("\nInterrupted: the last phase, and what it has measured, is not complete.\n")
	}
	return b.String()
}

func newTable(b *strings.Builder) *tabwriter.Writer {
	return tabwriter.NewWriter(b, 0, 0, 3, ' ', tabwriter.AlignRight)
}

func speedTable(b *strings.Builder, phases []load.Result) {
	w := newTable(b)
	defer w.Flush()
	fmt.Fprint(w, "phase\t\titems\ta second\tp50\tp99\tp99.9\tmax\t\n")
	for _, p := range phases {
		for _, c := range []load.PhaseCalls{p.Put, p.Take} {
			if c.Count == 0 {
				continue
			}
			fmt.Fprintf(w, "%s\t%s\n", p.Name, cells(c.Calls))
		}
	}
}

// costTable tells what an item cost. Columns of staging are there if any request
// was staged.
func costTable(b *strings.Builder, phases []load.Result) {
	staged := false
	for _, p := range phases {
		staged = staged || p.Staging != load.Staged{}
	}
	w := newTable(b)
	defer w.Flush()
	fmt.Fprint(w, "phase\ttransactions/item\tconflicts/item\tbatch in\tbatch out\t")
	if staged {
		fmt.Fprint(w, "requests\tfulfilments\tserved by each\texpired\t")
	}
	fmt.Fprintln(w)
	for _, p := range phases {
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%s\t%s\t", p.Name, p.TransactionsPerItem, p.ConflictsPerItem,
			batch(p.Put.Batch), batch(p.Take.Batch))
		if s := p.Staging; staged {
			fmt.Fprintf(w, "%s\t%s\t%.1f\t%s\t", count(s.Requests), count(s.Fulfilments), s.Served, count(s.Expired))
		}
		fmt.Fprintln(w)
	}
}

// conflictLines tells of phases with conflicts whose they were.
func conflictLines(b *strings.Builder, phases []load.Result) {
	gap := "\n"
	for _, p := range phases {
		if p.Conflicts == 0 {
			continue
		}
		var all []string
		for _, verb := range slices.Sorted(maps.Keys(p.Verbs)) {
			a := p.Verbs[verb]
			all = append(all, fmt.Sprintf("%s %s of %s", verb, count(a.Conflicts), count(a.Transactions)))
		}
		fmt.Fprintf(b, "%s%s: conflicts of transactions: %s\n", gap, p.Name, strings.Join(all, ", "))
		gap = ""
	}
}

// batch writes an average number of items, of which there may have been none.
func batch(average float64) string {
	if average == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", average)
}

// ratePlot plots calls a second over time, or returns nothing if they took too short.
func ratePlot(c load.Calls, of string) string {
	if len(c.Rates) < 3 {
		return ""
	}
	return "\n" + asciigraph.Plot(c.Rates,
		asciigraph.Height(6), asciigraph.Width(60), asciigraph.LowerBound(0),
		asciigraph.YAxisValueFormatter(func(v float64) string { return fmt.Sprintf("%9s", count(int(v))) }),
		asciigraph.Caption(of+c.Verb+" calls a second, over time")) + "\n"
}
