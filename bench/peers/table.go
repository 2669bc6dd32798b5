package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// summary has the median of each figure of several runs.
type summary struct {
	Fill         float64 `json:"fill_items_per_second"`
	Drain        float64 `json:"drain_items_per_second"`
	Transfer     float64 `json:"transfer_items_per_second"`
	FillPut      latency `json:"fill_put"`
	DrainTake    latency `json:"drain_take"`
	TransferPut  latency `json:"transfer_put"`
	TransferTake latency `json:"transfer_take"`
	BytesAnItem  float64 `json:"disk_bytes_an_item"` // when it is full
	Left         float64 `json:"disk_bytes_left"`    // in the end
	CPU          float64 `json:"cpu_seconds_a_million_items"`
}

func summarize(runs []measured) *summary {
	of := func(f func(measured) float64) float64 { return medianOf(runs, f) }
	lat := func(f func(measured) latency) latency {
		return latency{
			of(func(m measured) float64 { return f(m).P50 }),
			of(func(m measured) float64 { return f(m).P99 }),
		}
	}
	return &summary{
		Fill:         of(func(m measured) float64 { return m.Fill.Rate }),
		Drain:        of(func(m measured) float64 { return m.Drain.Rate }),
		Transfer:     of(func(m measured) float64 { return m.Transfer.Rate }),
		FillPut:      lat(func(m measured) latency { return m.Fill.Put }),
		DrainTake:    lat(func(m measured) latency { return m.Drain.Take }),
		TransferPut:  lat(func(m measured) latency { return m.Transfer.Put }),
		TransferTake: lat(func(m measured) latency { return m.Transfer.Take }),
		BytesAnItem:  of(func(m measured) float64 { return ratio(float64(m.Full-m.Empty), float64(m.Fill.Items)) }),
		Left:         of(func(m measured) float64 { return float64(m.Left) }),
		CPU:          of(cpuPerMillion),
	}
}

// cpuPerMillion is the processor time for a million items that were put and taken.
func cpuPerMillion(m measured) float64 {
	return 1e6 * ratio(m.Fill.CPU+m.Drain.CPU+m.Transfer.CPU, float64(m.Fill.Items+m.Transfer.Items))
}

// print writes the report as text.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n%d-byte items, at most %d or %v a phase, %d priorities; medians of %d runs\n\n",
		r.Machine, r.Payload, r.Items, r.Time, r.Priorities, r.Runs)
	r.table(w)
	r.notes(w)
	fmt.Fprintln(w)
	r.plot(w)
	if r.Interrupted {
		fmt.Fprintln(w, "\nInterrupted: not all was measured.")
	}
}

const head = "clients\tsystem\tcrash loses\tpower failure loses\tfill/s\tdrain/s\ttransfer/s\t" +
	"fill put µs\tdrain take µs\ttransfer put µs\ttransfer take µs\tB/item\tleft MB\tCPU s/M\n"

func (r *report) table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, head)
	for _, l := range r.Lines {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t", l.Shape, l.System, l.Crash, l.Outage)
		m := l.Median
		if m == nil {
			fmt.Fprintln(t, l.why())
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%v\t%v\t%v\t%v\t%.0f\t%.1f\t%.1f\n", short(m.Fill), short(m.Drain), short(m.Transfer),
			m.FillPut, m.DrainTake, m.TransferPut, m.TransferTake, m.BytesAnItem, m.Left/1e6, m.CPU)
	}
	_ = t.Flush() // as the writes before
	fmt.Fprintln(w, "latencies: p50/p99; disk: bytes an item when full, and left in the end; CPU: seconds a million items, with the server's")
}

// why says why there are no figures.
func (l *line) why() string {
	switch {
	case l.Missing != "":
		return "missing"
	case len(l.Errors) > 0:
		return "failed"
	}
	return "not measured"
}

// notes say what is not in the table.
func (r *report) notes(w io.Writer) {
	said := map[string]bool{}
	say := func(text string) {
		if !said[text] {
			said[text] = true
			fmt.Fprintln(w, text)
		}
	}
	for _, l := range r.Lines {
		if l.Missing != "" {
			say(fmt.Sprintf("%s was left out. %s", l.System, l.Missing))
		}
		if l.Hands {
			say("conq in a transfer: what is put while a consumer waits is handed to it, and never written")
		}
		if l.AtMost != "" {
			say(fmt.Sprintf("%s got at most %s", l.System, l.AtMost))
		}
		for _, err := range l.Errors {
			say(fmt.Sprintf("%s %s failed: %s", l.Shape, l.System, err))
		}
	}
}

// String is p50/p99.
func (l latency) String() string { return short(l.P50) + "/" + short(l.P99) }

// short writes a number with three digits.
func short(v float64) string {
	switch {
	case v >= 999_500:
		return digits(v/1e6) + "M"
	case v >= 9_995:
		return digits(v/1e3) + "k"
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	}
	return digits(v)
}

func digits(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

const plotWidth = 64

// plot shows the rates on a logarithmic scale: F fill, D drain, T transfer, and *
// for two that meet.
func (r *report) plot(w io.Writer) {
	low, high := math.Inf(1), 0.0
	width := 0
	for _, l := range r.Lines {
		if l.Median == nil {
			continue
		}
		width = max(width, len(l.Shape.String())+1+len(l.System))
		for _, v := range []float64{l.Median.Fill, l.Median.Drain, l.Median.Transfer} {
			low, high = min(low, v), max(high, v)
		}
	}
	if high <= 0 || low <= 0 {
		return
	}
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	to = max(to, from+1)
	column := func(v float64) int { return int(math.Round((math.Log10(v) - from) / (to - from) * (plotWidth - 1))) }
	axis := []rune(strings.Repeat("-", plotWidth))
	label := []rune(strings.Repeat(" ", plotWidth+6))
	for e := from; e <= to; e++ {
		axis[column(math.Pow(10, e))] = '+'
		copy(label[column(math.Pow(10, e)):], []rune(power10(e)))
	}
	fmt.Fprintf(w, "%*s  %s items a second: F fill, D drain, T transfer\n", width, "", string(label))
	fmt.Fprintf(w, "%*s  %s\n", width, "", string(axis))
	for _, l := range r.Lines {
		if l.Median == nil {
			continue
		}
		row := []rune(strings.Repeat(" ", plotWidth))
		for mark, v := range map[rune]float64{'F': l.Median.Fill, 'D': l.Median.Drain, 'T': l.Median.Transfer} {
			if at := column(v); row[at] == ' ' {
				row[at] = mark
			} else {
				row[at] = '*'
			}
		}
		fmt.Fprintf(w, "%-*s  %s\n", width, l.Shape.String()+" "+l.System, strings.TrimRight(string(row), " "))
	}
}

func power10(e float64) string {
	switch {
	case e >= 6:
		return fmt.Sprintf("%.0fM", math.Pow(10, e-6))
	case e >= 3:
		return fmt.Sprintf("%.0fk", math.Pow(10, e-3))
	}
	return fmt.Sprintf("%.0f", math.Pow(10, e))
}
