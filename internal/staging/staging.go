// Package staging serves the consumers of a queue that many take from at once,
// across processes, without their transactions conflicting: the technique that
// FoundationDB's page on queues calls staged requests, made safe against
// clients that die and commits whose outcome is unknown, and extended to queues
// with two ends, to requests for several items, and to values of any size.
//
// A consumer that takes the head of a queue in a transaction of its own
// conflicts with all others who do so: one commits, the rest begin anew. Here
// each writes a request instead, which conflicts with nothing, and one of them
// serves all requests at once.
//
// # Keys
//
// In the subspace of a queue's staging, as tuples:
//
//	(0)                             -> (id)              who serves requests; see the role of the fulfiller
//	(1, ticket, side, op)           -> (items, deadline) a request, in order of arrival
//	(2, deadline, op, i, item's key) -> item's value     the result of op: its items, in order
//	(2, deadline, op)               -> ""                the same without any
//	(3, place..., deadline, op)     -> ""                the last place that its items had, for each group
//	(4, stamp, id)                  -> (0, deadline)     somebody waits for items since stamp; see Line
//
// The place of an item is the integers in its key: where it is among those that
// were added before and after it. All but the last are its group: (index), or
// (priority, count) in the group (priority).
//
// op is 16 random bytes, drawn once for each call. A result has the deadline of its request, in
// nanoseconds of Unix time; the clocks of processes should agree to within a fraction of
// Options.Lease.
//
// # Protocol
//
//  1. Register: write a request with the next ticket, and watch it.
//  2. Fulfil: read the requests in order of their tickets and the items at both
//     ends, and in one transaction for each request clear it, clear its items,
//     and write them as its result. A request that finds nothing gets an empty
//     result. One process at a time does this, for all: the first that found nobody
//     in that role, see fulfiller. Its own callers take their items on the spot, and write
//     no requests. If the first request of all stays the
//     same for Options.Takeover, that process may have died, and the others take the role. A client that
//     waits puts the deadline of its request off, so its place does not end while it lives.
//  3. Collect: read and clear the own result.
//  4. Expire: a fulfiller first puts the items of results whose deadline has
//     passed back under their original keys. An owner that comes late finds
//     neither request nor result, and registers anew.
//
// A transaction that is too large in spite of all bounds is followed by one with one item for one
// request. A client that fulfils takes its own item then, which is not copied.
//
// # What conflicts
//
//   - Register: with a change of the role. It reads the last ticket through a snapshot.
//   - Fulfil: on each request that it clears, so two of them can't serve the same
//     one; and on each item that it takes, but not on what else is in the queue: it
//     counts as done at the version that it has read. So not with producers. A client
//     that tries again after a conflict collects its result if the other one has
//     served it.
//   - Collect and Expire: on the result, so exactly one of them gets the items.
//   - Withdraw, when the context ends: on the request's key; if it has been served, the result is
//     collected instead.
//
// # Order and fairness
//
// Requests are served in order of their tickets, those of both ends together, as
// far as one transaction can. Clients that register at the same time may get the
// same ticket, and are then ordered by side and at random. A consumer that comes
// without a request competes with the fulfiller for the head.
//
// # What is not guaranteed
//
// The item of a consumer that dies with an uncollected result is missing from
// the queue until the deadline, and then comes after those that others have
// taken meanwhile. It comes in front of those that were added meanwhile if their
// producers have asked Last. A producer that knows nothing of staging begins to
// count anew when it finds the queue, or the item's group, empty: then its items
// come in front. A consumer that is not heard of for longer than Options.Lease
// loses its place. Outcome keys stay behind until Stage.Close.
package staging

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
)

// Side is an end of a queue, with the order in which items are taken there. It
// belongs to the request: a fulfiller keeps to it.
type Side int64

const (
	Front    Side = iota // Dequeue, PopMin
	Back                 // PopMax
	BackFIFO             // PopMax that takes the first of equal items, not the last
	sides                // how many there are
)

// ErrEmpty means that the queue held nothing for the request.
var ErrEmpty = errors.New("staging: queue is empty")

// Source is the queue that is taken from.
type Source interface {
	// Items returns the items in the order in which the side takes them. It must
	// not conflict. No more than limit will be looked at, which is at least 1; it
	// may return more.
	Items(r kv.Reader, side Side, limit int) iter.Seq2[kv.KeyValue, error]

	// Place returns the packed integers in the key of an item that say where it is,
	// and all but the last of them, its group. place is nil if key is not an item's.
	Place(key []byte) (group, place []byte)

	// Keys returns over how many keys an item lies, the one that it is known by counted.
	// The others have values that are no larger.
	Keys(key []byte) int
}

