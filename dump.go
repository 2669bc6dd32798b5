package conq

import (
	"context"
	"fmt"
	"io"

	"github.com/conq-go/conq/internal/dump"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
)

// DumpOptions are the options of Dump. The zero value is the default.
type DumpOptions struct {
	// Queues says which queues, and in which order. Each must be there; one that only
	// another program has used, by FoundationDB's recipes, may be among them. Default,
	// also of an empty list: all that the catalogue has, by name.
	Queues []string

	// Progress is told how far it is, now and then and at the end of each queue, in
	// the goroutine of the caller. It must be quick: a transaction is open. Default:
	// nobody is told.
	Progress func(Progress)
}

// Progress is how far a Dump or Load is.
type Progress struct {
	Queue string // the one under way
	Items int    // of all queues so far
	Bytes int64  // of their payloads
}

// QueueReport is what was written, or loaded, of a queue.
type QueueReport struct {
	Name  string `json:"name"`
	Kind  Kind   `json:"kind"`
	Items int    `json:"items"`
	Bytes int64  `json:"bytes"` // of their payloads
	Whole bool   `json:"whole"` // nothing of the queue is missing

	// Of a work queue that was loaded.
	Duplicates int  `json:"duplicates,omitempty"` // jobs that were left out, as one of the same Unique was there
	NewIDs     int  `json:"new_ids,omitempty"`    // jobs that have another id than in the dump
	Paused     bool `json:"paused,omitempty"`     // it gives out no jobs until it is resumed
}

// DumpReport is what Dump has written.
type DumpReport struct {
	Queues []QueueReport
	Items  int   // of all queues
	Bytes  int64 // of their payloads

	// Snapshots is how many snapshots were read. With 1, all of the dump is as the store
	// was at one moment.
	Snapshots int
}

// Dump writes queues to w, in a form that does not depend on the engine: names, kinds,
// and items in their order, with their priorities and their payloads as the codec wrote
// them. Load reads it; docs/reference/format.md says what the bytes are. It needs no codec and
// changes nothing in the store. It does not close w.
//
//   - What it sees: one snapshot of all queues, if it can be read and written in the time
//     that the engine allows (kv.Limits.Age). Otherwise it goes on in a later one, behind
//     the last item that it has written, as Queue.All does: still in order and nothing
//     twice, but then it may have items that were added after it began, and miss such
//     that were taken since, also one that was moved to a queue that had been written
//     before. DumpReport.Snapshots tells which it was. A w that is slow makes it longer.
//   - Staged items: those that were taken by a staged request and wait to be collected
//     (see Staging) are in the dump, in their old places. Their consumers may get them
//     still, as they may any item after a dump.
//   - Work queues: jobs in all states, in the order of their ids, with claims, rates, periodic jobs and whether the
//     queue is paused. Over several snapshots a job may be in it that was done meanwhile.
//   - Not in it: leases, staged requests, and all else that clients write for each other.
//   - Memory: an item, a block of 64 KiB, the catalogue, and the keys of staged items.
//
// After an error w has the beginning of a dump, which Load refuses at its end. The
// report says what is in it. Errors: ErrNoQueue, before anything is written; ErrFormat if
// a queue is of a newer format or an unknown kind, and ErrCorrupt, before anything is
// written, too; ErrDecode for an item whose key is not of its queue, or of which a piece
// is missing; those of w and of the store; ctx's cause, for which a w that blocks is
// waited for. At most one DumpOptions may be given.
func Dump(ctx context.Context, db kv.DB, w io.Writer, opts ...DumpOptions) (DumpReport, error) {
	o, err := options.Only(opts)
	if err != nil {
		return DumpReport{}, fmt.Errorf("conq: dump: %w", err)
	}
	report, err := dump.Dump(ctx, db, w, dump.DumpOptions{Queues: o.Queues, Progress: progressTo(o.Progress)})
	return DumpReport{Queues: queueReports(report.Queues), Items: report.Items, Bytes: report.Bytes, Snapshots: report.Snapshots}, err
}

// Existing says what Load does about a queue that has items already.
type Existing int

