package check_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/check"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/tuple"
)

// checkTime is the time in these tests.
var checkTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const inTime, tooLateBy = 10 * time.Second, -time.Second // from checkTime to a deadline

func opID(n byte) []byte { return bytes.Repeat([]byte{n}, 16) }

// runCheck checks a store, and returns what was found: the kind, the queue, and
// number of keys of each finding, with a + if it can be mended, * if it was, and a
// ~ for a note.
func runCheck(t testkit.TB, db kv.DB, o check.CheckOptions) (check.CheckReport, string) {
	t.Helper()
	return runPages(t, db, 0, o)
}

// runPages is runCheck with so many keys in a transaction, or 0.
func runPages(t testkit.TB, db kv.DB, page int, o check.CheckOptions) (check.CheckReport, string) {
	t.Helper()
	report, found, err := tryCheck(t, db, page, o)
	testkit.NoError(t, err)
	return report, found
}

func atCheckTime(page int) check.Settings {
	return check.Settings{Page: page, Now: func() time.Time { return checkTime }}
}

func tryCheck(t testkit.TB, db kv.DB, page int, o check.CheckOptions) (check.CheckReport, string, error) {
	t.Helper()
	var found []string
	o.Found = func(f check.Finding) {
		text := string(f.Kind)
		if f.Queue != "" {
			text += " " + f.Queue
		}
		if f.Keys != 1 {
			text += fmt.Sprint(" ", f.Keys)
		}
		switch {
		case f.Repairable && f.To != "":
			t.Fatalf("%v says what else to do: %s", f, f.To)
		case f.Repaired:
			text += "*"
		case f.Repairable:
			text += "+"
		case f.Note:
			text += "~"
		case f.To == "":
			t.Fatalf("%v does not say what to do", f)
		}
		if len(f.Key) == 0 || f.Text == "" {
			t.Fatalf("%v has no key or no text", f)
		}
		found = append(found, text)
	}
	report, err := atCheckTime(page).Check(context.Background(), db, o)
	testkit.Equal(t, "findings told", len(found), report.Faults+report.Repaired+report.Notes)
	return report, strings.Join(found, ", "), err
}

// healthyStore has queues of both kinds, with split payloads, and what clients leave
// there while they work: requests, results with and without items, waiters, outcomes
// and signals.
func healthyStore(t testing.TB) (kv.DB, fixture) {
	t.Helper()
	db := faulty.New(memory.New(memory.Options{Limits: small}), 1, faulty.Options{Limits: kv.Limits{Shared: true, UnknownCommits: true}})
	t.Cleanup(func() { testkit.NoError(t, db.Close()) })
	return db, fillHealthy(t, db)
}

func fillHealthy(t testing.TB, db kv.DB) fixture {
	t.Helper()
	f := newFixture(t, db)
	for i := range 3 {
		testkit.NoError(t, f.q.EnqueueAll(f.ctx, []string{"a", strings.Repeat("b", 250), ""}))
		testkit.NoError(t, f.p.Push(f.ctx, strings.Repeat("c", 100*i), int64(i-1)))
		testkit.NoError(t, f.p.Push(f.ctx, "d", int64(i-1)))
	}
	stage := func(q *layout.Queue, pairs ...kv.KeyValue) {
		for i := range pairs {
			pairs[i].Key = slices.Concat(layout.Stage(q.Name).Bytes(), pairs[i].Key)
		}
		testkit.Write(t, db, pairs...)
	}
	deadline := checkTime.Add(inTime).UnixNano()
	for i, q := range []*layout.Queue{testkit.Laid("q"), testkit.Laid("p")} {
		stage(q,
			kv.KeyValue{Key: testkit.Packed(t, nil, 1, 1, 0, opID(byte(i))), Value: testkit.Packed(t, nil, 3, deadline)},
			kv.KeyValue{Key: testkit.Packed(t, nil, 0), Value: testkit.Packed(t, nil, opID(3))},
			kv.KeyValue{Key: testkit.Packed(t, nil, 2, deadline, opID(9))},
			kv.KeyValue{Key: testkit.Packed(t, nil, 4, 1, opID(1)), Value: testkit.Packed(t, nil, 0, deadline)},
		)
		stageItems(t, db, q, opID(8), 2, checkTime.Add(inTime))
	}
	return f
}

