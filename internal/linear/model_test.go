package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/recipe"
)

// script builds a history of calls that follow, or overlap, each other.
type script struct {
	h     History
	clock int64
}

// call adds a call that ends before the next one begins.
func (s *script) call(op Op) *script {
	s.clock += 2
	op.Call, op.Return = s.clock-1, s.clock
	s.h.Ops = append(s.h.Ops, op)
	return s
}

// together adds calls that all overlap each other.
func (s *script) together(ops ...Op) *script {
	n := int64(len(ops))
	for i, op := range ops {
		op.Call, op.Return = s.clock+1+int64(i), s.clock+1+n+int64(i)
		s.h.Ops = append(s.h.Ops, op)
	}
	s.clock += 2 * n
	return s
}

// items parses "a b:5".
func items(text string) (all []Item) {
	for field := range strings.FieldsSeq(text) {
		item := Item{Value: field}
		if v, p, found := strings.Cut(field, ":"); found {
			item.Value = v
			fmt.Sscan(p, &item.Priority)
		}
		all = append(all, item)
	}
	return all
}

// got is items as a verb returns them that does not tell priorities.
func got(text string) []Item {
	all := items(text)
	for i := range all {
		if all[i].Priority == 0 {
			all[i].Priority = Untold
		}
	}
	return all
}

func put(text string) Op            { return Op{Kind: Put, Items: items(text)} }
func take(n int, text string) Op    { return Op{Kind: Take, N: n, Items: got(text)} }
func takeMax(n int, text string) Op { return Op{Kind: Take, N: n, End: queue.Max, Items: got(text)} }
func peek(text string) Op           { return Op{Kind: Peek, Items: got(text)} }
func length(n int) Op               { return Op{Kind: Len, Length: n} }
func unknown(op Op) Op              { op.Unknown = true; return op }

func alone(op Op) []Op { return []Op{op} }

// steps joins calls that follow each other with groups that overlap.
func steps(groups ...[]Op) History {
	var s script
	for _, g := range groups {
		s.together(g...)
	}
	return s.h
}

func sequence(ops ...Op) History {
	var s script
	for _, op := range ops {
		s.call(op)
	}
	return s.h
}

func with(h History, more func(*History)) History {
	more(&h)
	return h
}

func fifoTies(h *History) { h.FIFOTies = true }

