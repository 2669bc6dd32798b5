package kvtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"slices"

	"github.com/conq-go/conq/kv"
)

// mutants are defects that an engine could have.
func mutants() []mutant {
	return slices.Concat(rangeMutants(), getMutants(), readMutants(), pairMutants(), writeMutants(), watchMutants(),
		onCommitMutants(), transactMutants(), contextMutants(), orderMutants(), panicMutants(),
		closeMutants(), limitMutants())
}

// byHand reads a range without conflicts, and adds that which covers makes of
// the pairs that the loop returned and whether it ran out.
func byHand(covers func(s kv.Range, reverse bool, keys [][]byte, ranOut bool) kv.Range) func(kv.Tx, kv.Range, kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return func(tx kv.Tx, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
		return func(yield func(kv.KeyValue, error) bool) {
			var keys [][]byte
			ranOut := true
			for pair, err := range tx.Snapshot().Range(s, opts) {
				if err == nil {
					keys = append(keys, pair.Key)
				}
				if !yield(pair, err) || len(keys) == opts.Limit || err != nil {
					ranOut = false
					break
				}
			}
			if _, err := s.Bounds(); err == nil {
				tx.AddReadConflict(covers(s, opts.Reverse, keys, ranOut))
			}
		}
	}
}

// exact is what covers should be.
func exact(s kv.Range, reverse bool, keys [][]byte, ranOut bool) kv.Range {
	switch {
	case ranOut || len(keys) == 0:
		return s
	case reverse:
		return kv.Range{Begin: keys[len(keys)-1], End: s.End}
	}
	return kv.Range{Begin: s.Begin, End: kv.After(keys[len(keys)-1])}
}

const (
	rangeConflicts = "conflicts/range covers what it returned"
	anyOperations  = "own writes/any operations"
	oneByOne       = "own writes/each write through each read"
)

func rangeMutants() []mutant {
	none := kv.Range{Begin: []byte("\x01"), End: []byte("\x01")}
	return []mutant{
		{name: "range conflict stops one key short", caught: []string{rangeConflicts},
			txScan: byHand(func(s kv.Range, reverse bool, keys [][]byte, ranOut bool) kv.Range {
				if r := exact(s, reverse, keys, ranOut); ranOut || reverse || len(keys) == 0 {
					return r
				}
				return kv.Range{Begin: s.Begin, End: keys[len(keys)-1]}
			})},
		{name: "reverse range conflict stops one key short", caught: []string{rangeConflicts},
			txScan: byHand(func(s kv.Range, reverse bool, keys [][]byte, ranOut bool) kv.Range {
				r := exact(s, reverse, keys, ranOut)
				if reverse && !ranOut && len(keys) > 0 {
					r.Begin = kv.After(r.Begin)
				}
				return r
			})},
		{name: "range conflict goes one key too far", caught: []string{rangeConflicts},
			txScan: byHand(func(s kv.Range, reverse bool, keys [][]byte, ranOut bool) kv.Range {
				r := exact(s, reverse, keys, ranOut)
				if !reverse && !ranOut && len(keys) > 0 {
					r.End = kv.After(r.End)
				}
				return r
			})},
		{name: "range conflict covers all that was asked for", caught: []string{rangeConflicts},
			txScan: byHand(func(s kv.Range, _ bool, _ [][]byte, _ bool) kv.Range { return s })},
		{name: "range conflict ends at the last key though it ran out", caught: []string{rangeConflicts},
			txScan: byHand(func(s kv.Range, reverse bool, keys [][]byte, _ bool) kv.Range { return exact(s, reverse, keys, false) })},
		{name: "range conflict begins at the first key", caught: []string{rangeConflicts},
			txScan: byHand(func(s kv.Range, reverse bool, keys [][]byte, ranOut bool) kv.Range {
				r := exact(s, reverse, keys, ranOut)
				if len(keys) > 0 && !reverse {
					r.Begin = keys[0]
				}
				return r
			})},
		{name: "reverse covers what forwards would", caught: []string{rangeConflicts},
			txScan: byHand(func(s kv.Range, _ bool, keys [][]byte, ranOut bool) kv.Range {
				slices.SortFunc(keys, bytes.Compare)
				return exact(s, false, keys, ranOut)
			})},
		{name: "phantom in an empty range", caught: []string{rangeConflicts, "isolation/random histories"},
			txScan: byHand(func(s kv.Range, reverse bool, keys [][]byte, ranOut bool) kv.Range {
				if len(keys) == 0 {
					return none
				}
				return exact(s, reverse, keys, ranOut)
			})},
		{name: "conflict only if the loop ends by itself", caught: []string{rangeConflicts},
			txScan: byHand(func(s kv.Range, reverse bool, keys [][]byte, ranOut bool) kv.Range {
				if !ranOut {
					return none
				}
				return s
			})},
		{name: "a loop that is left hanging does not conflict", caught: []string{rangeConflicts}, txScan: byHand(exact)},
	}
}