const (
	// ExistingRefuse makes Load fail with ErrNotEmpty before it changes anything.
	ExistingRefuse Existing = iota
	// ExistingAppend puts the items behind those that are there; in a priority queue,
	// behind those of the same priority; jobs between them, by when they were put.
	ExistingAppend
	// ExistingReplace removes the items that are there, of each queue as its turn comes; of a work queue also
	// its claims and periodic jobs.
	ExistingReplace
)

// LoadOptions are the options of Load. The zero value is the default.
type LoadOptions struct {
	// Existing says what to do about queues that have items already. Default:
	// ExistingRefuse.
	Existing Existing

	// DryRun reads all of the dump, looks at the store as Load does before it begins,
	// and changes nothing. The report is what Load would put in. Default: false.
	DryRun bool

	// Progress is told how far it is, after each transaction, in the goroutine of the
	// caller. Default: nobody is told.
	Progress func(Progress)
}

// LoadReport is what Load has put in, for certain. In it is each queue of the dump, as
// far as it could be read which those are.
type LoadReport struct {
	Queues []QueueReport
	Items  int   // of all queues
	Bytes  int64 // of their payloads
}

// Load puts the queues of a dump into a store, of any engine: as Dump found them, their
// items in the same order, with the same priorities and payloads, also those that were
// split in another way. Queues that are missing are made, those without items too.
//
//   - First it looks at all queues of the dump, and changes nothing if one can't be
//     loaded: it is of another kind (ErrKind), or has items (ErrNotEmpty, unless
//     LoadOptions.Existing allows them). Others may use the store meanwhile; what they
//     add to a queue after that comes before or between the items of the dump.
//   - Then it puts in one queue after another, in transactions of up to 1,000 items and
//     1 MiB, less where the engine's limits ask for it, each item exactly once whatever
//     becomes of commits. Those who wait for items get them at once.
//   - Jobs of a work queue keep their ids, which the store gives to no other job later, and their places: beside jobs
//     that are there, each comes by when it was put. One that was leased is ready, and that attempt does not count.
//     QueueReport tells of exceptions.
//   - Nothing is put in that was not checked: what was cut off or has changed is an
//     ErrDump, and then all items before that place are in.
//   - If it fails on the way, the report says how many items of which queues are in. Load
//     does not go on there when it is called again: the queue has items, so that it is an
//     ErrNotEmpty, and nothing is ever put in twice unnoticed. Clear those queues, or use
//     ExistingReplace. When ctx ends, or the store fails, while it is unknown whether a
//     transaction has committed, the error is a kv.ErrCommitUnknown and names its items.
//   - Memory: a batch, the largest payload, and the list of queues.
//
// Other errors: ErrFormat for a dump of a later version, or a kind of queue that this one
// does not know; a *kv.TooLargeError for an item that is too large for the engine (see
// Queue.Enqueue), and then all before it are in; those of r, or io.ErrNoProgress if it
// goes on to return nothing, and of the store; ctx's cause, for which an r that blocks is
// waited for. r is read to its end; a dump with something behind it is an ErrDump. At most
// one LoadOptions may be given.
func Load(ctx context.Context, db kv.DB, r io.Reader, opts ...LoadOptions) (LoadReport, error) {
	o, err := options.Only(opts)
	if err != nil {
		return LoadReport{}, fmt.Errorf("conq: load: %w", err)
	}
	report, err := dump.Load(ctx, db, r, dump.LoadOptions{
		Existing: dump.Existing(o.Existing), DryRun: o.DryRun, Progress: progressTo(o.Progress),
	})
	return LoadReport{Queues: queueReports(report.Queues), Items: report.Items, Bytes: report.Bytes}, err
}

func progressTo(f func(Progress)) func(dump.Progress) {
	if f == nil {
		return nil
	}
	return func(p dump.Progress) { f(Progress(p)) }
}

func queueReports(all []dump.QueueReport) []QueueReport {
	var reports []QueueReport
	for _, r := range all {
		reports = append(reports, QueueReport(r))
	}
	return reports
}