// Small histories whose verdict is plain.
func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name string
		h    History
		ok   bool
	}{
		{"nothing", History{}, true},
		{"in order", sequence(put("a"), put("b"), take(1, "a"), take(1, "b"), take(1, "")), true},
		{"out of order", sequence(put("a"), put("b"), take(1, "b")), false},
		{"twice", sequence(put("a"), take(1, "a"), take(1, "a")), false},
		{"twice at once", steps(alone(put("a")), []Op{take(1, "a"), take(1, "a")}), false},
		{"invented", sequence(put("a"), take(1, "b")), false},
		{"before it was there", sequence(take(1, "a"), put("a")), false},
		{"lost", sequence(put("a"), take(1, "")), false},
		{"overlooked", steps(alone(put("a")), []Op{take(1, ""), put("b")}), false},
		{"empty before a put at the same time", steps([]Op{put("a"), take(1, "")}), true},
		{"puts at the same time, one way", steps([]Op{put("a"), put("b")}, alone(take(2, "a b"))), true},
		{"puts at the same time, the other way", steps([]Op{put("a"), put("b")}, alone(take(2, "b a"))), true},
		{"takes at the same time", steps(alone(put("a b")), []Op{take(1, "b"), take(1, "a")}), true},
		{"a batch out of order", sequence(put("a b"), take(1, "b")), false},
		{"others within a batch", steps([]Op{put("a b"), put("c")}, alone(take(3, "a c b"))), true},
		{"half a batch", steps([]Op{put("a b"), length(1)}), false},
		{"fewer than there are", sequence(put("a b c"), take(3, "a b"), take(1, "c")), true},
		{"more than wanted", sequence(put("a b"), take(1, "a b")), false},
		{"a gap in a batch", sequence(put("a b c"), take(2, "a c")), false},
		{"peeked", sequence(put("a b"), peek("a"), take(1, "a"), peek("b"), take(1, "b"), peek("")), true},
		{"peeked at the second", sequence(put("a b"), peek("b")), false},
		{"peeked at nothing", sequence(put("a"), peek("")), false},
		{"length", sequence(length(0), put("a b"), length(2), take(1, "a"), length(1)), true},
		{"too short", sequence(put("a b"), length(1)), false},
		{"too long", sequence(put("a b"), length(3)), false},

		{"lowest", sequence(put("a:1 b:-1 c:1"), take(3, "b:-1 a:1 c:1")), true},
		{"not the lowest", sequence(put("a:1 b:-1"), take(1, "a")), false},
		{"another priority", sequence(put("a:1"), take(1, "a:2")), false},
		{"last of the highest", sequence(put("a:1 b:1"), takeMax(1, "b")), true},
		{"first of the highest", sequence(put("a:1 b:1"), takeMax(1, "a")), false},
		{"first of the highest, wanted", with(sequence(put("a:1 b:1"), takeMax(1, "a")), fifoTies), true},
		{"last of the highest, unwanted", with(sequence(put("a:1 b:1"), takeMax(1, "b")), fifoTies), false},
		{"not the highest", sequence(put("a:1 b:2"), takeMax(1, "a")), false},
		{"both ends", steps(alone(put("a:1 b:2 c:3")), []Op{take(1, "a"), takeMax(1, "c")}, alone(take(1, "b"))), true},

		{"unknown put that happened", sequence(unknown(put("a")), take(1, "a")), true},
		{"unknown put that did not", sequence(unknown(put("a")), put("b"), take(1, "b"), take(1, "")), true},
		{"unknown put that happened late", sequence(unknown(put("a")), take(1, ""), put("b"), take(2, "b a")), true},
		{"unknown put that happened twice", sequence(unknown(put("a")), take(1, "a"), take(1, "a")), false},
		{"unknown put ahead of an earlier one", sequence(put("b"), unknown(put("a")), take(1, "a")), false},
		{"unknown put behind one that came after it was seen", sequence(unknown(put("a")), peek("a"), put("b"), take(1, "b")), false},
		{"half of an unknown batch", sequence(unknown(put("a b")), take(1, "a"), take(1, ""), length(0)), false},
		{"unknown put that was counted", sequence(unknown(put("a")), length(1), length(0)), true},
		{"counted before it was put", sequence(length(1), unknown(put("a"))), false},
		{"two counted of one unknown", sequence(unknown(put("a")), length(2)), false},

		{"unknown take that happened", sequence(put("a b"), unknown(take(1, "")), take(1, "b"), take(1, "")), true},
		{"unknown take that did not", sequence(put("a b"), unknown(take(1, "")), take(2, "a b"), take(1, "")), true},
		{"unknown take that happened late", sequence(put("a b"), unknown(take(1, "")), peek("a"), take(1, "b"), take(1, "")), true},
		{"unknown take of an item put later", sequence(unknown(take(1, "")), put("a"), take(1, "")), true},
		{"unknown take of two", sequence(put("a b"), unknown(take(1, "")), take(1, "")), false},
		{"unknown take of a batch", sequence(put("a b"), unknown(take(2, "")), take(1, "")), true},
		{"unknown take of the second", sequence(put("a b"), unknown(take(1, "")), take(1, "a"), take(1, "")), true},
		{"unknown take of the second, first", sequence(put("a b"), unknown(take(1, "")), length(1), take(1, "a"), take(1, "")), false},
		{"lost before an unknown take", sequence(put("a"), take(1, ""), unknown(take(1, "")), take(1, "")), false},
		{"unknown take at the other end", sequence(put("a:1 b:2"), unknown(takeMax(1, "")), length(1), take(1, "b")), false},
		{"unknown take at the right end", sequence(put("a:1 b:2"), unknown(takeMax(1, "")), length(1), take(1, "a"), take(1, "")), true},
		{"unknown take of what was the highest", sequence(put("a:1"), unknown(takeMax(1, "")), length(0), put("b:2"), takeMax(1, "b"), take(1, "")), true},
		{"unknown take and unknown put", sequence(unknown(put("a")), unknown(take(1, "")), take(1, "")), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Verify(c.h, Limit)
			var v *Violation
			if c.ok && err != nil || !c.ok && !errors.As(err, &v) {
				t.Errorf("Verify = %v, want legal: %v\n%s", err, c.ok, Listing(c.h))
			}
		})
	}
}

func TestVerifyRefusesValuesThatAreNotUnique(t *testing.T) {
	err := Verify(sequence(put("a"), put("a")), Limit)
	if err == nil || errors.As(err, new(*Violation)) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("Verify = %v, want an error that names the value", err)
	}
}

// A search that does not end is no success: 30 puts of which a later take finds
// nothing, in any of 2^30 sets.
func TestVerifyTimesOut(t *testing.T) {
	var ops []Op
	for i := range 30 {
		ops = append(ops, put(fmt.Sprint(i)))
	}
	h := steps(ops, alone(take(1, "")))
	if err := Verify(h, time.Millisecond); !errors.Is(err, ErrTimeout) {
		t.Errorf("Verify = %v, want ErrTimeout", err)
	}
}

// list is a priority queue as one would write it down: the items in the order of
// their puts. It is the definition that the model is compared with.
func list(fifoTies bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(from, in, _ any) (bool, any) {
			there, op := items(from.(string)), in.(Op)
			switch {
			case op.Kind == Put:
				there = append(there, op.Items[0])
			case len(op.Items) == 0:
				return len(there) == 0, from
			default:
				i := choose(there, op.End, fifoTies)
				if i < 0 || there[i].Value != op.Items[0].Value {
					return false, from
				}
				if op.Kind == Take {
					there = slices.Delete(there, i, i+1)
				}
			}
			var text strings.Builder
			for _, item := range there {
				fmt.Fprintf(&text, "%s:%d ", item.Value, item.Priority)
			}
			return true, text.String()
		},
	}
}

