package check

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// unit is what is known about keys that are judged together.
type unit struct {
	next     []byte // the first key that it is not about
	findings []Finding
	repair   func(kv.Tx) error // does what can be done about them; or nil
	putBack  int               // so many items will that put back
	run      *run              // which of them it belongs to, or nil
}

func (u *unit) add(f Finding) {
	f.Keys = max(f.Keys, 1)
	if !f.Repairable && f.To == "" {
		f.To = advice(f)
	}
	u.findings = append(u.findings, f)
}

// id tells findings apart of which one is enough.
func (f Finding) id() string { return string(f.Kind) + "\x00" + f.Queue }

// run is keys in a row about which there is one thing to tell.
type run struct {
	Finding
	name     string // the queue's that they would belong to
	integers int    // of a foreign queue's items
}

// page looks at keys from where the check has come to, until so many keys or bytes
// were looked at in all.
func (c *checker) page(r kv.Reader, keys int, bytes int64) error {
	l, err := c.look(r)
	if err != nil {
		return err
	}
	for !c.done && c.report.Keys < keys && c.report.Bytes < bytes {
		if err := c.scan(l, keys, bytes); err != nil {
			return err
		}
	}
	return nil
}

// scan does so up to a unit of several keys: what is behind it is another read,
// as the keys between may be large, or many.
func (c *checker) scan(l *look, keys int, limit int64) error {
	for pair, err := range l.r.Range(kv.Range{Begin: c.next}, kv.RangeOptions{}) {
		if err != nil {
			return err
		}
		report := c.report
		u, err := l.unit(pair, &report)
		if err != nil {
			return err
		}
		c.report = report
		c.accept(pair.Key, u)
		if !bytes.Equal(c.next, kv.After(pair.Key)) || c.report.Keys >= keys || c.report.Bytes >= limit {
			return nil
		}
	}
	c.done = true
	return c.endJobs(l.r)
}

// accept takes over what is known of a unit.
func (c *checker) accept(key []byte, u unit) {
	c.next = u.next
	u.findings = slices.DeleteFunc(u.findings, func(f Finding) bool {
		if !f.once {
			return false
		}
		defer func() { c.told[f.id()] = true }()
		return c.told[f.id()]
	})
	switch {
	case u.run == nil:
		c.endRun()
	case c.run.Keys > 0 && c.run.Kind == u.run.Kind && c.run.Queue == u.run.Queue:
		c.run.Keys++
		c.run.name = u.run.name
	default:
		c.endRun()
		c.run = *u.run
		c.run.Key, c.run.Keys = key, 1
	}
	if c.o.Repair && u.repair != nil {
		c.todo = append(c.todo, key)
	} else {
		c.found = append(c.found, u.findings...)
	}
}

// endRun has the run told that has ended, if there is one.
func (c *checker) endRun() {
	if c.run.Keys > 0 {
		f := c.run.Finding
		f.To = advice(f)
		c.found = append(c.found, f)
	}
	c.run = run{}
}

// look is what one transaction reads for a check.
type look struct {
	c *checker
	r kv.Reader

	format int  // of the store, 0 if there is none
	unsure bool // the format does not decode: nothing is to be repaired
	again  bool // it is for one key that was looked at before

	queue *checkedQueue // the last one
}

func (c *checker) look(r kv.Reader) (*look, error) {
	format, err := layout.ReadFormat(r)
	unsure := errors.Is(err, queue.ErrCorrupt)
	if unsure {
		err = nil
	}
	return &look{c: c, r: r, format: format, unsure: unsure}, err
}

// unit judges a pair of the store, and what belongs to it.
func (l *look) unit(pair kv.KeyValue, report *CheckReport) (unit, error) {
	u := unit{next: kv.After(pair.Key)}
	report.Keys++
	report.Bytes += int64(len(pair.Key) + len(pair.Value))
	rest, ok := bytes.CutPrefix(pair.Key, layout.System())
	var err error
	if ok {
		err = l.system(&u, pair, rest, report)
	} else {
		err = l.item(&u, pair, report)
	}
	if l.unsure {
		u.repair, u.putBack = nil, 0
		for i := range u.findings {
			if f := &u.findings[i]; f.Repairable {
				f.Repairable, f.To = false, "the store's format has to be known first"
			}
		}
	}
	return u, err
}

