package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// lives is a store that is opened again and again: after it was closed, after a power failure at any
// moment, or after its disk was full for a while. A plain map has what should be in it.
type lives struct {
	*rand.Rand
	t    *testing.T
	disk *vfs.MemFS
	full *faults
	o    Options
	db   *DB

	was     []map[string]string // after each commit of this life, and before the first
	certain int                 // the first of them that may be there after the end of this life
}

// TestLives checks that whatever is written, of which durability, and however a store ends, it has what
// it should when it is opened again: all that was acknowledged, or of what a power failure may undo,
// all up to some commit.
func TestLives(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 3
	}
	ends := map[string]int{}
	for seed := range seeds {
		l := &lives{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, disk: memFS(), was: []map[string]string{{}}}
		for life := 0; life < 10 && !t.Failed(); life++ {
			how := l.live()
			ends[how]++
			if t.Failed() {
				t.Logf("seed %d, after life %d, which ended in %s; %v, memtables of %d", seed, life, how, l.o.Durability, l.o.MemTable)
			}
		}
	}
	if len(ends) < 3 {
		t.Errorf("the lives have ended so: %v: the test tests too little", ends)
	}
}

// live opens the store, looks at what it has, writes for a while, and returns how that ended.
func (l *lives) live() (how string) {
	l.full = &faults{all: l.IntN(2) == 0, error: syscall.ENOSPC}
	l.o = Options{FS: errorfs.Wrap(l.disk, l.full), Durability: Durability(l.IntN(3)), Interval: time.Hour, MemTable: smallMemTable >> l.IntN(3)}
	l.db = mustOpen(l.t, "store", l.o)
	l.found()
	if l.IntN(3) == 0 {
		l.full.from.Store(l.full.count.Load() + 1 + l.Int64N(60))
	}
	for range l.IntN(50) {
		next := maps.Clone(l.was[len(l.was)-1])
		err := l.db.Transact(l.t.Context(), func(tx kv.Tx) error { return l.write(tx, next) })
		switch {
		case err == nil:
			l.was, l.certain = append(l.was, next), len(l.was)
		case errors.Is(err, ErrFailed) && errors.Is(err, syscall.ENOSPC):
			l.was = append(l.was, next)
			l.powerFailure()
			return "a full disk"
		default:
			l.t.Error(err)
		}
	}
	if l.IntN(2) == 0 {
		l.powerFailure()
		return "a power failure"
	}
	if err := l.db.Close(); err != nil {
		l.powerFailure()
	}
	return "Close"
}

// found checks that what is there now is what was, after some commit.
func (l *lives) found() {
	got := map[string]string{}
	for _, pair := range contents(l.t, l.db) {
		key, value, _ := bytes.Cut([]byte(pair), []byte("="))
		got[string(key)] = string(value)
	}
	inPebble(l.t, l.db, got)
	if !slices.ContainsFunc(l.was[l.certain:], func(was map[string]string) bool { return maps.Equal(was, got) }) {
		l.t.Errorf("there are %d pairs, as after none of the last %d commits", len(got), len(l.was)-l.certain)
	}
	l.was, l.certain = []map[string]string{got}, 0
}

// powerFailure leaves a part of what was not synced, or all, as the death of the process does.
func (l *lives) powerFailure() {
	percent := 50 * l.IntN(3)
	if l.o.Durability == Memory || l.o.Durability == Interval && percent < 100 {
		l.certain = 0
	}
	l.disk = l.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: l.Rand})
}

// write writes at random, mostly a little, and does the same to a map.
func (l *lives) write(tx kv.Tx, to map[string]string) error {
	for range 1 + l.IntN(8) {
		key := fmt.Sprintf("%02d", l.IntN(50))
		switch l.IntN(10) {
		case 0:
			tx.Add([]byte(key), 7)
			to[key] = string(overlay.Sum([]byte(to[key]), 7))
		case 1:
			r := kv.Range{Begin: []byte(key), End: fmt.Appendf(nil, "%02d", 50+l.IntN(9))}
			tx.ClearRange(r)
			maps.DeleteFunc(to, func(k, _ string) bool { return r.Contains([]byte(k)) })
		case 2, 3, 4:
			pair, ok, err := first(tx, kv.Range{}, l.IntN(2) == 0)
			if err != nil {
				return err
			}
			if ok {
				tx.Clear(pair.Key)
				delete(to, string(pair.Key))
			}
		case 5:
			value := bytes.Repeat([]byte(key), l.IntN(2<<l.IntN(13)))
			if l.IntN(50) == 0 {
				value = make([]byte, 2*backlogPart)
			}
			tx.Set([]byte(key), value)
			to[key] = string(value)
		default:
			tx.Set([]byte(key), []byte(key))
			to[key] = key
		}
	}
	return nil
}
