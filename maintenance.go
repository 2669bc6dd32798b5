package conq

import (
	"context"
	"fmt"
	"io"

	"github.com/conq-go/conq/internal/check"
	"github.com/conq-go/conq/internal/dump"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
)

// CheckOptions are the options of Check. The zero value only looks.
type CheckOptions struct {
	// Repair repairs what can be repaired without a loss. Default: false, nothing is written.
	Repair bool

	// Found is told each finding, in the goroutine of Check, as soon as it is certain and, with
	// Repair, repaired. It may use the store. Default: nobody is told, and the report has the numbers.
	Found func(Finding)

	// Progress is told what there is so far, after each page of keys. Default: nobody is told.
	Progress func(CheckReport)

	// Decode returns what is wrong with the payload of an item that lies in a queue, for example
	// what the queue's codec says. It runs within transactions, possibly several times for an item.
	// Default: any payload will do.
	Decode func(queue string, payload []byte) error
}

// Finding is something in a store that is not as conq leaves it, or a note.
type Finding struct {
	Kind  FindingKind
	Queue string // whose, or ""
	Key   []byte // of what it is about, or the first of several keys in a row
	Keys  int    // how many keys it is about
	Text  string // what is wrong
	To    string // what to do about it, or ""

	// Note tells that nothing is wrong: it should only be known.
	Note bool
	// Repairable tells that Check with Repair repairs it; Repaired, that it has.
	Repairable, Repaired bool
}

// String returns all of it in one line.
func (f Finding) String() string { return f.inner().String() }

// KeyText returns the key in the form of docs/reference/format.md.
func (f Finding) KeyText() string { return f.inner().KeyText() }

func (f Finding) inner() check.Finding {
	return check.Finding{
		Kind: check.FindingKind(f.Kind), Queue: f.Queue, Key: f.Key, Keys: f.Keys, Text: f.Text, To: f.To,
		Note: f.Note, Repairable: f.Repairable, Repaired: f.Repaired,
	}
}

func findingOf(f check.Finding) Finding {
	return Finding{
		Kind: FindingKind(f.Kind), Queue: f.Queue, Key: f.Key, Keys: f.Keys, Text: f.Text, To: f.To,
		Note: f.Note, Repairable: f.Repairable, Repaired: f.Repaired,
	}
}

// FindingKind is the kind of a finding, as text. docs/reference/check.md describes each.
type FindingKind string

// The kinds of findings. Those of staging are about the keys in docs/reference/format.md,
// section 7.
const (
	FindingFormat    FindingKind = "format"          // the store's format is missing or does not decode
	FindingCatalogue FindingKind = "catalogue entry" // an entry of the catalogue does not decode
	FindingNewer     FindingKind = "newer queue"     // a queue of a newer format, or of an unknown kind
	FindingDeleting  FindingKind = "deleting"        // note: a queue whose deletion has begun, and not ended
	FindingNoEntry   FindingKind = "no entry"        // something of a queue that is not in the catalogue
	FindingSystemKey FindingKind = "unknown key"     // keys beside the queues that conq does not know
	FindingOutside   FindingKind = "other keys"      // note: keys of other programs
	FindingForeign   FindingKind = "foreign queue"   // note: a queue that only the recipes have used

	FindingItemKey   FindingKind = "item key"   // a key in a queue that is not an item's
	FindingItemValue FindingKind = "item value" // an item that CheckOptions.Decode refuses
	FindingPieces    FindingKind = "pieces"     // an item whose pieces are missing or of a wrong size
	FindingOrphans   FindingKind = "orphans"    // pieces of no item
	FindingPieceKey  FindingKind = "piece key"  // a key among the pieces that is not a piece's

	FindingJob FindingKind = "job" // something of a work queue that none of its verbs leaves

	FindingStagingKey    FindingKind = "staging key"          // a key or value that does not decode
	FindingServedRequest FindingKind = "served request"       // a request that has its result already
	FindingIncomplete    FindingKind = "incomplete result"    // a result whose items are not numbered from 0
	FindingTwice         FindingKind = "item twice"           // a staged item that is somewhere else, too
	FindingStagedItemKey FindingKind = "staged key"           // a staged item of another queue, or none
	FindingPlace         FindingKind = "place without result" // a place of no result
	FindingNoPlace       FindingKind = "result without place" // a result without its place
	FindingOutcome       FindingKind = "outcome"              // an outcome key or value that does not decode
)