// system judges a key behind ("conq"). rest is what follows that.
func (l *look) system(u *unit, pair kv.KeyValue, rest []byte, report *CheckReport) error {
	if bytes.Equal(pair.Key, layout.FormatKey()) {
		if l.unsure {
			u.add(Finding{Kind: FindingFormat, Key: pair.Key, Text: fmt.Sprintf("the store's format does not decode: %.40x", pair.Value)})
		}
		return nil
	}
	elem, rest, err := tuple.Next(rest)
	section, _ := elem.(string)
	if err == nil && section == "queue" {
		l.entry(u, pair, report)
		return nil
	}
	if err == nil && section == "work" && len(rest) == 0 {
		return nil // the last id of a job
	}
	if err == nil && section == "answer" {
		return nil // of a server, to a request with a key
	}
	if err == nil && section == "job" {
		return l.findable(u, pair)
	}
	var name string
	if err == nil {
		elem, rest, err = tuple.Next(rest)
		name, _ = elem.(string)
	}
	of, known := sections[section]
	if err != nil || !known || layout.CheckName(name) != nil {
		u.run = &run{Finding: Finding{Kind: FindingSystemKey, Text: "conq writes no such key"}}
		return nil
	}
	q, err := l.find(name)
	switch {
	case err != nil:
		return err
	case q.items == nil:
		report.Unchecked++
		if !q.entered {
			u.add(Finding{Kind: FindingNoEntry, Queue: name, Key: pair.Key, once: true,
				Text: fmt.Sprintf("it is not in the catalogue, but there are keys of its %s", of.what)})
		}
		return nil
	}
	return of.check(l, u, q, pair, rest, report)
}

// sections are what lies behind ("conq") for each queue.
var sections = map[string]struct {
	what  string
	check func(l *look, u *unit, q *checkedQueue, pair kv.KeyValue, rest []byte, report *CheckReport) error
}{
	"piece":   {"split payloads", (*look).pieces},
	"stage":   {"staging", (*look).stage},
	"outcome": {"outcomes", (*look).outcome},
	"signal":  {"signal", (*look).signal},
	"work":    {"jobs", (*look).job},
}

// entry judges an entry of the catalogue.
func (l *look) entry(u *unit, pair kv.KeyValue, report *CheckReport) {
	info, err := layout.UnpackEntry(pair)
	switch {
	case err != nil:
		u.add(Finding{Kind: FindingCatalogue, Queue: info.Name, Key: pair.Key,
			Text: fmt.Sprintf("the entry does not decode: %v; its value is %.40x", err, pair.Value)})
	case info.Format > layout.QueueFormat:
		u.add(Finding{Kind: FindingNewer, Queue: info.Name, Key: pair.Key,
			Text: fmt.Sprintf("it has format %d, this version of conq knows up to %d", info.Format, layout.QueueFormat)})
	case !layout.Known(info.Kind):
		u.add(Finding{Kind: FindingNewer, Queue: info.Name, Key: pair.Key,
			Text: fmt.Sprintf("it is a %q, which this version of conq does not know", info.Kind)})
	case info.Deleting:
		u.add(Finding{Kind: FindingDeleting, Queue: info.Name, Key: pair.Key, Note: true, Text: "it is being deleted, or its deletion was not completed",
			To: "conq rm completes it, if nobody else does"})
	default:
		report.Queues++
	}
	if l.format == 0 && !l.unsure {
		u.add(Finding{Kind: FindingFormat, Key: layout.FormatKey(), once: true, Text: "there are queues, but the store's format is missing",
			To: "the next one that opens a queue writes it: conq stat with a queue's name does"})
	}
}

// checkedQueue is a queue as its entry has it.
type checkedQueue struct {
	name    string
	entered bool          // it has an entry
	items   *layout.Queue // nil if there is none that this version can judge it by

	split map[string]int // staged items of several pieces, by key: the sizes of their first ones
}

// find looks a queue up.
func (l *look) find(name string) (*checkedQueue, error) {
	if l.queue != nil && l.queue.name == name {
		return l.queue, nil
	}
	info, found, err := layout.ReadEntry(l.r, name)
	corrupt := errors.Is(err, queue.ErrCorrupt)
	if err != nil && !corrupt {
		return nil, err
	}
	l.queue = &checkedQueue{name: name, entered: found || corrupt}
	if found && info.CheckReadable() == nil && !info.Deleting {
		l.queue.items = layout.New(info.Name, info.Kind, l.c.db.Limits())
	}
	return l.queue, nil
}

// stageOf returns the checker of a queue's staging.
func (c *checker) stageOf(items *layout.Queue) *staging.Checker {
	if known := c.stages[items.Name]; known != nil {
		return known
	}
	stage := staging.New(c.db, staging.Options{
		Source: source{items}, Space: layout.Stage(items.Name), Outcomes: layout.Outcomes(items.Name),
		PutBack: handle.Announcer(c.db, items.Name), Now: c.settings.Now,
	})
	c.staged = items.Name
	c.stages[items.Name] = stage.NewChecker(items.Integers, func(key []byte) error {
		_, err := items.Check(key)
		return err
	})
	return c.stages[items.Name]
}

// source is a queue whose staging is checked: nothing is taken.
type source struct{ *layout.Queue }

func (s source) Read(staging.Side, int) kv.Read { return kv.Read{} }

func (s source) Items(kv.Reader, staging.Side, int) iter.Seq2[kv.KeyValue, error] {
	return func(func(kv.KeyValue, error) bool) {}
}
