package kvtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/conq-go/conq/kv"
)

func onCommitMutants() []mutant {
	waiting := func() {}
	return []mutant{
		{name: "on commit runs for failed attempts", caught: []string{"on commit/only what commits", "on commit/not on failure"},
			onCommit: func(_ kv.Tx, f func()) { f() }},
		{name: "on commit runs in reverse", caught: []string{"on commit/order"}, transact: reverseOnCommit},
		{name: "on commit ends with a panic", caught: []string{"on commit/panic"}, transact: inOneOnCommit},
		{name: "on commit of nil fails", caught: []string{"on commit/order"},
			onCommit: func(tx kv.Tx, f func()) {
				if f == nil {
					tx.Set(nil, nil)
				}
				tx.OnCommit(f)
			}},
		{name: "on commit runs with the next one", caught: []string{"on commit/order"},
			onCommit: func(tx kv.Tx, f func()) { tx.OnCommit(func() { f, waiting = waiting, f; f() }) }},
	}
}

func transactMutants() []mutant {
	lost := errors.New("lost")
	return []mutant{
		{name: "what need not be synced is lost", caught: []string{"transact/not synced"},
			noSync: func(tx kv.Tx) { panic(lost) },
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) (err error) {
				defer func() {
					if e := recover(); e != nil && e != lost {
						panic(e)
					}
				}()
				return db.Transact(ctx, f)
			}},
		{name: "an error of the function commits", caught: []string{"transact/own error"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				var own error
				if err := db.Transact(ctx, func(tx kv.Tx) error {
					if own = f(tx); errors.Is(own, kv.ErrConflict) {
						return own
					}
					return nil
				}); err != nil {
					return err
				}
				return own
			}},
		{name: "an error of the function is wrapped", caught: []string{"transact/own error"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				if err := db.Transact(ctx, f); err != nil {
					return errors.Join(err)
				}
				return nil
			}},
		{name: "gives up after some conflicts", caught: []string{"transact/retries until it commits"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				n := 0
				return db.Transact(ctx, func(tx kv.Tx) error {
					if n++; n > 10 {
						return errors.New("too many conflicts")
					}
					return f(tx)
				})
			}},
		{name: "a returned conflict is not retried", caught: []string{"transact/returned conflict is retried"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				var own error
				err := db.Transact(ctx, func(tx kv.Tx) error {
					if own = f(tx); own != nil {
						return errCause
					}
					return nil
				})
				if err == errCause {
					return own
				}
				return err
			}},
	}
}

func contextMutants() []mutant {
	return []mutant{
		{name: "the context is not looked at", caught: []string{"transact/context ended before", "transact/context ends during"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				return db.Transact(context.WithoutCancel(ctx), f)
			}},
		{name: "a nil context is one that never ends", caught: []string{"arguments/nil"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				return db.Transact(cmp.Or(ctx, context.Background()), f)
			}},
		{name: "a nil function does nothing", caught: []string{"arguments/nil"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				if f == nil {
					return nil
				}
				return db.Transact(ctx, f)
			}},
		{name: "a nil function is called", caught: []string{"arguments/nil"},
			readTransact: func(db kv.DB, ctx context.Context, f func(kv.Reader) error) error {
				return db.ReadTransact(ctx, func(r kv.Reader) error { return f(r) })
			}},
		{name: "a loop does not look at the context", caught: []string{"transact/context ends during"},
			scan: func(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
				return listed(collect(r.Range(s, opts)))
			}},
		{name: "the error of an ended context is not its cause", caught: []string{"transact/context ended before"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				if err := db.Transact(ctx, f); err == nil || ctx.Err() == nil {
					return err
				}
				return ctx.Err()
			}},
		{name: "the error of an ended context hides conflicts", caught: []string{"transact/context ends between attempts"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				if err := db.Transact(ctx, f); err == nil || ctx.Err() == nil {
					return err
				}
				return context.Cause(ctx)
			}},
	}
}

