package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/conq-go/conq/internal/load"
	"github.com/guptarohit/asciigraph"
)

func benchLine(p load.Progress) string {
	line := fmt.Sprintf("%-10s %5.1f s  in %9s  out %9s", p.Phase, p.Elapsed.Seconds(), count(p.Put), count(p.Took))
	if seconds := p.Elapsed.Seconds(); seconds > 0 {
		line += fmt.Sprintf("  %9s/s", count(int(float64(max(p.Put, p.Took))/seconds)))
	}
	return line
}

// benchText describes what was measured.
func benchText(r *load.Report) string {
	var b strings.Builder
	b.WriteString(speedTable(r.Phases))
	b.WriteString("\n")
	b.WriteString(costTable(r.Phases))
	for i := range r.Phases {
		if graph := loadGraph(&r.Phases[i]); graph != "" {
			fmt.Fprintf(&b, "\n%s\n", graph)
		}
	}
	if r.Interrupted {
		b.WriteString("\nInterrupted: the last phase, and what it has measured, is not complete.\n")
	}
	return b.String()
}

func newTable(b *strings.Builder) *tabwriter.Writer {
	return tabwriter.NewWriter(b, 0, 0, 3, ' ', tabwriter.AlignRight)
}

func speedTable(phases []load.Result) string {
	var b strings.Builder
	w := newTable(&b)
	fmt.Fprint(w, "phase\t\titems\ta second\tp50\tp99\tp99.9\tmax\t\n")
	for _, p := range phases {
		for _, c := range []load.Calls{p.Put, p.Take} {
			if c.Count == 0 {
				continue
			}
			l := c.Latency
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", p.Name, c.Verb, count(c.Count), count(int(c.PerSecond)),
				millis(l.P50), millis(l.P99), millis(l.P999), millis(l.Max))
		}
	}
	w.Flush()
	return b.String()
}

// costTable tells what an item cost. Columns of staging are there if any request
// was staged.
func costTable(phases []load.Result) string {
	staged := false
	for _, p := range phases {
		staged = staged || p.Staging != load.Staged{}
	}
	var b strings.Builder
	w := newTable(&b)
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
	w.Flush()
	return b.String()
}

// batch writes an average number of items, of which there may have been none.
func batch(average float64) string {
	if average == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", average)
}

// loadGraph plots items a second over the time of a phase: those that went out,
// or in if none did. If that took too short it returns nothing.
func loadGraph(p *load.Result) string {
	c := &p.Take
	if c.Count == 0 {
		c = &p.Put
	}
	if len(c.Rates) < 3 {
		return ""
	}
	return ratePlot(c.Rates, fmt.Sprintf("%s: %s calls a second, over time", p.Name, c.Verb))
}

// ratePlot plots numbers a second.
func ratePlot(rates []float64, caption string) string {
	return asciigraph.Plot(rates,
		asciigraph.Height(6), asciigraph.Width(60), asciigraph.LowerBound(0),
		asciigraph.YAxisValueFormatter(func(v float64) string { return fmt.Sprintf("%9s", count(int(v))) }),
		asciigraph.Caption(caption))
}
