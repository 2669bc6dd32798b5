package foundationdb

import (
	"encoding/binary"
	"slices"

	"github.com/conq-go/conq/kv"
)

// fix gives the transaction a version, and fails if it is too old.
func (t *fakeTx) fix() error {
	if t.version == 0 {
		if err := t.fail("version"); err != nil {
			return err
		}
		t.version, t.data = t.f.version, t.f.data.Copy()
		t.f.times[t.version-1] = t.f.now() // of the read
		t.f.past[t.version] = t.data
		delete(t.f.past, t.version-1000)
	}
	if t.f.now().Sub(t.f.times[t.version-1]) > age {
		return fakeError(codeTransactionTooOld)
	}
	return nil
}

func (t *fakeTx) readVersion() future[int64] {
	return ask(t, func() (int64, error) {
		if t.changed {
			return 0, fakeError(codeClusterVersion)
		}
		if t.version != 0 {
			return t.version, nil // however old
		}
		err := t.fix()
		return t.version, err
	})
}

func (t *fakeTx) setReadVersion(version int64) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if t.version != 0 {
		panic("a read version is set twice")
	}
	t.version, t.data = version, t.f.past[version]
}

func (t *fakeTx) fixAnd(op string) error {
	if err := t.fix(); err != nil {
		return err
	}
	if t.data == nil {
		return fakeError(codeTransactionTooOld)
	}
	return t.fail(op)
}

func (t *fakeTx) get(key []byte) future[[]byte] {
	t.mustNotHaveWritten()
	return ask(t, func() ([]byte, error) {
		if err := t.fixAnd("get"); err != nil {
			return nil, err
		}
		if value, ok := t.data.Get(string(key)); ok {
			return []byte(value), nil
		}
		return nil, nil
	})
}

// fakePairs are read in batches of 3.
type fakePairs struct {
	t          *fakeTx
	begin, end string
	left       int
	reverse    bool
	batch      *fakeFuture[[]kv.KeyValue]
	got        []kv.KeyValue
	done       bool
}

func (t *fakeTx) getRange(begin, end []byte, limit int, reverse bool) pairs {
	t.mustNotHaveWritten()
	t.f.mu.Lock()
	t.f.ranges = append(t.f.ranges, fakeRange{limit, reverse})
	t.f.mu.Unlock()
	if limit == 0 {
		limit = -1
	}
	p := &fakePairs{t: t, begin: string(begin), end: string(end), left: limit, reverse: reverse}
	p.ask()
	return p
}

// askLate is ask for what is answered as late as possible.
func askLate[T any](t *fakeTx, answer func() (T, error)) *fakeFuture[T] {
	if t.f.stuck.Load() {
		return ask(t, answer)
	}
	future := newFuture[T](t.f)
	future.answer = answer
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	end := func(err error) { future.resolve(*new(T), err) }
	if t.cancelled {
		end(fakeError(codeCancelled))
	}
	t.pending = append(t.pending, end)
	return future
}

func (p *fakePairs) ask() {
	p.batch = askLate(p.t, func() ([]kv.KeyValue, error) {
		if err := p.t.fixAnd("range"); err != nil {
			return nil, err
		}
		var all []kv.KeyValue
		add := func(key, value string) bool {
			if key >= p.begin && key < p.end {
				all = append(all, kv.KeyValue{Key: []byte(key), Value: []byte(value)})
			}
			return len(all) < 3 && len(all) != p.left
		}
		if p.reverse {
			p.t.data.Descend(p.end, func(key, value string) bool { return key >= p.begin && add(key, value) })
		} else {
			p.t.data.Ascend(p.begin, func(key, value string) bool { return key < p.end && add(key, value) })
		}
		return all, nil
	})
}

func (p *fakePairs) next() (key, value []byte, ok bool, err error) {
	if len(p.got) == 0 {
		if p.done {
			return nil, nil, false, nil
		}
		if p.got, err = p.batch.Get(); err != nil {
			return nil, nil, false, err
		}
		if len(p.got) == 0 {
			p.done = true
			return nil, nil, false, nil
		}
	}
	pair := p.got[0]
	p.got = p.got[1:]
	if p.left--; p.reverse {
		p.end = string(pair.Key)
	} else {
		p.begin = string(pair.Key) + "\x00"
	}
	if p.done = p.left == 0; len(p.got) == 0 && !p.done {
		p.ask() // before it is needed
	}
	return pair.Key, pair.Value, true, nil
}

// mustNotHaveWritten is for what the library answers as the engine does not expect
// once the transaction has written.
func (t *fakeTx) mustNotHaveWritten() {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if len(t.writes) > 0 {
		panic("the transaction reads, or adds a read conflict, after it has written")
	}
	if t.committed {
		panic("the transaction is used after its commit")
	}
}

