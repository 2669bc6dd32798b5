package queues

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// readers are verbs, and all else that reads a store. Each returns what it has found.
var readers = map[string]func(f fixture) (found any, err error){
	"OpenQueue": func(f fixture) (any, error) {
		q, err := conq.OpenQueue(context.Background(), f.db, "new", conq.String())
		return q != nil, err
	},
	"OpenPriorityQueue": func(f fixture) (any, error) {
		p, err := conq.OpenPriorityQueue(context.Background(), f.db, "p", conq.String())
		return p != nil, err
	},
	"Enqueue":      func(f fixture) (any, error) { return nil, f.q.Enqueue(f.ctx, "v") },
	"EnqueueAll":   func(f fixture) (any, error) { return nil, f.q.EnqueueAll(f.ctx, []string{"v", "w"}) },
	"Dequeue":      func(f fixture) (any, error) { return f.q.Dequeue(f.ctx) },
	"DequeueN":     func(f fixture) (any, error) { return f.q.DequeueN(f.ctx, 2) },
	"DequeueWait":  func(f fixture) (any, error) { return f.q.DequeueWait(f.ctx) },
	"DequeueWaitN": func(f fixture) (any, error) { return f.q.DequeueWaitN(f.ctx, 2) },
	"DequeueWait, nothing there": func(f fixture) (any, error) {
		q, err := conq.OpenQueue(context.Background(), f.db, "new", conq.String(), conq.Options{Staging: f.mode})
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(f.ctx, 2*time.Second)
		defer cancel()
		v, err := q.DequeueWait(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
		return v, err
	},
	"Peek":    func(f fixture) (any, error) { return f.q.Peek(f.ctx) },
	"Len":     func(f fixture) (any, error) { return f.q.Len(f.ctx) },
	"Clear":   func(f fixture) (any, error) { return nil, f.q.Clear(f.ctx) },
	"Reclaim": func(f fixture) (any, error) { return nil, f.q.Reclaim(f.ctx) },
	"All":     func(f fixture) (any, error) { return valuesIn(f.q.All(f.ctx)) },
	"Push":    func(f fixture) (any, error) { return nil, f.p.Push(f.ctx, "v", 0) },
	"PushAll": func(f fixture) (any, error) {
		return nil, f.p.PushAll(f.ctx, []conq.Prioritized[string]{{Value: "v", Priority: 1}, {Value: "w", Priority: 0}, {Value: "x", Priority: 1}, {Value: "y", Priority: 5}})
	},
	"PopMin":                func(f fixture) (any, error) { return f.p.PopMin(f.ctx) },
	"PopMax":                func(f fixture) (any, error) { return f.p.PopMax(f.ctx) },
	"PopMax first pushed":   func(f fixture) (any, error) { return f.pf.PopMax(f.ctx) },
	"PopN Min":              func(f fixture) (any, error) { return f.p.PopN(f.ctx, conq.Min, 3) },
	"PopN Max":              func(f fixture) (any, error) { return f.p.PopN(f.ctx, conq.Max, 3) },
	"PopN Max first pushed": func(f fixture) (any, error) { return f.pf.PopN(f.ctx, conq.Max, 3) },
	"PopWait Min":           func(f fixture) (any, error) { return f.p.PopWait(f.ctx, conq.Min) },
	"PopWaitN Min":          func(f fixture) (any, error) { return f.p.PopWaitN(f.ctx, conq.Min, 2) },
	"PopWait Max":           func(f fixture) (any, error) { return f.pf.PopWait(f.ctx, conq.Max) },
	"PopWaitN Max":          func(f fixture) (any, error) { return f.pf.PopWaitN(f.ctx, conq.Max, 2) },
	"Peek Min":              func(f fixture) (any, error) { return f.p.Peek(f.ctx, conq.Min) },
	"Peek Max":              func(f fixture) (any, error) { return f.p.Peek(f.ctx, conq.Max) },
	"Peek Max first pushed": func(f fixture) (any, error) { return f.pf.Peek(f.ctx, conq.Max) },
	"All by priority":       func(f fixture) (any, error) { return valuesIn(f.p.All(f.ctx)) },
	"In a transaction": func(f fixture) (any, error) {
		var found []any
		err := f.db.Transact(f.ctx, func(tx kv.Tx) error {
			q, p, pf := f.q.In(tx), f.p.In(tx), f.pf.In(tx)
			note := func(v any, err error) error {
				found = append(found, v)
				return err
			}
			found = nil
			for _, verb := range []func() error{
				func() error { return note(q.Peek()) },
				func() error { return note(q.Len()) },
				func() error { return note(valuesIn(q.All())) },
				func() error { return note(p.Peek(conq.Min)) },
				func() error { return note(pf.Peek(conq.Max)) },
				func() error { return note(p.Len()) },
				func() error { return note(valuesIn(p.All())) },
				func() error { return note(q.Dequeue()) },
				func() error { return q.Enqueue("v") },
				func() error { return note(q.DequeueN(2)) },
				func() error { return p.Push("v", 1) },
				func() error {
					return p.PushAll([]conq.Prioritized[string]{{Value: "w", Priority: 1}, {Value: "x", Priority: 2}})
				},
				func() error { return note(p.PopMin()) },
				func() error { return note(p.PopMax()) },
				func() error { return note(pf.PopMax()) },
				func() error { return note(pf.PopN(conq.Max, 2)) },
			} {
				if err := verb(); err != nil {
					return err
				}
			}
			return nil
		})
		return found, err
	},
	"Queues": func(f fixture) (any, error) { return conq.Queues(f.ctx, f.db) },
	"Lookup": func(f fixture) (any, error) {
		info, found, err := conq.Lookup(f.ctx, f.db, "q")
		return fmt.Sprint(info, found), err
	},
	"Check": func(f fixture) (any, error) {
		decoded := 0
		report, err := checked(f, conq.CheckOptions{Decode: func(_ string, payload []byte) error {
			decoded += len(payload)
			return nil
		}})
		return fmt.Sprint(report, decoded), err
	},
	"Check, Repair": func(f fixture) (any, error) { return checked(f, conq.CheckOptions{Repair: true}) },
	"Dump": func(f fixture) (any, error) {
		var b bytes.Buffer
		_, err := conq.Dump(f.ctx, f.db, &b)
		return b.String(), err
	},
	"Dump of one": func(f fixture) (any, error) {
		var b bytes.Buffer
		_, err := conq.Dump(f.ctx, f.db, &b, conq.DumpOptions{Queues: []string{"p"}})
		return b.String(), err
	},
	"Load": func(f fixture) (any, error) {
		return conq.Load(f.ctx, f.db, dumpOf("loaded"))
	},
	"Load refused": func(f fixture) (any, error) {
		_, err := conq.Load(f.ctx, f.db, dumpOf("q"))
		if errors.Is(err, conq.ErrNotEmpty) {
			return "not empty", nil
		}
		return nil, err
	},
}

func checked(f fixture, o conq.CheckOptions) (conq.CheckReport, error) {
	report, err := conq.Check(f.ctx, f.db, o)
	report.Bytes = 0 // some of which are random
	return report, err
}

func valuesIn[V any](seq func(func(V, error) bool)) (values []V, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// dumpOf is a dump of a queue of that name, and of a priority queue.
func dumpOf(name string) io.Reader {
	db := memory.New(memory.Options{})
	defer db.Close()
	q, err := conq.OpenQueue(context.Background(), db, name, conq.String())
	if err == nil {
		err = q.Enqueue(context.Background(), "v")
	}
	p, errP := conq.OpenPriorityQueue(context.Background(), db, name+" by priority", conq.String())
	if errP == nil {
		errP = p.Push(context.Background(), "w", 7)
	}
	var b bytes.Buffer
	_, errD := conq.Dump(context.Background(), db, &b)
	if err := errors.Join(err, errP, errD); err != nil {
		panic(err)
	}
	return &b
}

// Where a read fails, in whatever is done: it tells that error and has changed nothing. Or it needs
// not tell, as it has found, and done, the same as without. make thorough has each read fail.
func TestReadErrors(t *testing.T) {
	testkit.Long(t)
	for _, of := range []struct {
		shared bool
		mode   conq.Staging
	}{{false, conq.StagingNever}, {true, conq.StagingAuto}, {true, conq.StagingAlways}} {
		for _, expired := range []bool{false, true} {
			for name, verb := range readers {
				t.Run(fmt.Sprintf("%s %+v expired %v", name, of, expired), func(t *testing.T) {
					var want, wantAfter, before string
					failAt := func(k int) (failed bool) {
						testkit.Bubble(t, func(t *testing.T) {
							f, at := readingFixture(t, of.shared, expired, of.mode)
							if k == 0 {
								before = allBack(t, f)
								f, at = readingFixture(t, of.shared, expired, of.mode)
							}
							*at = k
							v, err := verb(f)
							failed = *at <= 0
							*at = 0
							found, after := fmt.Sprint(v), allBack(t, f)
							switch {
							case k == 0:
								testkit.NoError(t, err)
								want, wantAfter = found, after
							case err != nil:
								testkit.WantError(t, err, testkit.ErrRead)
								testkit.Equal(t, "said to be an item that does not decode", errors.Is(err, conq.ErrDecode), false)
								testkit.Equal(t, fmt.Sprintf("after an error at read %d", k), after, before)
							default:
								testkit.Equal(t, fmt.Sprintf("found without an error, though read %d failed", k), found, want)
								testkit.Equal(t, fmt.Sprintf("after no error, though read %d failed", k), after, wantAfter)
							}
						})
						return failed && !t.Failed()
					}
					failAt(0)
					for k := range testkit.Faults(3) {
						if !failAt(k) {
							break
						}
					}
				})
			}
		}
	}
}

// Who adds can't tell where, if reading what is staged fails, and who reclaims has not put back anything.
func TestReadErrorsStaged(t *testing.T) {
	for k, failed := 1, true; failed; k++ {
		testkit.Bubble(t, func(t *testing.T) {
			at := 0
			db := testkit.FailingAt(testkit.NewMemory(t, kv.Limits{Shared: true}), &at)
			q, err := conq.OpenQueue(t.Context(), db, "q", conq.String(), conq.Options{Staging: conq.StagingAlways})
			testkit.NoError(t, err)
			testkit.NoError(t, q.Enqueue(t.Context(), "first"))
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return testkit.Abandon(tx, testkit.Laid("q")) }))
			at = k
			err = q.Enqueue(t.Context(), "second")
			failed, at = at <= 0, 0
			if err != nil {
				testkit.WantError(t, err, testkit.ErrRead)
				testkit.NoError(t, q.Enqueue(t.Context(), "second"))
			}
			pass(time.Minute)
			at = 1
			testkit.WantError(t, q.Reclaim(t.Context()), testkit.ErrRead)
			testkit.NoError(t, q.Reclaim(t.Context()))
			got, err := q.DequeueN(t.Context(), 2)
			testkit.NoError(t, err)
			testkit.EqualSlices(t, fmt.Sprintf("items, when read %d had failed", k), got, []string{"first", "second"})
		})
	}
}

