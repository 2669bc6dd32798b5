package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// Clock is a time that tests move.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows the start of 1970.
func NewClock() *Clock { return &Clock{now: time.Unix(0, 0)} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pass lets time pass.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// SlowReader calls Pass with each pair.
type SlowReader struct {
	kv.Reader
	Pass func()
}

// Snapshot is as slow.
func (s SlowReader) Snapshot() kv.Reader { return SlowReader{s.Reader.Snapshot(), s.Pass} }

// Range is that of Reader.
func (s SlowReader) Range(r kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for pair, err := range s.Reader.Range(r, o) {
			s.Pass()
			if !yield(pair, err) {
				return
			}
		}
	}
}

// Strict is a store that takes not more than so many items of queue "q" in a transaction, and none
// with a payload of "bad": these fail with its error. It counts what it has Refused.
type Strict struct {
	*Hooked
	Refused int

	err error
}

// NewStrict returns such a store over another one.
func NewStrict(db kv.DB, most int, err error) *Strict {
	return &Strict{err: err, Hooked: &Hooked{DB: db, Attempt: func(tx kv.Tx) kv.Tx { return &StrictTx{Tx: tx, Left: most} }}}
}

// Transact fails if the transaction has set too much.
func (s *Strict) Transact(ctx context.Context, f func(kv.Tx) error) error {
	err := s.Hooked.Transact(ctx, func(tx kv.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		if tx.(*StrictTx).Left < 0 {
			return s.err
		}
		return nil
	})
	if errors.Is(err, s.err) {
		s.Refused++
	}
	return err
}

// StrictTx is a transaction of a Strict, in which so many items may still be set.
type StrictTx struct {
	kv.Tx
	Left int
}

// Set counts.
func (tx *StrictTx) Set(key, value []byte) {
	if bytes.HasPrefix(key, []byte("\x02q\x00")) {
		tx.Left--
	}
	if string(value) == "bad" {
		tx.Left = -1
	}
	tx.Tx.Set(key, value)
}

// Halting is a reader that returns nothing, and no error, Left times before the next read, and Empty
// times before each later one.
type Halting struct {
	io.Reader
	Empty, Left int
}

func (h *Halting) Read(b []byte) (int, error) {
	if h.Left > 0 {
		h.Left--
		return 0, nil
	}
	h.Left = h.Empty
	return h.Reader.Read(b)
}

// FaultyTx calls Hit before each call of a transaction, and before each pair of a
// range, and fails a read with the error that it returns.
type FaultyTx struct {
	kv.Tx
	Hit func() error
}

func (f FaultyTx) Get(key []byte) ([]byte, error) { return FaultyReader{f.Tx, f.Hit}.Get(key) }
func (f FaultyTx) Snapshot() kv.Reader            { return FaultyReader{f.Tx.Snapshot(), f.Hit} }
func (f FaultyTx) Range(r kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return FaultyReader{f.Tx, f.Hit}.Range(r, o)
}
func (f FaultyTx) Set(key, value []byte)      { f.Hit(); f.Tx.Set(key, value) }
func (f FaultyTx) Clear(key []byte)           { f.Hit(); f.Tx.Clear(key) }
func (f FaultyTx) ClearRange(r kv.Range)      { f.Hit(); f.Tx.ClearRange(r) }
func (f FaultyTx) AddReadConflict(r kv.Range) { f.Hit(); f.Tx.AddReadConflict(r) }

// FaultyReader does so for a reader.
type FaultyReader struct {
	kv.Reader
	Hit func() error
}

func (f FaultyReader) Snapshot() kv.Reader { return FaultyReader{f.Reader.Snapshot(), f.Hit} }

func (f FaultyReader) Get(key []byte) ([]byte, error) {
	if err := f.Hit(); err != nil {
		return nil, err
	}
	return f.Reader.Get(key)
}

func (f FaultyReader) Range(r kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		if err := f.Hit(); err != nil {
			yield(kv.KeyValue{}, err)
			return
		}
		for pair, err := range f.Reader.Range(r, o) {
			if fault := f.Hit(); fault != nil {
				yield(kv.KeyValue{}, fault)
				return
			}
			if !yield(pair, err) || err != nil {
				return
			}
		}
	}
}

// ErrRead is the error of reads that fail.
var ErrRead = errors.New("a read failed")

// FailingAt returns a store of which the at-th read fails. at is counted down, and goes on below 0.
func FailingAt(db kv.DB, at *int) *Hooked {
	hit := func() error {
		if *at--; *at == 0 {
			return ErrRead
		}
		return nil
	}
	return &Hooked{
		DB:      db,
		Attempt: func(tx kv.Tx) kv.Tx { return FaultyTx{tx, hit} },
		Reader:  func(r kv.Reader) kv.Reader { return FaultyReader{r, hit} },
	}
}

// Clocked opens a store whose transactions last 5 s at most by the clock that it returns, and whose values are so
// short that items of more than 16 bytes are split.
func Clocked(t testing.TB) (*Hooked, *Clock) {
	t.Helper()
	c := NewClock()
	db := memory.New(memory.Options{Now: c.Now, Limits: kv.Limits{Age: 5 * time.Second}})
	t.Cleanup(func() { NoError(t, db.Close()) })
	return &Hooked{DB: db, Bounds: kv.Limits{Value: 16}}, c
}

// SplitValues returns an item for each letter, all of which such a store splits.
func SplitValues(from, to rune) (values []string) {
	for r := from; r <= to; r++ {
		values = append(values, fmt.Sprintf("%c, which takes several keys", r))
	}
	return values
}
