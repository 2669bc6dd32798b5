package conq

import (
	"context"

	"github.com/conq-go/conq/internal/catalogue"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

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
	all, err := catalogue.List(ctx, db)
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
	info, found, err := catalogue.Lookup(ctx, db, name)
	return Info(info), found, err
}
