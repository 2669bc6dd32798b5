package bench

import (
	"flag"
	"testing"
	"time"

	"github.com/conq-go/conq/kv/embedded"
)

var long = flag.Int("items", 5_000_000, "items in the long queues of BenchmarkDepth; at most 20000 with -short")

// What a disk costs hides most of what depth may cost; without one, compactions that
// go on meanwhile show.
var depthDurability = embedded.Memory

func init() {
	flag.Func("durability", "that of BenchmarkDepth: always, interval or memory (default)", func(name string) (err error) {
		depthDurability, err = embedded.ParseDurability(name)
		return err
	})
}

// few are the items in a short queue, of which half are taken before they are put
// back.
const few = 10

// BenchmarkDepth measures single operations on queues that differ in how much is
// in them and in how much has been taken out:
//
//	few       10 items
//	many      5,000,000 items
//	taken     10 items, after 5,000,000 were taken
//	reopened  the same, and then the store was opened again
//
// Durability is memory, unless the flag says otherwise, as waiting for the disk hides
// the difference. An operation's effect on the depth is undone outside of the measured time.
func BenchmarkDepth(b *testing.B) {
	many := *long
	if testing.Short() {
		many = min(many, 20_000)
	}
	bench(b, state{"few", func(s *stage) { s.fill(few) }})
	bench(b, state{"many", func(s *stage) { s.fill(many); s.settle() }})
	bench(b, state{"taken", func(s *stage) { s.fill(many + few); s.take(many); s.settle() }},
		state{"reopened", (*stage).open})
}

// state is what makes the queues what they are.
type state struct {
	name string
	make func(*stage)
}

// bench measures all operations in each of the states, which one store goes
// through.
func bench(b *testing.B, states ...state) {
	var s *stage
	for _, state := range states {
		b.Run("state="+state.name, func(sub *testing.B) {
			if s == nil {
				s = newStage(b)
			}
			s.b = sub
			state.make(s)
			for _, step := range s.steps() {
				first := step.once(sub)
				sub.Run("op="+step.name, func(b *testing.B) {
					step.measure(b)
					b.ReportMetric(micros(first), "first-µs")
				})
			}
		})
	}
	if s != nil {
		s.b = b
		s.remove()
	}
}

// step is an operation, and what undoes so many of them.
type step struct {
	name string
	op   func() error
	undo func(n int) error
}

func (s step) once(b *testing.B) time.Duration {
	before := time.Now()
	check(b, s.op())
	d := time.Since(before)
	check(b, s.undo(1))
	return d
}

// measure reports what an operation takes without what undoes it, and what that
// takes: what goes on behind both, such as compactions, falls into either, so the
// shorter one gets, the more of it the other has.
func (s step) measure(b *testing.B) {
	b.ReportAllocs()
	var spent, undone, cpu time.Duration
	for done := 0; done < b.N; {
		n := min(few/2, b.N-done)
		before, cpuBefore := time.Now(), cpuTime()
		for range n {
			check(b, s.op())
		}
		cpu += cpuTime() - cpuBefore
		spent += time.Since(before)
		before = time.Now()
		check(b, s.undo(n))
		undone += time.Since(before)
		done += n
	}
	b.ReportMetric(float64(spent)/float64(b.N), "ns/op")
	b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(undone)/float64(b.N), "undo-ns/op")
}

func check(b testing.TB, err error) {
	if err != nil {
		b.Fatal(err)
	}
}