func (t *fakeTx) addReadConflict(begin, end []byte) error {
	t.mustNotHaveWritten()
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.reads = append(t.reads, fakeSpan{string(begin), string(end)})
	return t.f.fail("conflict")
}

func (t *fakeTx) addWriteConflict(begin, end []byte) error {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.wrote = append(t.wrote, fakeSpan{string(begin), string(end)})
	return t.f.fail("conflict")
}

// What each mutation, and each range, counts besides its bytes:
// sizeof(MutationRef) and sizeof(KeyRangeRef) of the library.
const (
	fakeMutation = 44
	fakeConflict = 24
)

// write is a mutation with two parameters of so many bytes.
func (t *fakeTx) write(s fakeSpan, params int, w fakeWrite) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.size += fakeMutation + params
	t.writes, t.wrote = append(t.writes, w), append(t.wrote, s)
}

func one(key []byte) fakeSpan { return fakeSpan{string(key), string(key) + "\x00"} }

func (t *fakeTx) set(key, value []byte) {
	k, v := string(key), string(value)
	t.write(one(key), len(k)+len(v), func(data *state) { data.Set(k, v) })
}

func (t *fakeTx) clear(key []byte) {
	k := string(key)
	t.write(one(key), 2*len(k)+1, func(data *state) { data.Delete(k) }) // the range of one key
}

func (t *fakeTx) clearRange(begin, end []byte) {
	s := fakeSpan{string(begin), string(end)}
	t.write(s, len(begin)+len(end), func(data *state) {
		var keys []string
		data.Ascend(s.begin, func(key, _ string) bool {
			keys = append(keys, key)
			return key < s.end
		})
		for _, key := range keys {
			if key < s.end {
				data.Delete(key)
			}
		}
	})
}

func (t *fakeTx) add(key, operand []byte) {
	k, delta := string(key), binary.LittleEndian.Uint64(operand)
	t.write(one(key), len(k)+len(operand), func(data *state) {
		var sum [8]byte
		old, _ := data.Get(k)
		copy(sum[:], old)
		binary.LittleEndian.PutUint64(sum[:], binary.LittleEndian.Uint64(sum[:])+delta)
		data.Set(k, string(sum[:]))
	})
}

func (f *fake) value(data *state, key string) *string {
	if value, ok := data.Get(key); ok {
		return &value
	}
	return nil
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func (t *fakeTx) watch(key []byte) future[struct{}] {
	w := &fakeWatch{key: string(key), f: newFuture[struct{}](t.f)}
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	err := t.fixAnd("watch")
	switch {
	case t.cancelled:
		w.f.resolve(struct{}{}, fakeError(codeCancelled))
	case err != nil:
		w.f.resolve(struct{}{}, err)
	default:
		w.value = t.f.value(t.data, w.key)
		t.watches = append(t.watches, w)
	}
	return w.f
}

func (t *fakeTx) commit() future[struct{}] {
	return ask(t, func() (struct{}, error) {
		err := t.fail("commit")
		if err == nil || t.f.late != nil && t.f.late() {
			if err2 := t.apply(); err2 != nil {
				err = err2
			}
		}
		for _, w := range t.watches {
			if err != nil {
				w.f.resolve(struct{}{}, err)
			} else {
				t.f.watches = append(t.f.watches, w)
			}
		}
		t.watches, t.committed = nil, true
		t.f.fire()
		return struct{}{}, err
	})
}

// apply makes the writes part of the store.
func (t *fakeTx) apply() error {
	if len(t.wrote) == 0 {
		return nil
	}
	size := t.size // as Transaction::getSize in the library has it
	for _, s := range append(slices.Clone(t.wrote), t.reads...) {
		size += fakeConflict + len(s.begin) + len(s.end)
	}
	if size > maxSent {
		return fakeError(codeTransactionTooLarge)
	}
	if len(t.reads) > 0 || t.version > 0 {
		if err := t.fix(); err != nil {
			return err
		}
	}
	for _, c := range t.f.commits {
		for _, read := range t.reads {
			if c.version > t.version && slices.ContainsFunc(c.wrote, read.meets) {
				return fakeError(codeNotCommitted)
			}
		}
	}
	t.f.version++
	t.f.times = append(t.f.times, t.f.now())
	t.f.commits = append(t.f.commits, fakeCommit{t.f.version, t.wrote})
	if len(t.f.commits) > 2000 { // more than any test has between a read and a commit
		t.f.commits = slices.Delete(t.f.commits, 0, 1000)
	}
	for _, write := range t.writes {
		write(t.f.data)
	}
	return nil
}

// fire sets off the watches whose values have changed.
func (f *fake) fire() {
	f.watches = slices.DeleteFunc(f.watches, func(w *fakeWatch) bool {
		select {
		case <-w.f.done:
			return true // cancelled
		default:
		}
		if same(w.value, f.value(f.data, w.key)) {
			return false
		}
		w.f.resolve(struct{}{}, nil)
		return true
	})
}
