package conq

import (
	"context"
	"fmt"

	"github.com/conq-go/conq/internal/check"
	"github.com/conq-go/conq/kv"
)

// CheckOptions are the options of Check. The zero value only looks.
//
//   - Repair bool repairs what can be repaired without a loss. Default: false, nothing is
//     written.
//   - Found func(Finding) is told each finding, in the goroutine of Check, as soon as it is
//     certain and, with Repair, repaired. It may use the store. Default: nobody is
//     told, and the report has the numbers.
//   - Progress func(CheckReport) is told what there is so far, after each page of keys. Default:
//     nobody is told.
//   - Decode func(queue string, payload []byte) error, if not nil, returns what is wrong with the
//     payload of an item that lies in a queue, for example what the queue's codec says. It runs
//     within transactions, possibly several times for an item. Default: any payload will do.
type CheckOptions = check.CheckOptions

// Finding is something in a store that is not as conq leaves it, or a note. It has
//
//   - its Kind, the Queue whose it is, or "", the Key that it is about, or the first of several in a
//     row, and how many Keys these are;
//   - Text, which says what is wrong, and To, which says what to do about it, or "";
//   - Note, which tells that nothing is wrong: it should only be known;
//   - Repairable, which tells that Check with Repair repairs it, and Repaired, that it has.
//
// Its method String returns all of it in one line, and KeyText the key in the form of
// docs/reference/format.md.
type Finding = check.Finding

// FindingKind is the kind of a finding, as text. docs/reference/check.md describes each.
type FindingKind = check.FindingKind

// The kinds of findings. Those of staging are about the keys in docs/reference/format.md,
// section 7.
const (
	FindingFormat    = check.FindingFormat    // the store's format is missing or does not decode
	FindingCatalogue = check.FindingCatalogue // an entry of the catalogue does not decode
	FindingNewer     = check.FindingNewer     // a queue of a newer format, or of an unknown kind
	FindingDeleting  = check.FindingDeleting  // note: a queue whose deletion has begun, and not ended
	FindingNoEntry   = check.FindingNoEntry   // something of a queue that is not in the catalogue
	FindingSystemKey = check.FindingSystemKey // keys beside the queues that conq does not know
	FindingOutside   = check.FindingOutside   // note: keys of other programs
	FindingForeign   = check.FindingForeign   // note: a queue that only the recipes have used

	FindingItemKey   = check.FindingItemKey   // a key in a queue that is not an item's
	FindingItemValue = check.FindingItemValue // an item that CheckOptions.Decode refuses
	FindingPieces    = check.FindingPieces    // an item whose pieces are missing or of a wrong size
	FindingOrphans   = check.FindingOrphans   // pieces of no item
	FindingPieceKey  = check.FindingPieceKey  // a key among the pieces that is not a piece's

	FindingJob = check.FindingJob // something of a work queue that none of its verbs leaves

	FindingStagingKey    = check.FindingStagingKey    // a key or value that does not decode
	FindingServedRequest = check.FindingServedRequest // a request that has its result already
	FindingIncomplete    = check.FindingIncomplete    // a result whose items are not numbered from 0
	FindingTwice         = check.FindingTwice         // a staged item that is somewhere else, too
	FindingStagedItemKey = check.FindingStagedItemKey // a staged item of another queue, or none
	FindingPlace         = check.FindingPlace         // a place of no result
	FindingNoPlace       = check.FindingNoPlace       // a result without its place
	FindingOutcome       = check.FindingOutcome       // an outcome key or value that does not decode
)

// CheckReport is what Check has read and found. Sound tells whether nothing is wrong, or nothing any
// more. All else are numbers:
//
//   - Keys, and the Bytes of all keys and values; Queues, which are in the catalogue and known to this
//     version; Items in queues, further Pieces of items, and Jobs in work queues;
//   - staged Requests, and those of them that are past their deadline, ExpiredRequests; Results,
//     of which whoever looks next puts ExpiredResults back; StagedItems and ExpiredItems in results;
//     Waiting and ExpiredWaiting, entries in the line of consumers that wait;
//   - Outcomes, outcome keys, and OldOutcomes, those of lanes not used for kv.OutcomeAge; Signals;
//     Other, keys of other programs; Unchecked, keys of queues that are newer, or not in the
//     catalogue;
//   - Faults, findings that remain; Repaired, those that were repaired; Notes, those that are only
//     notes; PutBack, items that were put back into their queues.
type CheckReport = check.CheckReport

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
	o, err := only(opts)
	if err != nil {
		return CheckReport{}, fmt.Errorf("conq: check: %w", err)
	}
	return check.Settings{}.Check(ctx, db, o)
}
