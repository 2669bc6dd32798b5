package cli

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/spf13/cobra"
)

const checkLong = `Read all keys of the store, and tell what is not as conq leaves it: entries of
the catalogue, keys and staged requests that do not decode, split items with
missing pieces, and what is left over of either; of work queues, jobs that are not
where their state says, and numbers of jobs that are wrong. The store may be in
use: what others are just doing is no finding. With a --codec other than bytes, each
item in a queue is to be of that form, too; payloads of jobs may be of any.

Nothing is written, unless --repair is given: then pieces of no item and staging
keys that hold no item are removed, staged items go back into their queue if
nobody has collected them in time, and jobs are entered where they belong, and
counted anew. No item or job is removed, nor anything that does not decode.

Each finding is a line; docs/reference/check.md describes them all. Notes, such as keys
of other programs in the same store, are no faults.

Exit codes: 0 the store is sound, or is again, 1 faults remain or there is no
store, 2 wrong usage, 3 failure.`

func (a *app) check() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Verify all keys of the store, and repair what can be repaired without a loss",
		Long:    checkLong,
		Example: "  conq check\n  conq check --repair\n  conq check --codec json --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := conq.CheckOptions{Repair: repair}
			if a.codec != "bytes" {
				o.Decode = func(_ string, payload []byte) error {
					_, err := a.itemCodec().Decode(payload)
					return err
				}
			}
			return withStore(a.openExisting, func(db kv.DB) error { return a.checkStore(cmd, db, o) })
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "repair what can be repaired without a loss")
	return cmd
}

func (a *app) checkStore(cmd *cobra.Command, db kv.DB, o conq.CheckOptions) error {
	p := a.newProgress(-1)
	o.Progress = func(r conq.CheckReport) { p.set(plural(r.Keys, "key"), r.Bytes) }
	var failed error
	o.Found = func(f conq.Finding) {
		if p.clear(); failed == nil {
			failed = a.printFinding(f)
		}
	}
	report, err := conq.Check(cmd.Context(), db, o)
	p.finish()
	if err == nil {
		err = failed
	}
	if err == nil {
		err = a.printCheck(report)
	}
	// The findings decide, even if nobody reads them.
	if (err == nil || isUnread(err)) && !report.Sound() {
		err = errNothing
	}
	return err
}

// finding is one with --json.
type finding struct {
	Kind     conq.FindingKind `json:"kind"`
	Queue    string           `json:"queue,omitempty"`
	Key      string           `json:"key"`     // as a tuple, or else in hexadecimal
	KeyBytes string           `json:"key_hex"` // of the first key
	Keys     int              `json:"keys"`    // how many it is about
	Text     string           `json:"text"`    // what is wrong
	To       string           `json:"to_do,omitempty"`
	Note     bool             `json:"note"` // nothing is wrong
	Can      bool             `json:"repairable"`
	Repaired bool             `json:"repaired"`
}

func (a *app) printFinding(f conq.Finding) error {
	if a.json {
		return a.printJSON(struct {
			Finding finding `json:"finding"`
		}{finding{
			Kind: f.Kind, Queue: f.Queue, Key: f.KeyText(), KeyBytes: hex.EncodeToString(f.Key), Keys: f.Keys,
			Text: f.Text, To: f.To, Note: f.Note, Can: f.Repairable, Repaired: f.Repaired,
		}})
	}
	text := f.String()
	if f.Note {
		text = "note: " + text
	}
	if before, ok := strings.CutSuffix(text, "; can be repaired"); ok {
		text = before + "; --repair repairs it"
	}
	return a.printf("%s\n", text)
}

// checked is a report with --json.
type checked struct {
	conq.CheckReport
	Sound bool `json:"sound"`
}

func (a *app) printCheck(r conq.CheckReport) error {
	if a.json {
		return a.printJSON(struct {
			Report checked `json:"report"`
		}{checked{r, r.Sound()}})
	}
	w := a.table()
	fmt.Fprintf(w, "keys\t%s, %s\n", count(r.Keys), size(r.Bytes))
	fmt.Fprintf(w, "queues\t%s\nitems\t%s\n", count(r.Queues), count(r.Items))
	for _, row := range []struct {
		name   string
		n, old int
		of     string
	}{
		{"further pieces", r.Pieces, 0, ""},
		{"jobs", r.Jobs, 0, ""},
		{"staged requests", r.Requests, r.ExpiredRequests, "expired"},
		{"staged results", r.Results, r.ExpiredResults, "expired"},
		{"staged items", r.StagedItems, r.ExpiredItems, "expired"},
		{"waiting", r.Waiting, r.ExpiredWaiting, "expired"},
		{"outcomes", r.Outcomes, r.OldOutcomes, "of clients long gone"},
		{"signals", r.Signals, 0, ""},
		{"keys of other programs", r.Other, 0, ""},
		{"keys not checked", r.Unchecked, 0, ""},
		{"items put back", r.PutBack, 0, ""},
	} {
		switch {
		case row.old > 0:
			fmt.Fprintf(w, "%s\t%s, %s %s\n", row.name, count(row.n), count(row.old), row.of)
		case row.n > 0:
			fmt.Fprintf(w, "%s\t%s\n", row.name, count(row.n))
		}
	}
	fmt.Fprintf(w, "findings\t%s\n", findings(r))
	return w.Flush()
}

// findings says what there is to be said about a store.
func findings(r conq.CheckReport) string {
	text := "none: the store is sound"
	switch {
	case r.Faults > 0:
		text = plural(r.Faults, "fault") + " left"
	case r.Repaired > 0:
		text = "the store is sound again"
	}
	if r.Repaired > 0 {
		text += ", " + count(r.Repaired) + " repaired"
	}
	if r.Notes > 0 {
		text += ", " + plural(r.Notes, "note")
	}
	return text
}