func getMutants() []mutant {
	return []mutant{
		{name: "snapshot conflicts", caught: []string{"conflicts/snapshot covers nothing"},
			snapshot: func(tx kv.Tx) kv.Reader { return tx }},
		{name: "get does not conflict", caught: []string{"conflicts/get covers its key alone", "isolation/random histories"},
			txGet: func(tx kv.Tx, key []byte) ([]byte, error) { return tx.Snapshot().Get(key) }},
		{name: "get of an absent key does not conflict", caught: []string{"conflicts/get covers its key alone"},
			txGet: func(tx kv.Tx, key []byte) ([]byte, error) {
				if value, err := tx.Snapshot().Get(key); value == nil || err != nil {
					return value, err
				}
				return tx.Get(key)
			}},
		{name: "get of a present key does not conflict", caught: []string{"conflicts/get covers its key alone"},
			txGet: func(tx kv.Tx, key []byte) ([]byte, error) {
				if value, err := tx.Snapshot().Get(key); value != nil || err != nil {
					return value, err
				}
				return tx.Get(key)
			}},
		{name: "get of an own key conflicts", caught: []string{"conflicts/own keys"},
			txGet: func(tx kv.Tx, key []byte) ([]byte, error) {
				value, err := tx.Get(key)
				if err == nil {
					tx.AddReadConflict(kv.KeyRange(key))
				}
				return value, err
			}},
		{name: "get covers its neighbour", caught: []string{"conflicts/get covers its key alone"},
			txGet: func(tx kv.Tx, key []byte) ([]byte, error) {
				value, err := tx.Get(key)
				if err == nil {
					tx.AddReadConflict(kv.Range{Begin: key, End: append(kv.After(key), 0)})
				}
				return value, err
			}},
		{name: "blind writes conflict", caught: []string{"conflicts/blind writes commit"},
			set: func(tx kv.Tx, key, value []byte) {
				tx.Set(key, value)
				if len(key) > 0 && key[0] < 0xff {
					tx.AddReadConflict(kv.KeyRange(key))
				}
			}},
		{name: "own keys have no conflicts by hand", caught: []string{"conflicts/read conflicts of own keys by hand"},
			depend: func(tx kv.Tx, s kv.Range) {
				if value, err := tx.Snapshot().Get(s.Begin); len(s.Begin) == 0 || value != nil || err != nil {
					tx.AddReadConflict(s)
				}
			}},
		{name: "what is asked for ahead conflicts", caught: []string{"conflicts/prefetched reads"},
			prefetch: func(tx kv.Tx, reads []kv.Read) {
				if reads[0].Key != nil {
					_, _ = tx.Get(reads[0].Key)
				}
			}},
		{name: "readers conflict", caught: []string{"conflicts/readers commit"},
			begin: func(tx kv.Tx) { tx.AddWriteConflict(kv.Range{Begin: []byte("\x02"), End: []byte("\x03")}) }},
		{name: "version of the beginning", caught: []string{"isolation/version of the first read"},
			begin: func(tx kv.Tx) { _, _ = tx.Snapshot().Get([]byte("k")) }},
	}
}

func readMutants() []mutant {
	return []mutant{
		{name: "each read sees the latest", caught: []string{"isolation/one version", "isolation/bank"},
			latest: func(kv.RangeOptions, bool) bool { return true }},
		{name: "ranges see the latest", caught: []string{"isolation/one version", "isolation/random histories"},
			latest: func(_ kv.RangeOptions, get bool) bool { return !get }},
		{name: "reverse ranges miss own writes", caught: []string{oneByOne, anyOperations},
			latest: func(opts kv.RangeOptions, _ bool) bool { return opts.Reverse }},
		{name: "ranges with a limit miss own writes", caught: []string{oneByOne, anyOperations},
			latest: func(opts kv.RangeOptions, _ bool) bool { return opts.Limit > 0 }},
		{name: "gets miss own writes", caught: []string{oneByOne, anyOperations, "write/add"},
			latest: func(_ kv.RangeOptions, get bool) bool { return get }},
		{name: "reads after the end find nothing", caught: []string{"life/reads after the end", "life/writes to an earlier attempt"},
			get: func(r kv.Reader, key []byte) ([]byte, error) {
				value, err := r.Get(key)
				if errors.Is(err, kv.ErrClosed) {
					err = nil
				}
				return value, err
			}},
		{name: "snapshots miss own writes", caught: []string{oneByOne, "own writes/snapshot sees later writes"},
			snapshot: func(tx kv.Tx) kv.Reader { return blank{tx.Snapshot()} }},
		{name: "reverse is ignored", caught: []string{"range/bounds, limit and reverse", anyOperations},
			scan: func(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
				return r.Range(s, kv.RangeOptions{Limit: opts.Limit})
			}},
		{name: "reverse returns the first pairs", caught: []string{"range/bounds, limit and reverse"},
			scan: firstReversed},
		{name: "keys of the largest size have no range", caught: []string{"limits/range bound"},
			scan: func(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
				if len(s.End) > 30 {
					return listed(nil, kv.ErrTooLarge)
				}
				return r.Range(s, opts)
			}},
		{name: "limit is ignored", caught: []string{"range/bounds, limit and reverse"},
			scan: func(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
				return r.Range(s, kv.RangeOptions{Limit: min(opts.Limit, 0), Reverse: opts.Reverse})
			}},
		{name: "a range stops after a page", caught: []string{"range/large"},
			scan: func(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
				if opts.Limit == 0 {
					opts.Limit = 4096
				}
				return r.Range(s, opts)
			}},
	}
}

