package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq/queue"
	"pgregory.net/rapid"
)

func span(call, ret int) Span { return Span{time.Duration(call), time.Duration(ret)} }

func put(id uint64, call, ret int) Put { return Put{Span: span(call, ret), ID: id} }

func pri(id uint64, priority int64, call, ret int) Put {
	return Put{Span: span(call, ret), ID: id, Priority: priority}
}

func take(id uint64, call, ret int) Take { return Take{Span: span(call, ret), ID: id} }

func back(id uint64, call, ret int) Take {
	return Take{Span: span(call, ret), ID: id, From: queue.Max}
}

var histories = []struct {
	name    string
	h       History
	broken  string // the one check that must fail, or none
	example string
}{
	{"nothing happened", History{}, "", ""},
	{"in order", History{
		Puts:  []Put{put(1, 0, 1), put(2, 2, 3)},
		Takes: []Take{take(1, 4, 5), take(2, 6, 7)},
	}, "", ""},
	{"lost", History{
		Puts:  []Put{put(1, 0, 1), put(2, 2, 3)},
		Takes: []Take{take(2, 6, 7)},
	}, "nothing lost", "item 1 was put at 0s..1ns and never taken"},
	{"twice", History{
		Puts:  []Put{put(1, 0, 1)},
		Takes: []Take{take(1, 4, 5), take(1, 6, 7)},
	}, "nothing twice", "item 1 was taken at 4ns..5ns and again at 6ns..7ns"},
	{"twice at the same time", History{
		Puts:  []Put{put(1, 0, 1)},
		Takes: []Take{take(1, 4, 7), take(1, 4, 7)},
	}, "nothing twice", "item 1"},
	{"invented", History{Takes: []Take{take(9, 4, 5)}}, "nothing invented", "never put"},
	{"unrecognised", History{
		Takes: []Take{{Span: span(4, 5), Unknown: true}},
	}, "nothing invented", "4ns..5ns"},
	{"reordered", History{
		Puts:  []Put{put(1, 0, 1), put(2, 2, 3)},
		Takes: []Take{take(2, 4, 5), take(1, 6, 7)},
	}, "order kept", "item 2 (priority 0, put 2ns..3ns) was taken at 4ns..5ns, before item 1"},
	{"puts overlap", History{
		Puts:  []Put{put(1, 0, 2), put(2, 1, 3)},
		Takes: []Take{take(2, 4, 5), take(1, 6, 7)},
	}, "", ""},
	{"takes overlap", History{
		Puts:  []Put{put(1, 0, 1), put(2, 2, 3)},
		Takes: []Take{take(2, 4, 6), take(1, 5, 7)},
	}, "", ""},
	{"false empty", History{
		Puts: []Put{put(1, 0, 1)}, Takes: []Take{take(1, 6, 7)}, Empties: []Span{span(2, 5)},
	}, "no false empty", "item 1"},
	{"empty before", History{
		Puts: []Put{put(1, 1, 3)}, Takes: []Take{take(1, 6, 7)}, Empties: []Span{span(0, 2)},
	}, "", ""},
	{"empty after", History{
		Puts: []Put{put(1, 0, 1)}, Takes: []Take{take(1, 2, 7)}, Empties: []Span{span(3, 5)},
	}, "", ""},
	{"minimum left behind", History{
		Puts:  []Put{pri(1, 5, 0, 1), pri(2, -5, 2, 3)},
		Takes: []Take{take(1, 4, 5), take(2, 6, 7)},
	}, "order kept", "item 1 (priority 5"},
	{"minimum came too late", History{
		Puts:  []Put{pri(1, 5, 0, 1), pri(2, -5, 4, 5)},
		Takes: []Take{take(1, 3, 6), take(2, 7, 8)},
	}, "", ""},
	{"maximum left behind", History{
		Puts:  []Put{pri(1, 5, 0, 1), pri(2, -5, 2, 3)},
		Takes: []Take{back(2, 4, 5), back(1, 6, 7)},
	}, "order kept", "item 2 (priority -5"},
	{"both ends", History{
		Puts:  []Put{pri(1, 5, 0, 1), pri(2, -5, 2, 3)},
		Takes: []Take{back(1, 4, 5), take(2, 6, 7)},
	}, "", ""},
	{"last pushed left behind", History{
		Puts:  []Put{pri(1, 5, 0, 1), pri(2, 5, 2, 3)},
		Takes: []Take{back(1, 4, 5), back(2, 6, 7)},
	}, "order kept", "item 1"},
	{"last pushed first", History{
		Puts:  []Put{pri(1, 5, 0, 1), pri(2, 5, 2, 3)},
		Takes: []Take{back(2, 4, 5), back(1, 6, 7)},
	}, "", ""},
	{"extreme priorities", History{
		Puts:  []Put{pri(1, -1<<63, 0, 1), pri(2, 1<<63-1, 2, 3)},
		Takes: []Take{back(1, 4, 5), back(2, 6, 7)},
	}, "order kept", "item 1"},
}

