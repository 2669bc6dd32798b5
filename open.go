package conq

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/internal/remove"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"

	// Engines that Open always knows. Another one is known to a program that imports
	// its package.
	_ "github.com/conq-go/conq/kv/embedded"
	_ "github.com/conq-go/conq/kv/memory"
)

// Open opens a store: a directory, or the URL of an engine.
//
//	data                            the embedded store in directory data
//	embedded:data?durability=memory the same, with options; see package kv/embedded
//	memory:                         a new store in memory
//	foundationdb:/etc/fdb.cluster   a cluster, if the program imports kv/foundationdb
//	etcd://host:2379,host:2379      a cluster, if the program imports kv/etcd
//
// What has no scheme is a directory, and so is what begins with one letter and a
// colon, as paths on Windows do. A directory whose name begins as a URL does is opened
// as ./NAME, and one with a question mark in it by embedded.Open.
//
// The embedded store is made if there is none, and belongs to one process at a
// time. The error for a URL that means nothing wraps kv.ErrInvalid. ctx bounds the opening,
// and not the life of the store. Close the store when it is no longer needed.
func Open(ctx context.Context, url string) (kv.DB, error) {
	if url == "" {
		return nil, fmt.Errorf("%w: conq: open needs a directory or a URL", kv.ErrInvalid)
	}
	scheme, isURL := cutScheme(url)
	if !isURL {
		return kv.Open(ctx, "embedded:"+url)
	}
	if !slices.Contains(kv.Schemes(), scheme) {
		return nil, unknownScheme(scheme)
	}
	return kv.Open(ctx, scheme+url[len(scheme):])
}

