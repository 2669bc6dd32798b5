package main

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/kv/embedded"
)

// A floor is what writing through Pebble and its log takes: it writes an item's key and
// payload, or deletes the key, and finds out nothing. Which item is next it knows from
// memory. conq has a journal of its own, and can be below it.
//
// Each is there twice: in a new store, and as it is in the long run, when Pebble writes
// its log over files that it does not need any more (see recycle).
func floorSystems() (all []system) {
	for _, f := range []struct {
		name string
		to   func(*pebble.DB) writer
	}{
		{"floor-pebble", func(p *pebble.DB) writer { return rawWriter{p} }},
		{"floor-grouped", func(p *pebble.DB) writer { return newGroup(p, 0) }},
		{"floor-gathering", func(p *pebble.DB) writer { return newGroup(p, gathering80) }},
	} {
		s := system{name: f.name, class: power, crash: nothing, outage: nothing, order: unordered}
		s.open = openFloor(f.to, func(*pebble.DB, string) error { return nil })
		old := s
		old.name, old.open = f.name+"-recycled", openFloor(f.to, recycle)
		all = append(all, s, old)
	}
	return all
}

// gathering80 is how long the gathering floor waits at most.
const gathering80 = 80 * time.Microsecond

// writer writes durably, and waits for that.
type writer interface {
	write(*change) error
	close()
}

// change is what one caller wants to be written. Callers use theirs again.
type change struct {
	key, value []byte // no value: the key is to be deleted
	done       chan error
}

func (c *change) in(b *pebble.Batch) error {
	if c.value == nil {
		return b.Delete(c.key, nil)
	}
	return b.Set(c.key, c.value, nil)
}

// rawWriter writes each change by itself. Pebble has those of several goroutines
// share syncs.
type rawWriter struct{ db *pebble.DB }

func (w rawWriter) write(c *change) error {
	b := w.db.NewBatch()
	defer b.Close()
	if err := c.in(b); err != nil {
		return err
	}
	return b.Commit(pebble.Sync)
}

func (rawWriter) close() {}

// group is one goroutine that writes what all who wait want in one batch, with one
// sync. Meanwhile others come, and are in the next. If it gathers, it waits before
// the next for as many as were in the last, as those come back in a moment: at
// most for so long.
type group struct {
	db     *pebble.DB
	gather time.Duration

	mu      sync.Mutex
	waiting []*change
	came    chan struct{} // has a token when the first has come
	end     chan struct{}
	running sync.WaitGroup
}

func newGroup(db *pebble.DB, gather time.Duration) *group {
	g := &group{db: db, gather: gather, came: make(chan struct{}, 1), end: make(chan struct{})}
	g.running.Go(g.run)
	return g
}

func (g *group) write(c *change) error {
	g.mu.Lock()
	first := len(g.waiting) == 0
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	if first {
		g.came <- struct{}{}
	}
	return <-c.done
}

func (g *group) close() {
	close(g.end)
	g.running.Wait()
}

func (g *group) run() {
	var batch []*change
	for {
		select {
		case <-g.end:
			return
		case <-g.came:
		}
		g.await(len(batch))
		g.mu.Lock()
		batch, g.waiting = g.waiting, batch[:0]
		g.mu.Unlock()
		err := recovered(func() error { return g.commit(batch) })
		for _, c := range batch {
			c.done <- err
		}
	}
}

// await waits for so many callers. It lets others run rather than sleep, as timers
// are coarser than the time that it has.
func (g *group) await(callers int) {
	if g.gather == 0 {
		return
	}
	for began := time.Now(); time.Since(began) < g.gather; runtime.Gosched() {
		g.mu.Lock()
		enough := len(g.waiting) >= callers
		g.mu.Unlock()
		if enough {
			return
		}
	}
}

func (g *group) commit(batch []*change) error {
	b := g.db.NewBatch()
	defer b.Close()
	for _, c := range batch {
		if err := c.in(b); err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}

// floorPeer is a list in memory of what was written.
type floorPeer struct {
	inProcess
	writer writer
	shut   func() error

	mu    sync.Mutex
	index uint64
	items []entry // from first on
	first int
}

type entry struct{ key, value []byte }

func openFloor(to func(*pebble.DB) writer, prepare func(p *pebble.DB, dir string) error) func(context.Context, env) (peer, error) {
	return func(_ context.Context, e env) (peer, error) {
		db, shut, err := openPebble(e.dir, embedded.Always)
		if err != nil {
			return nil, err
		}
		if err := prepare(db, e.dir); err != nil {
			return nil, errors.Join(err, shut())
		}
		return &floorPeer{writer: to(db), shut: shut}, nil
	}
}

func (f *floorPeer) close() error {
	f.writer.close()
	return f.shut()
}

func (f *floorPeer) client(context.Context) (client, error) {
	return &floorClient{f: f, change: change{done: make(chan error, 1)}}, nil
}

type floorClient struct {
	shared
	f      *floorPeer
	change change
}

// put writes a key as long as conq's: a name, a number, and random bytes.
func (c *floorClient) put(_ context.Context, value []byte, _ int) error {
	f := c.f
	f.mu.Lock()
	f.index++
	key := binary.BigEndian.AppendUint64([]byte("queue:"), f.index)
	f.mu.Unlock()
	for range 20 / 4 {
		key = binary.BigEndian.AppendUint32(key, rand.Uint32())
	}
	value = append([]byte(nil), value...)
	c.change.key, c.change.value = key, value
	if err := f.writer.write(&c.change); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items = append(f.items, entry{key, value})
	return nil
}

func (c *floorClient) take(context.Context, bool) ([]byte, error) {
	item, ok := c.f.next()
	if !ok {
		return nil, errEmpty
	}
	c.change.key, c.change.value = item.key, nil
	return item.value, c.f.writer.write(&c.change)
}

func (f *floorPeer) next() (entry, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == len(f.items) {
		return entry{}, false
	}
	item := f.items[f.first]
	f.items[f.first] = entry{}
	if f.first++; f.first == len(f.items) {
		f.items, f.first = f.items[:0], 0
	}
	return item, true
}