func pairMutants() []mutant {
	return []mutant{
		{name: "a sequence can be read once", caught: []string{"range/again", "range/loop in a loop"}, scan: onlyOnce},
		{name: "pairs change when the loop goes on", caught: []string{"range/values and keys survive the loop"}, scan: reusing},
		{name: "results share memory", caught: []string{"arguments/caller may change results"}, scan: adjacent},
		{name: "an empty value is absent", caught: []string{"write/empty value"},
			get: func(r kv.Reader, key []byte) ([]byte, error) {
				value, err := r.Get(key)
				return append([]byte(nil), value...), err
			}},
		{name: "an absent value is empty", caught: []string{"write/empty value", anyOperations},
			get: func(r kv.Reader, key []byte) ([]byte, error) {
				value, err := r.Get(key)
				return append([]byte{}, value...), err
			}},
		{name: "bad ranges are empty", caught: []string{"arguments/invalid reads"},
			scan: func(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
				if _, err := s.Bounds(); err != nil || opts.Limit < 0 {
					return func(func(kv.KeyValue, error) bool) {}
				}
				return r.Range(s, opts)
			}},
		{name: "loops swallow errors", caught: []string{"transact/context ends during", "life/reads after the end"},
			scan: func(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
				return func(yield func(kv.KeyValue, error) bool) {
					for pair, err := range r.Range(s, opts) {
						if err != nil || !yield(pair, nil) {
							return
						}
					}
				}
			}},
	}
}

// blank is a Reader that finds nothing.
type blank struct{ kv.Reader }

func (b blank) Get(key []byte) ([]byte, error) {
	_, err := b.Reader.Get(key)
	return nil, err
}

// firstReversed returns the pairs that a limit would give forwards, reversed.
func firstReversed(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	if !opts.Reverse || opts.Limit <= 0 {
		return r.Range(s, opts)
	}
	return func(yield func(kv.KeyValue, error) bool) {
		pairs, err := collect(r.Range(s, kv.RangeOptions{Limit: opts.Limit}))
		slices.Reverse(pairs)
		for _, pair := range pairs {
			if !yield(pair, nil) {
				return
			}
		}
		if err != nil {
			yield(kv.KeyValue{}, err)
		}
	}
}

func onlyOnce(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	seq, used := r.Range(s, opts), false
	return func(yield func(kv.KeyValue, error) bool) {
		if !used {
			used = true
			seq(yield)
		}
	}
}

// reusing returns all pairs in the same memory.
func reusing(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		var key, value []byte
		for pair, err := range r.Range(s, opts) {
			key, value = append(key[:0], pair.Key...), append(value[:0], pair.Value...)
			if err != nil {
				key, value = nil, nil
			}
			if !yield(kv.KeyValue{Key: key, Value: value}, err) {
				return
			}
		}
	}
}

// adjacent returns value right behind key.
func adjacent(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for pair, err := range r.Range(s, opts) {
			if err == nil {
				both, n := append(bytes.Clone(pair.Key), pair.Value...), len(pair.Key)
				pair = kv.KeyValue{Key: both[:n], Value: both[n:]}
			}
			if !yield(pair, err) {
				return
			}
		}
	}
}