func orderMutants() []mutant {
	return []mutant{
		{name: "acknowledged before it is visible", caught: []string{"isolation/random histories"}, transact: behind()},
		{name: "the deadline is not looked at", caught: []string{"transact/context ended before"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				if _, ok := ctx.Deadline(); ok && ctx.Err() != nil {
					ctx = context.WithoutCancel(ctx)
				}
				return db.Transact(ctx, f)
			}},
		{name: "the context is another one", caught: []string{"transact/context is passed on"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				inner, cancel := context.WithCancelCause(context.Background())
				defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
				return db.Transact(inner, f)
			}},
		{name: "readers are retried", caught: []string{"transact/read transact"},
			readTransact: func(db kv.DB, ctx context.Context, f func(kv.Reader) error) error {
				for range kv.MaxTooOld {
					if err := db.ReadTransact(ctx, f); !errors.Is(err, kv.ErrConflict) && !errors.Is(err, kv.ErrTooOld) {
						return err
					}
				}
				return db.ReadTransact(ctx, f)
			}},
	}
}

func panicMutants() []mutant {
	return []mutant{
		{name: "a function that ends its goroutine commits", caught: []string{"transact/panic"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				var sets []kv.KeyValue
				returned := false
				defer func() {
					if returned {
						return
					}
					_ = db.Transact(ctx, func(tx kv.Tx) error {
						for _, pair := range sets {
							tx.Set(pair.Key, pair.Value)
						}
						return nil
					})
				}()
				err := db.Transact(ctx, func(tx kv.Tx) error { return f(remembering{tx, &sets}) })
				returned = true
				return err
			}},
		{name: "panics become errors", caught: []string{"transact/panic"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = errors.New("panic")
					}
				}()
				return db.Transact(ctx, f)
			}},
		{name: "a panic commits", caught: []string{"transact/panic"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				var panicked any
				err := db.Transact(ctx, func(tx kv.Tx) error {
					defer func() { panicked = recover() }()
					return f(tx)
				})
				if panicked != nil {
					panic(panicked)
				}
				return err
			}},
		{name: "writes of an attempt stay in the next", caught: []string{"transact/retries until it commits"}, transact: mergeAttempts},
		{name: "one transaction at a time", caught: []string{"transact/nested"}, transact: locked()},
		{name: "too old is retried for ever", hangs: true, caught: []string{"transact/too old"},
			transact: func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
				for {
					if err := db.Transact(ctx, f); !errors.Is(err, kv.ErrTooOld) {
						return err
					}
				}
			}},
	}
}

func closeMutants() []mutant {
	return []mutant{
		{name: "reopened without empty values", caught: []string{"life/reopen"},
			keeps: func(pair kv.KeyValue) bool { return len(pair.Value) > 0 }},
		{name: "reopened without large values", caught: []string{"life/reopen"},
			keeps: func(pair kv.KeyValue) bool { return len(pair.Value) < 50 }},
		{name: "reopened without what was written last", caught: []string{"life/reopen", "life/close under load"},
			keeps: func(pair kv.KeyValue) bool { return string(pair.Key) < "k" }},
		{name: "close does not close", hangs: true, caught: []string{"life/close", "life/close under a transaction", "watch/close"},
			close: func(kv.DB, bool) error { return nil }},
		{name: "a second close fails", caught: []string{"life/close"},
			close: func(db kv.DB, closed bool) error {
				if closed {
					return kv.ErrClosed
				}
				return db.Close()
			}},
	}
}

// inOneOnCommit calls all functions of an attempt in one loop.
func inOneOnCommit(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
	return db.Transact(ctx, func(tx kv.Tx) error {
		var added []func()
		tx.OnCommit(func() {
			for _, f := range added {
				f()
			}
		})
		return f(collecting{tx, &added})
	})
}

// reverseOnCommit collects the functions of an attempt.
func reverseOnCommit(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
	return db.Transact(ctx, func(tx kv.Tx) error {
		var added []func()
		tx.OnCommit(func() {
			for _, f := range slices.Backward(added) {
				f()
			}
		})
		return f(collecting{tx, &added})
	})
}

type collecting struct {
	kv.Tx
	added *[]func()
}

func (tx collecting) OnCommit(f func()) { *tx.added = append(*tx.added, f) }