// stageItems makes the first items of a queue a result.
func stageItems(t testkit.TB, db kv.DB, s *layout.Queue, op []byte, n int, deadline time.Time) {
	t.Helper()
	testkit.NoError(t, db.Transact(context.Background(), func(tx kv.Tx) error { return stageIn(tx, s, op, n, deadline) }))
}

func stageIn(tx kv.Tx, s *layout.Queue, op []byte, n int, deadline time.Time) error {
	key := func(elems ...any) []byte {
		key, err := tuple.Tuple(elems).Append(layout.Stage(s.Name).Bytes())
		if err != nil {
			panic(err)
		}
		return key
	}
	places := map[string][]byte{} // by group
	i := 0
	for item, err := range tx.Range(s.Items, kv.RangeOptions{Limit: n}) {
		if err != nil {
			return err
		}
		tx.Clear(item.Key)
		tx.Set(key(2, deadline.UnixNano(), op, i, item.Key), item.Value)
		group, place := s.Place(item.Key)
		places[string(group)] = place
		i++
	}
	for _, place := range places {
		tx.Set(tuple.AppendBytes(tuple.AppendInt(append(key(3), place...), deadline.UnixNano()), op), nil)
	}
	return nil
}

// Nothing is found in a sound store, however the pages fall, and everything in it is
// counted. Nothing is written, with or without Repair.
func TestCheckSound(t *testing.T) {
	db, f := healthyStore(t)
	testkit.NoError(t, f.q.Enqueue(f.ctx, "e"))
	before := testkit.Everything(t, db)
	bytes := 0
	for _, pair := range before {
		bytes += len(pair.Key) + len(pair.Value)
	}
	for _, page := range []int{1, 2, 3, 7, 0} {
		for _, repair := range []bool{false, true} {
			over := db
			if !repair {
				over = readOnly{db}
			}
			report, found := runPages(t, over, page, check.CheckOptions{Repair: repair})
			testkit.Equal(t, "found", found, "")
			outcomes := report.Outcomes
			if outcomes < 2 {
				t.Fatalf("%d outcome keys, want some", outcomes)
			}
			testkit.Equal(t, "report", report, check.CheckReport{
				Keys: len(before), Bytes: int64(bytes), Queues: 2, Items: 16 - 4, Pieces: 6 + 1,
				Requests: 2, Results: 4, StagedItems: 4, Waiting: 2, Outcomes: outcomes, Signals: 2,
			})
			testkit.Equal(t, "sound", report.Sound(), true)
		}
	}
	testkit.Equal(t, "store afterwards", fmt.Sprint(testkit.Everything(t, db)), fmt.Sprint(before))
}

// What is past its deadline, and what can't be judged, is counted.
func TestCheckCounts(t *testing.T) {
	db, f := healthyStore(t)
	p := &plot{t, db, f}
	stageItems(t, db, testkit.Laid("q"), opID(7), 2, checkTime.Add(tooLateBy))
	p.set(testkit.Packed(t, nil, "other", 1), nil)
	p.set(testkit.Packed(t, nil, "other", 2), nil)
	p.set([]byte{0xfe}, nil)
	p.set(testkit.Packed(t, nil, "foreign", 1, opID(1)), nil)
	p.set(p.stage(1, 7, 0, opID(6)), p.state(1, tooLateBy))
	for i, age := range []time.Duration{kv.OutcomeAge, kv.OutcomeAge + 1} {
		at := checkTime.Add(-age).UnixNano()
		p.set(testkit.Packed(t, layout.Outcomes("q").Bytes(), opID(byte(i))), binary.BigEndian.AppendUint64(append([]byte{1}, make([]byte, 20)...), uint64(at)))
	}
	p.set(p.stage(4, 7, opID(7)), testkit.Packed(t, nil, 0, checkTime.Add(tooLateBy).UnixNano()))
	report, found := runCheck(t, readOnly{db}, check.CheckOptions{})
	testkit.Equal(t, "found", found, "foreign queue foreign~, other keys 2~, other keys~")
	testkit.Equal(t, "keys of others", report.Other, 3)
	testkit.Equal(t, "items", report.Items, 15-4-2+1)
	testkit.Equal(t, "requests", report.Requests, 3)
	testkit.Equal(t, "past their deadlines", report.ExpiredRequests, 1)
	testkit.Equal(t, "old outcomes", report.OldOutcomes, 1)
	testkit.Equal(t, "results past their deadlines", report.ExpiredResults, 1)
	testkit.Equal(t, "items in them", report.ExpiredItems, 2)
	testkit.Equal(t, "who waits", report.Waiting, 3)
	testkit.Equal(t, "past their deadlines", report.ExpiredWaiting, 1)
	testkit.Equal(t, "keys that can't be judged", report.Unchecked, 0)
	p.set(layout.EntryKey("q"), testkit.Packed(t, nil, "queue", layout.QueueFormat+1))
	report, found = runCheck(t, readOnly{db}, check.CheckOptions{})
	testkit.Equal(t, "found", found, "newer queue q, foreign queue foreign~, other keys 2~, other keys~")
	n := 0
	for _, pair := range testkit.Everything(t, db) {
		for _, in := range [][]byte{testkit.Laid("q").Prefix(), layout.Pieces("q").Bytes(), layout.Stage("q").Bytes(), layout.Outcomes("q").Bytes(), layout.SignalKey("q")} {
			if bytes.HasPrefix(pair.Key, in) {
				n++
			}
		}
	}
	testkit.Equal(t, "keys that can't be judged", report.Unchecked, n)
}