// cutScheme returns the scheme of url in lower case, as schemes are compared, and
// whether it has one.
func cutScheme(url string) (string, bool) {
	scheme, _, found := strings.Cut(url, ":")
	if !found || len(scheme) < 2 || !isLetter(scheme[0]) {
		return "", false
	}
	for i := range len(scheme) {
		if c := scheme[i]; !isLetter(c) && (c < '0' || c > '9') && !strings.ContainsRune("+-.", rune(c)) {
			return "", false
		}
	}
	return strings.ToLower(scheme), true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func unknownScheme(scheme string) error {
	if scheme == "foundationdb" || scheme == "etcd" {
		return fmt.Errorf("%w: conq: this program has no engine for %q: it must import github.com/conq-go/conq/kv/%s",
			kv.ErrInvalid, scheme+":", scheme)
	}
	return fmt.Errorf("%w: conq: no engine for %q: there are %s (a directory of that name is opened by ./%s:)",
		kv.ErrInvalid, scheme+":", strings.Join(kv.Schemes(), ", "), scheme)
}

// MaxName is the length of the longest name of a queue, in bytes.
const MaxName = queue.MaxName

// Kind is what kind of queue a name stands for, as text.
type Kind = queue.Kind

// The kinds of queues.
const (
	KindQueue         = queue.KindQueue
	KindPriorityQueue = queue.KindPriorityQueue
	KindWorkQueue     = queue.KindWorkQueue // see package work
)

// Info is an entry of the catalogue.
type Info struct {
	Name   string
	Kind   Kind
	Format int // of the queue's keys and values; 1 is the only one yet

	// Deleting tells that a deletion of the queue has begun, and not ended: it takes several transactions, or its process has
	// died. Nothing can be added, and a further DeleteQueue completes it.
	Deleting bool
}

// Queues returns the queues of a store, by name. They are those that were opened
// at least once; an item that another program wrote under a name that was never
// opened here does not count.
//
// It reads one snapshot unless that takes longer than the engine allows; then it
// goes on behind the last name that it has read. A queue of a newer format, or of
// a kind that this version does not know, is among them. An entry that can't be
// read is an ErrCorrupt that names the first such, with all queues that can be read; a store of a newer format, an ErrFormat.
func Queues(ctx context.Context, db kv.DB) ([]Info, error) {
	all, err := layout.List(ctx, db)
	var infos []Info
	for _, i := range all {
		infos = append(infos, Info(i))
	}
	return infos, err
}

// Lookup returns the entry of one queue, and whether there is one. It does not
// make one. The error is an ErrName, an ErrCorrupt if the entry can't be read, or an
// ErrFormat if the store has a newer format. A queue of a newer format is no error.
func Lookup(ctx context.Context, db kv.DB, name string) (Info, bool, error) {
	info, found, err := layout.Lookup(ctx, db, name)
	return Info(info), found, err
}

// DeleteQueue deletes a queue of any kind, with all that the store has of it: items, jobs, periodic jobs, settings, and its entry in the
// catalogue. The error is an ErrNoQueue if there is none, or an ErrFormat if it, or the store, was written by a newer version.
//
// Others see it vanish at once, in one transaction. That conflicts with no enqueue or push: one at the same time comes before it, and its item is
// gone, or after it. Only if a work queue has more jobs than one transaction can look at, or is busy, the deletion takes three steps. From the
// first on nothing can be added (the error is an ErrDeleting), and jobs are no longer found by their ids alone; else the queue works until the last
// step, in which all of it goes. If the process dies between, [Info.Deleting] tells, and calling DeleteQueue again completes it.
//
// Handles that are open stay valid, here and in other processes. What adds (enqueue, push, put, a periodic job, a setting) makes the queue
// anew, with its entry, in the same transaction; if the name is that of a queue of another kind by then, it is an ErrKind, and nothing is written. What takes or
// looks finds it empty. Leases are lost. Who waits goes on waiting, and gets what is added to the new queue.
func DeleteQueue(ctx context.Context, db kv.DB, name string) error {
	return remove.Queue(ctx, db, name)
}

// Transactor is a Queue or a PriorityQueue.
type Transactor interface{ bytes() *handle.Handle }

func (q *Queue[T]) bytes() *handle.Handle         { return q.h }
func (q *PriorityQueue[T]) bytes() *handle.Handle { return q.h }

// Transact runs f in a transaction, as Transact of q's store does, but goes on until it knows what became of a commit whose outcome
// is unknown, as kv.TransactOnce does, and returns what the attempt returned that committed. f uses In of q, and of other queues of
// the same store, to move items for example. It may run several times, and must return the errors of what it uses. Nothing but its
// result tells which attempt has committed.
func Transact[R any](ctx context.Context, q Transactor, f func(kv.Tx) (R, error)) (R, error) {
	result, err := q.bytes().Transact(ctx, func(tx kv.Tx) (any, error) { return f(tx) })
	if err != nil {
		var none R
		return none, err
	}
	return result.(R), nil
}

// MoveOptions are the options of Move. The zero value is the default.
type MoveOptions = queue.MoveOptions

// Move moves up to n items from one queue to the end of another one of the same type and store, and returns how many, or
// ErrEmpty. It is one transaction, so each item is in exactly one of the two queues, whatever happens. Of a priority queue
// it moves the lowest priorities first, or with MoveOptions.From the highest, and items keep their priorities. The bytes of
// payloads stay as they are.
//
// They may be fewer than there are: at most 1,000, and as many as Queue.DequeueN takes at once. If the outcome of the commit is
// unknown, Move finds it out, as [Transact] does. It conflicts as a take within a transaction does (see QueueTx.DequeueN),
// and not with what is added to either queue.
// The error is a kv.ErrInvalid if both are one queue, or n is not positive, and an ErrKind if they are of different kinds. At
// most one MoveOptions may be given.
func Move[Q Transactor](ctx context.Context, from, to Q, n int, opts ...MoveOptions) (int, error) {
	o, err := options.Only(opts)
	if err != nil {
		return 0, fmt.Errorf("conq: move: %w", err)
	}
	return handle.Move(ctx, from.bytes(), to.bytes(), o.From, n)
}
