package conq

import (
	"context"
	"fmt"

	"github.com/conq-go/conq/internal/check"
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
	FindingFormat    FindingKind = FindingKind(check.FindingFormat)    // the store's format is missing or does not decode
	FindingCatalogue FindingKind = FindingKind(check.FindingCatalogue) // an entry of the catalogue does not decode
	FindingNewer     FindingKind = FindingKind(check.FindingNewer)     // a queue of a newer format, or of an unknown kind
	FindingDeleting  FindingKind = FindingKind(check.FindingDeleting)  // note: a queue whose deletion has begun, and not ended
	FindingNoEntry   FindingKind = FindingKind(check.FindingNoEntry)   // something of a queue that is not in the catalogue
	FindingSystemKey FindingKind = FindingKind(check.FindingSystemKey) // keys beside the queues that conq does not know
	FindingOutside   FindingKind = FindingKind(check.FindingOutside)   // note: keys of other programs
	FindingForeign   FindingKind = FindingKind(check.FindingForeign)   // note: a queue that only the recipes have used

	FindingItemKey   FindingKind = FindingKind(check.FindingItemKey)   // a key in a queue that is not an item's
	FindingItemValue FindingKind = FindingKind(check.FindingItemValue) // an item that CheckOptions.Decode refuses
	FindingPieces    FindingKind = FindingKind(check.FindingPieces)    // an item whose pieces are missing or of a wrong size
	FindingOrphans   FindingKind = FindingKind(check.FindingOrphans)   // pieces of no item
	FindingPieceKey  FindingKind = FindingKind(check.FindingPieceKey)  // a key among the pieces that is not a piece's

	FindingJob FindingKind = FindingKind(check.FindingJob) // something of a work queue that none of its verbs leaves

	FindingStagingKey    FindingKind = FindingKind(check.FindingStagingKey)    // a key or value that does not decode
	FindingServedRequest FindingKind = FindingKind(check.FindingServedRequest) // a request that has its result already
	FindingIncomplete    FindingKind = FindingKind(check.FindingIncomplete)    // a result whose items are not numbered from 0
	FindingTwice         FindingKind = FindingKind(check.FindingTwice)         // a staged item that is somewhere else, too
	FindingStagedItemKey FindingKind = FindingKind(check.FindingStagedItemKey) // a staged item of another queue, or none
	FindingPlace         FindingKind = FindingKind(check.FindingPlace)         // a place of no result
	FindingNoPlace       FindingKind = FindingKind(check.FindingNoPlace)       // a result without its place
	FindingOutcome       FindingKind = FindingKind(check.FindingOutcome)       // an outcome key or value that does not decode
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