// planted is what is put into a sound store, and what a check makes of it.
type planted struct {
	name  string
	plant func(t *testing.T, p *plot)
	want  string // what a check finds
	then  string // what one with Repair does; "" if it can't do anything
	after string // what another check finds then
	note  bool   // the store is sound all the same
}

func TestCheckFinds(t *testing.T) {
	for _, c := range slices.Concat(plantedKeys, plantedPieces, plantedStaging) {
		for _, page := range []int{1, 4, 0} {
			t.Run(fmt.Sprint(c.name, " page ", page), func(t *testing.T) { findPlanted(t, c, page) })
		}
	}
}

func findPlanted(t *testing.T, c planted, page int) {
	db, f := healthyStore(t)
	c.plant(t, &plot{t, db, f})
	before := testkit.Everything(t, db)
	report, found := runPages(t, readOnly{db}, page, check.CheckOptions{})
	testkit.Equal(t, "found", found, c.want)
	testkit.Equal(t, "sound", report.Sound(), c.note)
	testkit.Equal(t, "keys", report.Keys, len(before))
	testkit.Equal(t, "store after a look", fmt.Sprint(testkit.Everything(t, db)), fmt.Sprint(before))
	mends := c.then != ""
	if !mends {
		c.then, c.after = c.want, c.want
	}
	report, found = runPages(t, db, page, check.CheckOptions{Repair: true})
	testkit.Equal(t, "found and mended", found, c.then)
	testkit.Equal(t, "faults left", report.Faults == 0, c.after == "" || c.note)
	repaired := testkit.Everything(t, db)
	if !mends {
		testkit.Equal(t, "store after a repair of nothing", fmt.Sprint(repaired), fmt.Sprint(before))
	}
	testkit.Equal(t, "items, in queues or staged", fmt.Sprint(itemsOf(repaired)), fmt.Sprint(itemsOf(before)))
	_, found = runPages(t, readOnly{db}, page, check.CheckOptions{})
	testkit.Equal(t, "found after a repair", found, c.after)
}

// itemsOf returns what lies in queues and results, by its key in the queue.
func itemsOf(pairs []kv.KeyValue) map[string]string {
	items := make(map[string]string)
	for _, pair := range pairs {
		elems, err := tuple.Unpack(pair.Key)
		if err != nil || len(elems) < 2 {
			continue
		}
		if _, ok := elems[0].(string); ok {
			items[string(pair.Key)] = string(pair.Value)
		}
		if len(elems) == 8 && elems[1] == "stage" && elems[3] == int64(2) {
			if key, ok := elems[7].([]byte); ok {
				items[string(key)] = string(pair.Value)
			}
		}
	}
	return items
}

func TestCheckArguments(t *testing.T) {
	db, _ := healthyStore(t)
	var none context.Context
	_, err := conq.Check(none, db)
	testkit.WantError(t, err, reads.ErrContext)
	_, err = conq.Check(t.Context(), nil)
	testkit.WantError(t, err, reads.ErrNoDB)
	_, err = conq.Check(t.Context(), db, conq.CheckOptions{}, conq.CheckOptions{})
	if err == nil || !strings.Contains(err.Error(), "2 CheckOptions") {
		t.Fatalf("error %v", err)
	}
}

