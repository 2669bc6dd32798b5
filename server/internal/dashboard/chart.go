package dashboard

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strings"

	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/watch"
)

// chartFields are what charts show, by the names that scripts have for them.
var chartFields = []struct {
	name  string
	field watch.Field
}{
	{"depth", watch.Depth}, {"ready", watch.Ready}, {"scheduled", watch.Scheduled}, {"leased", watch.Leased},
	{"blocked", watch.Blocked}, {"dead", watch.Dead},
	{"in", watch.In}, {"out", watch.Out}, {"failed", watch.Failed}, {"age", watch.Age},
	{"wait50", watch.WaitP50}, {"wait95", watch.WaitP95}, {"wait99", watch.WaitP99},
	{"work50", watch.WorkP50}, {"work95", watch.WorkP95}, {"work99", watch.WorkP99},
}

func allFields() (all []watch.Field) {
	for _, f := range chartFields {
		all = append(all, f.field)
	}
	return all
}

var spans = map[string]watch.Span{"10m": watch.Minutes, "3h": watch.Hours, "2d": watch.Days}

// chart is a series as a script reads it. A number that is not known is null.
type chart struct {
	Start  int64                 `json:"start"` // seconds since 1970
	Step   int64                 `json:"step"`  // seconds
	Values map[string][]*float64 `json:"values"`
}

func chartOf(s watch.Series) chart {
	c := chart{s.Start.Unix(), int64(s.Step.Seconds()), make(map[string][]*float64)}
	for i, f := range chartFields {
		values := make([]*float64, len(s.Values[i]))
		for k, v := range s.Values[i] {
			// No duration is 0: there, nothing has ended.
			if unknown := math.IsNaN(v) || v == 0 && f.field >= watch.WaitP50; !unknown {
				rounded := round3(v)
				values[k] = &rounded
			}
		}
		c.Values[f.name] = values
	}
	return c
}

// round3 keeps three digits of what is not a small integer.
func round3(v float64) float64 {
	if v == math.Trunc(v) || v == 0 {
		return v
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
	return math.Round(v/unit) * unit
}

func (d *Dashboard) serveChart(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query().Get("q")
	span, ok := spans[r.URL.Query().Get("span")]
	if err := access.Check(r.Context(), access.Watch, q); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if !ok || d.History.Latest().Queue(q) == nil {
		http.Error(w, "there is no such chart: it has q, a queue, and span, one of 10m, 3h and 2d", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(chartOf(d.History.Queue(q).Series(span, allFields()...)))
}

// sparkline draws values, from left to right.
func sparkline(values []float64, class string, width, height float64) template.HTML {
	highest := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			highest = max(highest, v)
		}
	}
	if len(values) < 2 {
		values = []float64{0, 0}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="%s" viewBox="0 0 %g %g" preserveAspectRatio="none" aria-hidden="true"><polyline points="`, class, width, height)
	heights := make([]int, len(values))
	for i, v := range values {
		y := height - 1
		if highest > 0 && !math.IsNaN(v) {
			y = 1 + (height-2)*(1-v/highest)
		}
		heights[i] = int(math.Round(y))
	}
	for i, y := range heights {
		if i > 0 && i < len(heights)-1 && y == heights[i-1] && y == heights[i+1] {
			continue // it is on the line between its neighbours
		}
		fmt.Fprintf(&b, "%d,%d ", int(math.Round(float64(i)*width/float64(len(heights)-1))), y)
	}
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String()) // numbers, and words of templates
}