// Options are the choices of a Stage. Zero fields get their defaults.
type Options struct {
	// Source is the queue. There is no default.
	Source Source

	// Space holds the keys of the staging, and Outcomes the outcome keys of its
	// lanes, where the engine does not always know what has been committed. There
	// is no default.
	Space, Outcomes subspace.Subspace

	// Lease is how long a result waits for its owner, and a request for a
	// fulfiller. Default: 10 s.
	Lease time.Duration

	// Takeover is how long the first of all requests may stay before clients behind
	// it fulfil. It is at most a quarter of Lease. Default: 250 ms.
	Takeover time.Duration

	// Requests, Items and Bytes bound what one transaction fulfils, at 1 item at
	// least. Default: 256 requests, 1,000 items, and 4 MiB, or less where the
	// engine's limits ask for less; the first item may be larger.
	Requests, Items, Bytes int

	// News tells those that wait in this process, with the id of a request as the topic, that it was
	// served. Other handles of the queue should have the same. Default: the Stage has its own.
	News *kvext.Signals

	// PutBack is called in each transaction that puts items back, for what has to
	// be done when items come to the queue. Default: nothing is.
	PutBack func(kv.Tx) error

	// Random gives operation ids. Default: crypto/rand.
	Random io.Reader

	// Now tells the time. Default: time.Now.
	Now func() time.Time

	// Observe is told what happens, in the goroutine of the caller whose doing it
	// is, or that of the fulfiller. It must be quick. Default: nobody is told.
	Observe func(Event)
}

// Event is something that has happened.
type Event struct {
	Kind     Kind
	Requests int // so many requests
	Items    int // with so many items
}

// Kind is a kind of event.
type Kind int

const (
	Registered Kind = iota // a request was written
	Fulfilled              // requests were answered, in one transaction
	Collected              // a result was collected
	Expired                // results were put back
)

func (o Options) withDefaults(l kv.Limits) Options {
	setDefault(&o.Lease, 10*time.Second)
	setDefault(&o.Takeover, 250*time.Millisecond)
	o.Takeover = min(o.Takeover, o.Lease/4)
	setDefault(&o.Requests, 256)
	setDefault(&o.Items, 1000)
	setDefault(&o.Bytes, 4<<20)
	if l.Transaction > 0 {
		o.Bytes = min(o.Bytes, l.Transaction/4)
	}
	if n := room(l); l.Operations > 0 { // more would be read, and not served
		o.Requests, o.Items = min(o.Requests, max(1, 2*n/(perRequest+perItem))), min(o.Items, n/perItem)
	}
	if o.News == nil {
		o.News = new(kvext.Signals)
	}
	if o.PutBack == nil {
		o.PutBack = func(kv.Tx) error { return nil }
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Observe == nil {
		o.Observe = func(Event) {}
	}
	return o
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Stage takes items of one queue by staging. It is safe for concurrent use. It
// has a goroutine while it has the role of the fulfiller, and a moment longer.
type Stage struct {
	db   kv.DB
	o    Options
	keys keys

	lanes   *outcome.Lanes
	closing chan struct{} // closed by Close

	mu        sync.Mutex
	fulfiller fulfiller
	oldest    oldest
	closed    error
	taking    int           // calls of Take under way
	idle      chan struct{} // closed when there are none, if Close waits for that
}

// New returns the staging of a queue.
func New(db kv.DB, o Options) *Stage {
	o = o.withDefaults(db.Limits())
	return &Stage{
		db: db, o: o, keys: keys{o.Space.Bytes()}, lanes: outcome.New(db, o.Outcomes, o.Random),
		closing:   make(chan struct{}),
		fulfiller: fulfiller{id: newID(), busy: make(chan struct{}, 1)},
	}
}

// Active tells whether consumers stage: somebody serves them, or there is a request, or a result that
// waits to be collected or put back. It reads a snapshot.
func (s *Stage) Active(r kv.Reader) (bool, error) { return some(r, s.ActiveRead()) }

// ActiveRead is what Active reads.
func (s *Stage) ActiveRead() kv.Read {
	return oneOf(kv.Range{Begin: s.keys.kind(fulfillerKind), End: s.keys.kind(lineKind)}, false)
}

// oneOf reads the first pair of a range, or the last.
func oneOf(r kv.Range, last bool) kv.Read {
	return kv.Read{Range: r, Options: kv.RangeOptions{Limit: 1, Reverse: last}}
}

// some tells whether a read finds anything, through a snapshot.
func some(r kv.Reader, read kv.Read) (bool, error) {
	for _, err := range r.Snapshot().Range(read.Range, read.Options) {
		return err == nil, err
	}
	return false, nil
}

// Close has calls of Take that come later return closed, and those under way, too:
// they withdraw their requests, unless they have been served. It waits for them, until
// ctx ends, and then removes the outcome keys that the Stage has left in the store. After
// an error, a further call goes on.
func (s *Stage) Close(ctx context.Context, closed error) error {
	s.mu.Lock()
	if s.closed == nil {
		s.closed = closed
		close(s.closing)
	}
	if s.taking == 0 {
		s.mu.Unlock()
		return s.lanes.Close(ctx, closed)
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return s.lanes.Close(ctx, closed)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin counts a call of Take, unless the Stage is closed.
func (s *Stage) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed == nil {
		s.taking++
	}
	return s.closed
}

func (s *Stage) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taking--; s.taking == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// isClosed returns the error of Close, if it was called.
func (s *Stage) isClosed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