// readingFixture returns queues of items over several keys, the first of which are staged and not collected, in
// time or not. With at the at-th read from then on fails; it counts down.
func readingFixture(t *testing.T, shared, expired bool, mode conq.Staging) (f fixture, at *int) {
	var base kv.DB = memory.New(memory.Options{})
	if shared {
		base = faulty.New(base, 1, faulty.Options{Limits: kv.Limits{Shared: true, UnknownCommits: true}})
	}
	t.Cleanup(func() { testkit.NoError(t, base.Close()) })
	at = new(int)
	db := testkit.FailingAt(base, at)
	db.Bounds.Value = 16
	f = fixture{db: db, ctx: t.Context(), mode: mode}
	o, first := conq.Options{Staging: mode}, conq.Options{Staging: mode, FIFOTies: true}
	open := func() {
		var errs [3]error
		f.q, errs[0] = conq.OpenQueue(t.Context(), db, "q", conq.String(), o)
		f.p, errs[1] = conq.OpenPriorityQueue(t.Context(), db, "p", conq.String(), o)
		f.pf, errs[2] = conq.OpenPriorityQueue(t.Context(), db, "p", conq.String(), first)
		testkit.NoError(t, errors.Join(errs[:]...))
	}
	open()
	fill(t, f)
	testkit.NoError(t, db.Transact(f.ctx, func(tx kv.Tx) error {
		return errors.Join(testkit.Abandon(tx, testkit.Laid("q")), testkit.Abandon(tx, testkit.Laid("p")))
	}))
	open() // anew, so that the handles know that something is staged
	if expired {
		pass(time.Minute)
	}
	return f, at
}

// allBack returns what is in the queues when all that was staged is back.
func allBack(t *testing.T, f fixture) string {
	pass(time.Hour)
	testkit.NoError(t, f.q.Reclaim(f.ctx))
	testkit.NoError(t, f.p.Reclaim(f.ctx))
	q, p := contents(t, f)
	return strings.ReplaceAll(fmt.Sprint(q, p), ".", "")
}
