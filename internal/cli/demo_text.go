package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/demo"
	"github.com/conq-go/conq/internal/load"
)

// live shows how something is doing: in one line that is redrawn on a terminal,
// elsewhere in a line a second and one at the end of each phase.
type live struct {
	app      *app
	terminal bool
	columns  func() int // of the terminal, which may change
	drawn    bool
	last     time.Duration // of the phase, when the last line was written
}

func newLive(a *app) *live {
	return &live{app: a, terminal: commands(a.stderr), columns: func() int { return columns(a.stderr) }}
}

func (l *live) show(p load.Progress) {
	text := liveText(p)
	switch {
	case l.terminal:
		const eraseLine = "\r\x1b[K"
		if most := l.columns() - 1; 0 < most && most < len(text) {
			text = text[:most] // what goes on in the next row would not be erased
		}
		fmt.Fprint(l.app.stderr, eraseLine, text)
		l.drawn = true
	case p.Done:
		fmt.Fprintln(l.app.stderr, text)
		l.last = 0
	case p.Elapsed-l.last >= time.Second:
		fmt.Fprintln(l.app.stderr, text)
		l.last = p.Elapsed
	}
}

// end removes the line.
func (l *live) end() {
	if l.drawn {
		fmt.Fprint(l.app.stderr, "\r\x1b[K")
	}
}

func liveText(p load.Progress) string {
	perSecond := load.Ratio(float64(max(p.Put, p.Took)), p.Elapsed.Seconds())
	return fmt.Sprintf("%-14s %5.1f s  in %9s  out %9s  %9s/s",
		p.Phase, p.Elapsed.Seconds(), count(p.Put), count(p.Took), count(int(perSecond)))
}

// Colours of a terminal.
const (
	green = "\x1b[32m"
	red   = "\x1b[31m"
	bold  = "\x1b[1m"
)

// painter returns a function that colours text, or leaves it as it is.
func painter(on bool) func(colour, text string) string {
	return func(colour, text string) string {
		if !on {
			return text
		}
		return colour + text + "\x1b[0m"
	}
}

// phaseText describes what came out of a phase.
func phaseText(p *demo.Phase, paint func(colour, text string) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %.1f s\n\n", paint(bold, strings.ToUpper(p.Name[:1])+p.Name[1:]), p.Seconds)
	w := newTable(&b)
	fmt.Fprintf(w, "\tcalls\ta second\tp50\tp99\tp99.9\tmax\t\n%s\n%s\n", cells(p.Put), cells(p.Take))
	w.Flush()
	b.WriteString(ratePlot(p.Take, ""))
	if p.Killed > 0 {
		fmt.Fprintf(&b, "\nWorker processes that were killed with a job in hand: %s\n", count(p.Killed))
	}
	b.WriteByte('\n')
	for _, c := range p.Checks {
		if c.Broken == 0 {
			fmt.Fprintf(&b, "  %s  %s\n", paint(green, "ok  "), c.Check)
		} else {
			fmt.Fprintf(&b, "  %s  %s: %s times, as: %s\n", paint(red, "FAIL"), c.Check, count(c.Broken), c.Example)
		}
	}
	return b.String()
}

// cells are those of calls in a table.
func cells(c load.Calls) string {
	l := c.Latency
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t", c.Verb, count(c.Count), count(int(c.PerSecond)),
		millis(l.P50), millis(l.P99), millis(l.P999), millis(l.Max))
}

// millis writes a duration in milliseconds with three digits or so.
func millis(ms float64) string {
	switch {
	case ms < 1:
		return fmt.Sprintf("%.0f µs", ms*1000)
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%s ms", count(int(ms)))
}