// behind commits each transaction when the next one begins.
func behind() func(kv.DB, context.Context, func(kv.Tx) error) error {
	var mu sync.Mutex
	var pending []kv.KeyValue
	return func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
		if !mu.TryLock() {
			return db.Transact(ctx, f) // of a nested one
		}
		defer mu.Unlock()
		var sets []kv.KeyValue
		own := db.Transact(ctx, func(tx kv.Tx) error {
			sets = nil
			if err := f(remembering{tx, &sets}); err != nil {
				return err
			}
			return errCause
		})
		if !errors.Is(own, errCause) {
			return own
		}
		err := db.Transact(ctx, func(tx kv.Tx) error {
			for _, pair := range pending {
				tx.Set(pair.Key, pair.Value)
			}
			return nil
		})
		pending = sets
		return err
	}
}

// mergeAttempts sets in each attempt what all before have set.
func mergeAttempts(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
	var sets []kv.KeyValue
	return db.Transact(ctx, func(tx kv.Tx) error {
		for _, pair := range sets {
			tx.Set(pair.Key, pair.Value)
		}
		return f(remembering{tx, &sets})
	})
}

type remembering struct {
	kv.Tx
	sets *[]kv.KeyValue
}

func (tx remembering) Set(key, value []byte) {
	*tx.sets = append(*tx.sets, kv.KeyValue{Key: bytes.Clone(key), Value: bytes.Clone(value)})
	tx.Tx.Set(key, value)
}

// locked runs one function at a time, and fails instead of waiting for ever.
func locked() func(kv.DB, context.Context, func(kv.Tx) error) error {
	var mu sync.Mutex
	return func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
		if !mu.TryLock() {
			return errors.New("deadlock")
		}
		defer mu.Unlock()
		return db.Transact(ctx, f)
	}
}

func limitMutants() []mutant {
	tells := func(change func(*kv.Limits)) func(kv.Limits) kv.Limits {
		return func(l kv.Limits) kv.Limits { change(&l); return l }
	}
	return []mutant{
		{name: "keys may be one longer", caught: []string{"limits/key"}, limits: tells(func(l *kv.Limits) { l.Key-- })},
		{name: "keys must be one shorter", caught: []string{"limits/key"}, limits: tells(func(l *kv.Limits) { l.Key++ })},
		{name: "values may be one larger", caught: []string{"limits/value"}, limits: tells(func(l *kv.Limits) { l.Value-- })},
		{name: "values must be one smaller", caught: []string{"limits/value"}, limits: tells(func(l *kv.Limits) { l.Value++ })},
		{name: "transactions may be one larger", caught: []string{"limits/transaction"}, limits: tells(func(l *kv.Limits) { l.Transaction-- })},
		{name: "transactions must be one smaller", caught: []string{"limits/transaction"}, limits: tells(func(l *kv.Limits) { l.Transaction++ })},
		{name: "operations are not limited", caught: []string{"limits/operations"}, limits: tells(func(l *kv.Limits) { l.Operations = 50 })},
		{name: "a key that is read and written counts twice", caught: []string{"limits/keys read and written"},
			limits: tells(func(l *kv.Limits) { l.Operations = 50 }), transact: countingTwice(50)},
		{name: "age is not limited", caught: []string{"transact/too old"}, limits: tells(func(l *kv.Limits) { l.Age /= 4 })},
		{name: "limits change", caught: []string{"limits/limits are stated"}, limits: changing()},
	}
}

// countingTwice refuses transactions with more writes and reads than most.
func countingTwice(most int) func(kv.DB, context.Context, func(kv.Tx) error) error {
	return func(db kv.DB, ctx context.Context, f func(kv.Tx) error) error {
		if f == nil {
			return db.Transact(ctx, nil)
		}
		return db.Transact(ctx, func(tx kv.Tx) error {
			counting := &countingTx{Tx: tx}
			if err := f(counting); err != nil {
				return err
			}
			return kv.Limits{Operations: most}.CheckTransaction(0, counting.n)
		})
	}
}

type countingTx struct {
	kv.Tx
	n int
}

func (tx *countingTx) Get(key []byte) ([]byte, error) { tx.n++; return tx.Tx.Get(key) }
func (tx *countingTx) Set(key, value []byte)          { tx.n++; tx.Tx.Set(key, value) }
func (tx *countingTx) AddReadConflict(r kv.Range)     { tx.n++; tx.Tx.AddReadConflict(r) }

// changing tells a larger limit each time.
func changing() func(kv.Limits) kv.Limits {
	n := 0
	return func(l kv.Limits) kv.Limits {
		n++
		l.Key += n
		return l
	}
}