// The context ends a check, between pages and within them.
func TestCheckCanceled(t *testing.T) {
	db, _ := healthyStore(t)
	stop := errors.New("stop")
	for _, after := range []int{0, 1, 5} {
		ctx, cancel := context.WithCancelCause(t.Context())
		pages := 0
		if after == 0 {
			cancel(stop)
		}
		report, err := check.Settings{Page: 1}.Check(ctx, db, check.CheckOptions{Progress: func(check.CheckReport) {
			if pages++; pages == after {
				cancel(stop)
			}
		}})
		cancel(nil)
		testkit.WantError(t, err, stop)
		testkit.Equal(t, "pages", pages, after)
		testkit.Equal(t, "some keys were counted", report.Keys > 0, after > 0)
	}
}

// A newer store is refused, and nothing in it is looked at, let alone mended.
func TestCheckNewerStore(t *testing.T) {
	db, _ := healthyStore(t)
	testkit.Write(t, db, kv.KeyValue{Key: layout.FormatKey(), Value: testkit.Packed(t, nil, layout.StoreFormat+1, "more")})
	report, err := conq.Check(t.Context(), db, conq.CheckOptions{Repair: true})
	testkit.WantError(t, err, conq.ErrFormat)
	testkit.Equal(t, "report", report, conq.CheckReport{})
}

// With Decode, payloads are looked at, those of several pieces too.
func TestCheckDecode(t *testing.T) {
	db, _ := healthyStore(t)
	var seen []string
	report, found := runPages(t, readOnly{db}, 1, check.CheckOptions{Decode: func(queue string, payload []byte) error {
		seen = append(seen, fmt.Sprint(queue, len(payload)))
		if len(payload) == 250 {
			return errors.New("too long")
		}
		return nil
	}})
	testkit.Equal(t, "found", found, "item value q, item value q")
	testkit.Equal(t, "faults", report.Faults, 2)
	slices.Sort(seen)
	testkit.Equal(t, "payloads", strings.Join(seen, " "), "p1 p1 p100 p200 q0 q0 q0 q1 q1 q250 q250")
}

// A finding can be read.
func TestFindingText(t *testing.T) {
	for want, f := range map[string]check.Finding{
		`orphans, queue "q": they are; 3 keys from (b"a\x00\"b", "q", -1) on; can be repaired`: {Kind: check.FindingOrphans, Queue: "q",
			Key: testkit.Packed(t, nil, []byte("a\x00\"b"), "q", -1), Keys: 3, Text: "they are", Repairable: true},
		`other keys: they are; key ffee; leave it`: {Kind: check.FindingOutside, Key: []byte{0xff, 0xee}, Keys: 1, Text: "they are", To: "leave it"},
		`place without result: it is; key ((1, "x")); repaired`: {Kind: check.FindingPlace, Text: "it is", Repairable: true, Repaired: true,
			Key: testkit.Packed(t, nil, tuple.Tuple{1, "x"}), Keys: 1, To: "not this"},
	} {
		testkit.Equal(t, "text", f.String(), want)
	}
}

// unsureOnce is a store whose first commits have an unknown outcome, though they are
// applied, or are not.
func unsureOnce(db kv.DB, n int, outcome faulty.Outcome) kv.DB {
	return faulty.New(db, 1, faulty.Options{Choose: func() faulty.Fate {
		if n--; n >= 0 {
			return faulty.Fate{Outcome: outcome}
		}
		return faulty.Fate{}
	}})
}

// A repair whose outcome is unknown is told once, whether it has happened or not.
func TestCheckUnknown(t *testing.T) {
	for _, outcome := range []faulty.Outcome{faulty.Applied, faulty.Dropped} {
		for _, c := range plantedStaging {
			db, f := healthyStore(t)
			c.plant(t, &plot{t, db, f})
			if c.then == "" {
				continue
			}
			db = unsureOnce(db, 2, outcome)
			report, found := runCheck(t, db, check.CheckOptions{Repair: true})
			testkit.Equal(t, c.name+": found and mended", found, c.then)
			_, found = runCheck(t, db, check.CheckOptions{Repair: true})
			testkit.Equal(t, c.name+": found then", found, c.after)
			if c.name == "a result whose items have other numbers, too old" {
				testkit.Equal(t, c.name+": put back", report.PutBack, 2)
			}
		}
	}
	db, f := healthyStore(t)
	plantedStaging[3].plant(t, &plot{t, db, f})
	_, found := runCheck(t, unsureOnce(db, 1000, faulty.Dropped), check.CheckOptions{Repair: true}) // however often that happens
	testkit.Equal(t, "found and mended", found, plantedStaging[3].then)
}

