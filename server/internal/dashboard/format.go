package dashboard

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/conq-go/conq"
)

// functions are those of templates.
var functions = template.FuncMap{
	"num": num[int64], "count": num[int], "rate": rate, "ago": when, "until": when, "lease": lease, "age": age, "old": old, "dur": shortDuration, "size": size[int], "bytes": size[int64],
	"text": visible, "sentence": sentence, "line": func(s string) string { return oneLine([]byte(s), 160) }, "short": func(s string, n int) string { return oneLine([]byte(s), n) },
	"link": link, "act": func(label, to string) change { return change{label, to, false} }, "danger": func(label, to string) change { return change{label, to, true} }, "kind": kindName, "plural": plural, "add": func(a, b int) int { return a + b },
	"spark": func(v []float64) template.HTML { return sparkline(v, "spark", 80, 18) },
	"graph": func(v []float64) template.HTML { return sparkline(v, "graph", 600, 160) },
	"row":   rowID, "asset": assetPath, "percent": percent, "exact": exact,
}

// rowID is the id of the row of a table that is about something: a live page knows rows by it, so that the focus goes with them.
func rowID(about ...any) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%#v", about)
	return fmt.Sprintf("row-%x", h.Sum32())
}

// num groups the digits of a number.
func num[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	from := 0
	if n < 0 {
		from = 1
	}
	for i := len(s) - 3; i > from; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rate is a number a second, with as many digits as one looks at.
func rate(v float64) string {
	switch {
	case v <= 0:
		return "0"
	case v < 0.05:
		return "<0.1"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return num(int64(math.Round(v)))
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return num(n) + " " + many
}

func percent(part, all int64) string {
	if all <= 0 {
		return ""
	}
	return strconv.FormatInt(min(100, part*100/all), 10) + " %"
}

func exact(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func timeElement(t time.Time, text string) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339) + `" title="` + exact(t) + `">` + text + "</time>") // digits and units
}

// when is a time as seen from now, with the exact one behind it.
func when(t time.Time) template.HTML {
	if d := time.Since(t); d >= 0 {
		return timeElement(t, shortDuration(d.Truncate(time.Second))+" ago")
	}
	return timeElement(t, "in "+shortDuration(time.Until(t).Truncate(time.Second)))
}

// lease is when a lease ends. One that has run out belongs to a worker that has sent no heartbeat: its job is given out
// again when the next worker asks.
func lease(t time.Time) template.HTML {
	if time.Since(t) > time.Second {
		return `<span class="tag warn">ran out</span> ` + when(t)
	}
	return when(t)
}

// age is how long something is there since t.
func age(t time.Time, atLeast bool) template.HTML { return timeElement(t, old(t, atLeast)) }

func old(t time.Time, atLeast bool) string {
	text := shortDuration(time.Since(t).Truncate(time.Second))
	if atLeast {
		text = "over " + text
	}
	return text
}

// shortDuration has two units at most.
func shortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Microsecond:
		return "0 s"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 10*time.Hour && d%time.Hour >= time.Minute:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/day)
}

func size[N int | int64](n N) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

func kindName(k conq.Kind) string {
	switch k {
	case conq.KindQueue:
		return "FIFO"
	case conq.KindPriorityQueue:
		return "priority"
	case conq.KindWorkQueue:
		return "work"
	}
	return visible(fmt.Sprint(k))
}

// visible has others' text be only what it looks like: control characters, marks that change the direction of what
// follows, and bytes that are not UTF-8 are shown as what they are. Lines stay. What would not be seen is quoted.
func visible(s string) string {
	if s != "" && strings.TrimSpace(s) == "" {
		return strconv.Quote(s)
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune(0x2400 + r) // control pictures
		case r == 0x7f:
			b.WriteRune(0x2421)
		case unicode.Is(unicode.C, r) || r == 0x2028 || r == 0x2029:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// sentence is a text as visible has it, with an end.
func sentence(s string) string {
	if s = visible(s); s != "" && !strings.ContainsAny(s[len(s)-1:], ".!?") {
		s += "."
	}
	return s
}

// oneLine is the beginning of a text or of bytes.
func oneLine(b []byte, most int) string {
	cut := len(b) > 4*most
	if cut {
		b = bytes.TrimRightFunc(b[:4*most], func(r rune) bool { return r == utf8.RuneError })
	}
	line := strings.Join(strings.Fields(visible(string(b))), " ")
	if utf8.RuneCountInString(line) <= most && !cut {
		return line
	}
	for i := range line {
		if most--; most < 0 {
			return line[:i] + "…"
		}
	}
	return line + "…"
}

// maxShown is how many bytes of a payload a page shows.
const maxShown = 64 << 10

// payload is the bytes of an item or job as they are shown.
type payload struct {
	Size int
	Form string // JSON, text, bytes or nothing
	Text string
	Cut  bool // it is only the beginning
}

func payloadOf(b []byte) payload {
	p := payload{Size: len(b), Form: "text"}
	if len(b) == 0 {
		p.Form = "nothing"
		return p
	}
	if p.Cut = len(b) > maxShown; p.Cut {
		b = b[:maxShown]
		for i := 0; i < utf8.UTFMax && len(b) > 0 && !utf8.Valid(b[max(0, len(b)-utf8.UTFMax):]); i++ { // half a character
			b = b[:len(b)-1]
		}
	}
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		p.Form, p.Text = "bytes", hex.Dump(b[:min(len(b), maxShown/4)])
		p.Cut = p.Cut || len(b) > maxShown/4
		return p
	}
	var pretty bytes.Buffer
	if !p.Cut && (b[0] == '{' || b[0] == '[') && json.Indent(&pretty, b, "", "  ") == nil && pretty.Len() <= 4*maxShown {
		p.Form, b = "JSON", pretty.Bytes()
	}
	p.Text = visible(string(b))
	return p
}