func TestBrokenHistories(t *testing.T) {
	for _, test := range histories {
		t.Run(test.name, func(t *testing.T) {
			for _, f := range test.h.Check() {
				if f.Check != test.broken {
					if f.Broken != 0 {
						t.Errorf("%s: broken %d times: %s", f.Check, f.Broken, f.Example)
					}
					continue
				}
				if f.Broken != 1 || !strings.Contains(f.Example, test.example) {
					t.Errorf("%s: broken %d times: %q; want once: %q", f.Check, f.Broken, f.Example, test.example)
				}
			}
		})
	}
}

// An item that is taken before its put began is invented, and as it is never
// taken afterwards lost too.
func TestTakenBeforePut(t *testing.T) {
	h := History{Puts: []Put{put(1, 4, 5)}, Takes: []Take{take(1, 2, 3)}}
	for _, f := range h.Check() {
		want := map[string]int{"nothing invented": 1, "nothing lost": 1}[f.Check]
		if f.Broken != want {
			t.Errorf("%s: broken %d times, want %d", f.Check, f.Broken, want)
		}
	}
}

// outOfOrder is the definition, word by word: was a between b and the end from
// which b was taken, from before that take began until after it returned?
func outOfOrder(b, a item) bool {
	present := a.Return < b.take.Call && a.take.Call > b.take.Return
	fromFront := b.take.From == queue.Min
	switch {
	case a.Priority != b.Priority:
		return present && (a.Priority < b.Priority) == fromFront
	case fromFront:
		return a.Return < b.Call && a.take.Call > b.take.Return
	default:
		return present && a.Call > b.Return
	}
}

func drawSpan(t *rapid.T, name string) Span {
	call := rapid.IntRange(0, 40).Draw(t, name)
	return span(call, call+rapid.IntRange(0, 8).Draw(t, name+" takes"))
}

func drawHistory(t *rapid.T) History {
	h := History{}
	for id := range rapid.IntRange(0, 25).Draw(t, "items") {
		p := Put{drawSpan(t, "put"), uint64(id), rapid.Int64Range(-2, 2).Draw(t, "priority")}
		taken := drawSpan(t, "take")
		taken.Return = max(taken.Return, p.Call) // else it is not taken but invented
		h.Puts = append(h.Puts, p)
		h.Takes = append(h.Takes, Take{Span: taken, ID: p.ID, From: queue.End(rapid.IntRange(0, 1).Draw(t, "end"))})
	}
	for range rapid.IntRange(0, 5).Draw(t, "empties") {
		h.Empties = append(h.Empties, drawSpan(t, "empty"))
	}
	return h
}

func TestSweepAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		items, _, _ := h.match()
		disorder, falseEmpty := 0, 0
		for _, b := range items {
			for _, a := range items {
				if a.ID != b.ID && outOfOrder(b, a) {
					disorder++
					break
				}
			}
		}
		for _, e := range h.Empties {
			for _, a := range items {
				if a.Return < e.Call && a.take.Call > e.Return {
					falseEmpty++
					break
				}
			}
		}
		if got := h.order(items).Broken; got != disorder {
			t.Errorf("order: found %d, the definition says %d", got, disorder)
		}
		if got := h.empty(items).Broken; got != falseEmpty {
			t.Errorf("empty: found %d, the definition says %d", got, falseEmpty)
		}
	})
}

// A sequential history of a correct queue, with one fault put into it, fails.
func TestOneFaultInMany(t *testing.T) {
	const n = 20_000
	good := History{}
	for i := range n {
		good.Puts = append(good.Puts, put(uint64(i), 2*i, 2*i+1))
		good.Takes = append(good.Takes, take(uint64(i), 2*(n+i), 2*(n+i)+1))
	}
	for _, f := range good.Check() {
		if f.Broken != 0 {
			t.Fatalf("correct history: %+v", f)
		}
	}
	bad := good
	bad.Takes = append([]Take(nil), good.Takes...)
	bad.Takes[700].ID, bad.Takes[701].ID = 701, 700
	if f := bad.Check()[3]; f.Broken != 1 {
		t.Errorf("two items swapped: %+v", f)
	}
}