func writeMutants() []mutant {
	return []mutant{
		{name: "add is a read and a write", caught: []string{"write/concurrent adds", "conflicts/blind writes commit"}, add: addByReading(kv.Tx.Get)},
		{name: "add loses concurrent ones", caught: []string{"write/add meanwhile"},
			add: addByReading(func(tx kv.Tx, key []byte) ([]byte, error) { return tx.Snapshot().Get(key) })},
		{name: "add takes a short value for 0", caught: []string{"write/add"},
			add: func(tx kv.Tx, key []byte, delta int64) {
				if value, err := tx.Snapshot().Get(key); err == nil && len(value) != 8 {
					tx.Clear(key)
				}
				tx.Add(key, delta)
			}},
		{name: "add is big-endian", caught: []string{"write/add"},
			add: func(tx kv.Tx, key []byte, delta int64) {
				tx.Add(key, int64(binary.BigEndian.Uint64(binary.LittleEndian.AppendUint64(nil, uint64(delta)))))
			}},
		{name: "clear range takes its end", caught: []string{"write/clear range", "conflicts/every kind of write"},
			clearRange: func(tx kv.Tx, s kv.Range) {
				if len(s.End) > 0 && len(s.End) < 30 && bytes.Compare(s.Begin, s.End) <= 0 {
					s.End = kv.After(s.End)
				}
				tx.ClearRange(s)
			}},
		{name: "clear range turns inverted ranges round", caught: []string{"arguments/invalid writes"},
			clearRange: func(tx kv.Tx, s kv.Range) {
				if _, err := s.Bounds(); err != nil {
					s.Begin, s.End = s.End, s.Begin
				}
				tx.ClearRange(s)
			}},
		{name: "arguments are kept", caught: []string{"arguments/caller may change arguments"},
			scan: func(r kv.Reader, s kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
				return func(yield func(kv.KeyValue, error) bool) { r.Range(s, opts)(yield) }
			}},
		{name: "bad writes are left out", caught: []string{"arguments/invalid writes", "limits/key"},
			set: func(tx kv.Tx, key, value []byte) {
				if (kv.Limits{Key: 30, Value: 50}).CheckSet(key, value) == nil {
					tx.Set(key, value)
				}
			}},
		{name: "clear is a set of an empty value", caught: []string{"write/order of writes", anyOperations},
			clear: func(tx kv.Tx, key []byte) { tx.Set(key, nil) }},
	}
}

// addByReading is an Add that uses what get returns.
func addByReading(get func(kv.Tx, []byte) ([]byte, error)) func(kv.Tx, []byte, int64) {
	return func(tx kv.Tx, key []byte, delta int64) {
		if value, err := get(tx, key); err == nil {
			tx.Set(key, []byte(sum(string(value), delta)))
		}
	}
}

func watchMutants() []mutant {
	ended := func(err error) <-chan error {
		told := make(chan error, 1)
		if err != nil {
			told <- err
		}
		close(told)
		return told
	}
	// filter passes on what a watch tells if pass says so.
	filter := func(pass func(error) bool) func(kv.Tx, []byte) <-chan error {
		return func(tx kv.Tx, key []byte) <-chan error {
			from, to := tx.Watch(key), make(chan error, 1)
			go func() {
				err := <-from
				if !pass(err) {
					return
				}
				if err != nil {
					to <- err
				}
				close(to)
			}()
			return to
		}
	}
	return []mutant{
		{name: "no wake-up", hangs: true, caught: []string{"watch/each change", "watch/no lost wake-up"},
			watch: filter(func(err error) bool { return err != nil })},
		{name: "watch ignores its context", hangs: true, caught: []string{"watch/context ends", "watch/thousands"},
			watch: filter(func(err error) bool { return !errors.Is(err, errCause) })},
		{name: "watch ignores Close", hangs: true, caught: []string{"watch/close"},
			watch: filter(func(err error) bool { return !errors.Is(err, kv.ErrClosed) })},
		{name: "watch outlives its attempt", hangs: true, caught: []string{"watch/attempt without a commit"},
			watch: filter(func(err error) bool { return !errors.Is(err, kv.ErrConflict) })},
		{name: "watch tells at once", caught: []string{"watch/each change", "watch/quiet", "watch/own write"},
			watch: func(tx kv.Tx, key []byte) <-chan error { tx.Watch(key); return ended(nil) }},
		{name: "watch fails at once", caught: []string{"watch/each change"},
			watch: func(tx kv.Tx, key []byte) <-chan error { tx.Watch(key); return ended(kv.ErrConflict) }},
		{name: "watch conflicts", caught: []string{"watch/does not conflict"},
			watch: func(tx kv.Tx, key []byte) <-chan error {
				told := tx.Watch(key)
				_, _ = tx.Get(key)
				return told
			}},
		{name: "watch misses changes before the commit", hangs: true, caught: []string{"watch/change before the commit"},
			watch: func(tx kv.Tx, key []byte) <-chan error {
				if value, err := tx.Snapshot().Get(key); err == nil && value != nil {
					tx.Set(key, value)
				}
				return tx.Watch(key)
			}},
		{name: "clear range wakes nobody", hangs: true, caught: []string{"watch/each change"},
			clearRange: func(tx kv.Tx, s kv.Range) {
				if string(s.Begin) == "c" { // as if it were nothing
					return
				}
				tx.ClearRange(s)
			}},
	}
}
