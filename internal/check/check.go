// Package check finds what is not as conq leaves it in a store, and repairs what it can:
// conq.Check.
package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
)

// CheckOptions are the options of Check. The zero value only looks.
type CheckOptions struct {
	// Repair repairs what can be repaired without a loss. Default: false, nothing is
	// written.
	Repair bool

	// Found is told each finding, in the goroutine of Check, as soon as it is
	// certain and, with Repair, repaired. It may use the store. Default: nobody is
	// told, and the report has the numbers.
	Found func(Finding)

	// Progress is told what there is so far, after each page of keys. Default:
	// nobody is told.
	Progress func(CheckReport)

	// Decode, if not nil, returns what is wrong with the payload of an item that
	// lies in a queue, for example what the queue's codec says. It runs within
	// transactions, possibly several times for an item. Default: any payload will do.
	Decode func(queue string, payload []byte) error
}

// Settings are what tests set to other values than their defaults.
type Settings struct {
	Page int              // keys in a transaction; default 1000
	Now  func() time.Time // default time.Now
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

	once bool // one of the kind is enough for a queue
}

// FindingKind is the kind of a finding. docs/reference/check.md describes each.
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

	FindingStagingKey    FindingKind = staging.FaultKey         // a key or value that does not decode
	FindingServedRequest FindingKind = staging.FaultServed      // a request that has its result already
	FindingIncomplete    FindingKind = staging.FaultIncomplete  // a result whose items are not numbered from 0
	FindingTwice         FindingKind = staging.FaultTwice       // a staged item that is somewhere else, too
	FindingStagedItemKey FindingKind = staging.FaultForeignItem // a staged item of another queue, or none
	FindingPlace         FindingKind = staging.FaultPlace       // a place of no result
	FindingNoPlace       FindingKind = staging.FaultNoPlace     // a result without its place
	FindingOutcome       FindingKind = "outcome"                // an outcome key or value that does not decode
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

const (
	defaultPage       = 1000
	pageBytes   int64 = 4 << 20
)

// Check is conq.Check.
func (s Settings) Check(ctx context.Context, db kv.DB, o CheckOptions) (CheckReport, error) {
	if ctx == nil {
		return CheckReport{}, reads.ErrContext
	}
	if db == nil {
		return CheckReport{}, reads.ErrNoDB
	}
	c := newChecker(db, o, s)
	err := c.all(ctx)
	return c.report, err
}

func newChecker(db kv.DB, o CheckOptions, s Settings) *checker {
	if s.Page <= 0 {
		s.Page = defaultPage
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	return &checker{db: db, o: o, settings: s, told: make(map[string]bool), stages: make(map[string]*staging.Checker)}
}

// checker is a check under way.
type checker struct {
	db       kv.DB
	o        CheckOptions
	settings Settings

	next   []byte // the first key that was not looked at yet
	done   bool
	report CheckReport

	found []Finding       // on this page, to be told
	todo  [][]byte        // keys of units on this page that are to be repaired
	run   run             // of keys that are told of together
	told  map[string]bool // ids of findings of which one is enough

	stages map[string]*staging.Checker // by queue: the last one's, and those of the page
	staged string                      // that queue

	jobs   *checkedJobs // the last work queue
	totals []total      // numbers of work queues that are wrong
}

// all reads page after page.
func (c *checker) all(ctx context.Context) error {
	for !c.done {
		keys, bytes := c.report.Keys+c.settings.Page, c.report.Bytes+pageBytes
		for {
			before := c.report.Keys
			err := reads.View(ctx, c.db, func(r kv.Reader) error { return c.page(r, keys, bytes) })
			if reads.TooOld(err) && c.report.Keys > before {
				continue // behind what was read in time
			}
			if err != nil {
				return err
			}
			break
		}
		if err := c.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settle tells what was found on a page, and repairs.
func (c *checker) settle(ctx context.Context) error {
	if c.done {
		c.endRun()
	}
	for _, f := range c.found {
		c.tell(f)
	}
	for _, key := range c.todo {
		if err := c.repair(ctx, key); err != nil {
			return err
		}
	}
	if err := c.settleTotals(ctx); err != nil {
		return err
	}
	c.found, c.todo = nil, nil
	maps.DeleteFunc(c.stages, func(name string, _ *staging.Checker) bool { return name != c.staged })
	if c.o.Progress != nil {
		c.o.Progress(c.report)
	}
	return nil
}

// tell counts a finding and passes it on.
func (c *checker) tell(f Finding) {
	switch {
	case f.Note:
		c.report.Notes++
	case f.Repaired:
		c.report.Repaired++
	default:
		c.report.Faults++
	}
	if c.o.Found != nil {
		c.o.Found(f)
	}
}

// attempt is what an attempt to repair a unit has found, and put back.
type attempt struct {
	findings []Finding
	putBack  int
	repaired bool
}

// repair repairs a unit, if it is still to be repaired.
func (c *checker) repair(ctx context.Context, key []byte) error {
	var last, unknown attempt // unknown is one that may have repaired it
	for {
		err := c.db.Transact(ctx, func(tx kv.Tx) error {
			last = attempt{}
			u, err := c.again(tx, key)
			last.findings = u.findings
			if err != nil || u.repair == nil {
				return err
			}
			last.putBack, last.repaired = u.putBack, true
			return u.repair(tx)
		})
		switch {
		case err == nil:
			if !last.repaired && unknown.repaired && len(last.findings) == 0 {
				last = unknown
			}
			c.repaired(last)
			return nil
		case errors.Is(err, kv.ErrTooLarge):
			for _, f := range last.findings {
				f.Repairable, f.To = false, fmt.Sprintf("it could not be repaired: %v", err)
				c.tell(f)
			}
			return nil
		case !errors.Is(err, kv.ErrCommitUnknown) || ctx.Err() != nil:
			return err
		}
		if last.repaired {
			unknown = last
		}
	}
}

// repaired tells what came of a repair.
func (c *checker) repaired(a attempt) {
	for _, f := range a.findings {
		f.Repaired = a.repaired && f.Repairable
		c.tell(f)
	}
	c.report.PutBack += a.putBack
}

// again looks at a unit once more, in the transaction that is to repair it.
func (c *checker) again(tx kv.Tx, key []byte) (unit, error) {
	value, err := tx.Get(key)
	if err != nil || value == nil {
		return unit{}, err
	}
	l, err := c.look(tx)
	if err != nil {
		return unit{}, err
	}
	l.again = true
	var ignored CheckReport
	return l.unit(kv.KeyValue{Key: key, Value: value}, &ignored)
}