// isList tells whether a list explains a history.
func isList(h History) bool {
	var ops []porcupine.Operation
	for _, op := range h.Ops {
		ops = append(ops, porcupine.Operation{Input: op, Call: op.Call, Return: op.Return})
	}
	return porcupine.CheckOperations(list(h.FIFOTies), ops)
}

// choose returns which item a take takes, or -1.
func choose(there []Item, end queue.End, fifoTies bool) int {
	best := -1
	for i, item := range there {
		switch {
		case best < 0,
			end == queue.Min && item.Priority < there[best].Priority,
			end == queue.Max && item.Priority > there[best].Priority,
			end == queue.Max && item.Priority == there[best].Priority && !fifoTies:
			best = i
		}
	}
	return best
}

// The model says of histories of puts and takes exactly what a list says, with
// one end and with two.
func TestModelIsAList(t *testing.T) {
	for _, c := range []struct {
		name     string
		ends     int
		fifoTies bool
	}{{"one end", 1, false}, {"two ends", 2, false}, {"two ends, FIFO ties", 2, true}} {
		t.Run(c.name, func(t *testing.T) {
			verdicts := make(map[bool]int)
			for seed := range uint64(4000 * *rounds) {
				h := scramble(rand.New(rand.NewPCG(seed, 0)), c.ends)
				h.FIFOTies = c.fifoTies
				want := isList(h)
				verdicts[want]++
				if err := Verify(h, Limit); (err == nil) != want {
					t.Fatalf("seed %d: Verify = %v, a list says %v:\n%s", seed, err, want, Listing(h))
				}
			}
			if min(verdicts[true], verdicts[false]) < 400 {
				t.Errorf("verdicts %v: too few of one kind to tell", verdicts)
			}
		})
	}
}

// scramble draws a history of puts and takes of one item at overlapping times,
// some of which are right.
func scramble(r *rand.Rand, ends int) (h History) {
	n := 3 + r.IntN(6)
	for i := range n {
		call := r.IntN(1000)
		ret := call + 1 + r.IntN(300)
		h.Ops = append(h.Ops, Op{Client: i, Call: int64(call*n + i), Return: int64(ret*n + i)})
	}
	slices.SortFunc(h.Ops, func(a, b Op) int { return int(a.Call + a.Return - b.Call - b.Return) })
	var there []Item
	for i := range h.Ops {
		op := &h.Ops[i]
		op.N, op.End = 1, queue.End(r.IntN(ends))
		switch k := r.IntN(10); {
		case k < 5:
			item := Item{fmt.Sprint(i), r.Int64N(int64(ends))}
			op.Kind, op.Items = Put, []Item{item}
			there = append(there, item)
		case k < 6 || len(there) == 0:
			op.Kind = Take
		default:
			j := choose(there, op.End, r.IntN(2) == 0)
			if r.IntN(2) == 0 {
				j = r.IntN(len(there))
			}
			op.Kind, op.Items = Take, []Item{{there[j].Value, Untold}}
			there = slices.Delete(there, j, j+1)
		}
	}
	return h
}

// ones is a source of random bytes that gives the last key of an index.
type ones struct{}

func (ones) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 0xff
	}
	return len(b), nil
}

// interrupted calls a function between the reads of a transaction and its commit.
type interrupted struct {
	kv.DB
	meanwhile *func()
}

func (i interrupted) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return i.DB.Transact(ctx, func(tx kv.Tx) error {
		err := f(tx)
		(*i.meanwhile)()
		return err
	})
}

// A put that began earlier may come in ahead of one that was already seen as the
// first. No list explains that; what the queues promise does.
func TestPutAheadOfWhatWasSeen(t *testing.T) {
	db := memory.New(memory.Options{})
	var meanwhile func()
	slow, fast := newPlain(interrupted{db, &meanwhile}, zeros{}, recipe.LastPushed), newPlain(db, ones{}, recipe.LastPushed)
	r := NewRecorder("q", false)
	call := func(target Target, op Op) Op {
		op, err := r.Call(t.Context(), target, op)
		testkit.NoError(t, err)
		return op
	}
	meanwhile = func() {
		call(fast, put("b"))
		if seen := call(fast, peek("")); seen.Items[0].Value != "b" {
			t.Fatalf("peeked %v, want b", seen)
		}
	}
	call(slow, put("a"))
	if taken := call(fast, take(1, "")); taken.Items[0].Value != "a" {
		t.Fatalf("took %v, want a", taken)
	}
	Check(t, r.History())
	h := r.History()
	h.Ops = slices.DeleteFunc(h.Ops, func(op Op) bool { return op.Kind == Peek })
	if isList(r.History()) || !isList(h) {
		t.Errorf("a list explains all calls: %v, want false; those but the peek: %v, want true", isList(r.History()), isList(h))
	}
}