// CheckReport is what Check has read and found.
type CheckReport struct {
	Keys   int   `json:"keys"`   // all keys
	Bytes  int64 `json:"bytes"`  // of keys and values
	Queues int   `json:"queues"` // in the catalogue, that this version knows
	Items  int   `json:"items"`  // in queues
	Pieces int   `json:"pieces"` // further pieces of items
	Jobs   int   `json:"jobs"`   // in work queues

	Requests        int `json:"requests"` // staged
	ExpiredRequests int `json:"expired_requests"`
	Results         int `json:"results"`         // of such requests
	ExpiredResults  int `json:"expired_results"` // which are put back by whoever looks next
	StagedItems     int `json:"staged_items"`    // in results
	ExpiredItems    int `json:"expired_items"`
	Waiting         int `json:"waiting"` // entries in the line of those who wait
	ExpiredWaiting  int `json:"expired_waiting"`

	Outcomes    int `json:"outcomes"`     // outcome keys
	OldOutcomes int `json:"old_outcomes"` // those of lanes not used for kv.OutcomeAge
	Signals     int `json:"signals"`
	Other       int `json:"other"`     // keys of other programs
	Unchecked   int `json:"unchecked"` // keys of queues that are newer, or not in the catalogue

	Faults   int `json:"faults"`   // findings that remain
	Repaired int `json:"repaired"` // findings that were repaired
	Notes    int `json:"notes"`    // findings that are only notes
	PutBack  int `json:"put_back"` // items that were put back into their queues
}

// Sound tells whether nothing is wrong, or nothing any more.
func (r CheckReport) Sound() bool { return r.Faults == 0 }

// Check reads the whole key space of a store, and finds what is not as conq leaves
// it: entries of the catalogue, keys and staged requests that do not decode, split
// payloads with missing pieces, and what is left over of either. docs/reference/check.md
// lists all of it. It works on any engine, and while the store is in use.
//
// Check reads one page of keys after the other, in their order, each in a
// transaction of its own, and all that it judges together in one transaction: so
// what others are just doing is never a finding. Between two pages anything may
// change: the numbers of the report are those of no one moment, and what comes up
// behind the page that is being read is not looked at. It holds one page in memory,
// and the keys of the items that are staged in one queue.
//
// Without CheckOptions.Repair nothing is written, and nothing conflicts. With it,
// each finding that can be repaired is, in a transaction that looks again, with
// conflicts on all that it depends on; what is not there any more is not told.
// Staged items are put back whose deadline is over. No item is ever removed, nor
// anything that does not decode. A finding that does not fit into one transaction
// stays.
//
// The error is ErrFormat if the store is newer than this program, and then nothing
// else was looked at; the cause of ctx, if it ends; or one of the store. Findings
// are not errors. The report has what was found up to then.
func Check(ctx context.Context, db kv.DB, opts ...CheckOptions) (CheckReport, error) {
	o, err := options.Only(opts)
	if err != nil {
		return CheckReport{}, fmt.Errorf("conq: check: %w", err)
	}
	inner := check.CheckOptions{Repair: o.Repair, Decode: o.Decode}
	if o.Found != nil {
		inner.Found = func(f check.Finding) { o.Found(findingOf(f)) }
	}
	if o.Progress != nil {
		inner.Progress = func(r check.CheckReport) { o.Progress(CheckReport(r)) }
	}
	report, err := check.Settings{}.Check(ctx, db, inner)
	return CheckReport(report), err
}

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