// What is gone when it is to be mended is not told.
func TestCheckGone(t *testing.T) {
	db, f := healthyStore(t)
	p := &plot{t, db, f}
	p.clear(p.split())
	first := true
	_, found := runCheck(t, &testkit.Hooked{DB: db, Attempt: func(tx kv.Tx) kv.Tx {
		if first {
			first = false
			testkit.NoError(t, f.q.Clear(t.Context()))
		}
		return tx
	}}, check.CheckOptions{Repair: true})
	testkit.Equal(t, "found", found, "")
}

// A repair conflicts with who changes what it depends on, and looks again.
func TestCheckConflict(t *testing.T) {
	db, f := healthyStore(t)
	p := &plot{t, db, f}
	item := p.split()
	value := p.value(item)
	p.clear(item)
	attempts := 0
	_, found := runCheck(t, &testkit.Hooked{DB: db, Attempt: func(tx kv.Tx) kv.Tx {
		attempts++
		return onClearRange{tx, func() {
			if attempts == 1 {
				p.set(item, value) // it comes back when its pieces were found to be orphans
			}
		}}
	}}, check.CheckOptions{Repair: true})
	testkit.Equal(t, "found", found, "")
	testkit.Equal(t, "attempts", attempts, 2)
	_, found = runCheck(t, db, check.CheckOptions{})
	testkit.Equal(t, "found then", found, "")
}

type onClearRange struct {
	kv.Tx
	f func()
}

func (tx onClearRange) ClearRange(r kv.Range) {
	tx.f()
	tx.Tx.ClearRange(r)
}

// A repair that is too large for a transaction is told, and not made.
func TestCheckTooLarge(t *testing.T) {
	db, f := healthyStore(t)
	p := &plot{t, db, f}
	p.put(4, tooLateBy)
	last := p.staged()[3]
	p.set(p.stage(2, p.at(tooLateBy), opID(7), 5, p.original(last)), p.value(last))
	p.clear(last)
	var told []check.Finding
	report, err := atCheckTime(0).Check(t.Context(), faulty.New(db, 1, faulty.Options{Limits: kv.Limits{Transaction: 300}}), check.CheckOptions{
		Repair: true, Found: func(f check.Finding) { told = append(told, f) },
	})
	testkit.NoError(t, err)
	testkit.Equal(t, "findings", len(told), 1)
	testkit.Equal(t, "kind", told[0].Kind, check.FindingIncomplete)
	testkit.Equal(t, "repaired", told[0].Repaired || told[0].Repairable, false)
	testkit.Equal(t, "faults", report.Faults, 1)
	if !strings.Contains(told[0].To, "could not be repaired") {
		t.Errorf("what to do: %s", told[0].To)
	}
}

// A store that is too slow for one page in the time of a transaction is read on from
// where that has come to, and each key is counted once.
func TestCheckSlow(t *testing.T) {
	f, clock := newClocked(t)
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, testkit.SplitValues('a', 'z')))
	f.db.(*testkit.Hooked).Reader = func(r kv.Reader) kv.Reader {
		return testkit.SlowReader{Reader: r, Pass: func() { clock.Pass(time.Second) }}
	}
	report, found := runCheck(t, f.db, check.CheckOptions{})
	testkit.Equal(t, "found", found, "")
	testkit.Equal(t, "keys", report.Keys, len(testkit.Everything(t, f.db.(*testkit.Hooked).DB)))
	testkit.Equal(t, "items", report.Items, 26)
	f.db.(*testkit.Hooked).Reader = func(r kv.Reader) kv.Reader {
		return testkit.SlowReader{Reader: r, Pass: func() { clock.Pass(time.Minute) }}
	}
	_, err := conq.Check(f.ctx, f.db)
	testkit.WantError(t, err, kv.ErrTooOld)
}
