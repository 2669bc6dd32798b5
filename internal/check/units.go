package check

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// item judges a key that is not behind ("conq").
func (l *look) item(u *unit, pair kv.KeyValue, report *CheckReport) error {
	elem, fields, err := tuple.Next(pair.Key)
	name, ok := elem.(string)
	if err != nil || !ok || layout.CheckName(name) != nil {
		report.Other++
		u.run = &run{Finding: outside}
		return nil
	}
	q, err := l.find(name)
	if err != nil {
		return err
	}
	if q.items != nil {
		return l.ownItem(u, q.items, pair, report)
	}
	if q.entered || l.c.told[Finding{Kind: FindingNoEntry, Queue: name}.id()] {
		report.Unchecked++
		return nil
	}
	l.foreignItem(u, name, pair, fields, report)
	return nil
}

var outside = Finding{Kind: FindingOutside, Note: true, Text: "they belong to no queue, and not to conq"}

// foreignItem judges a key of what may be a queue that only the recipes have used:
// the first key decides.
func (l *look) foreignItem(u *unit, name string, pair kv.KeyValue, fields []byte, report *CheckReport) {
	before := l.c.run
	_, integers, err := layout.ParseAny(fields)
	want := integers
	if before.Keys > 0 && before.name == name {
		want = before.integers
	}
	if want == 0 {
		report.Other++
		u.run = &run{Finding: outside, name: name}
		return
	}
	report.Items++
	u.run = &run{name: name, integers: want, Finding: Finding{Kind: FindingForeign, Queue: name, Note: true,
		Text: "its items are those of FoundationDB's recipes, and it is not in the catalogue"}}
	if err == nil && integers != want {
		err = layout.OtherShape(integers, want)
	}
	if err != nil {
		u.add(Finding{Kind: FindingItemKey, Queue: name, Key: pair.Key, Text: err.Error()})
	}
}

// ownItem judges a key of a queue.
func (l *look) ownItem(u *unit, items *layout.Queue, pair kv.KeyValue, report *CheckReport) error {
	pieces, err := items.Check(pair.Key)
	if err != nil {
		u.add(Finding{Kind: FindingItemKey, Queue: items.Name, Key: pair.Key, Text: err.Error()})
		return nil
	}
	report.Items++
	if pieces > 1 {
		if err := l.anyPiece(u, items, pair.Key, pieces); err != nil {
			return err
		}
	}
	if l.c.o.Decode == nil {
		return nil
	}
	payload, err := items.Payload(l.r, pair)
	if errors.Is(err, queue.ErrDecode) {
		return nil // as above
	}
	if err != nil {
		return err
	}
	if err := l.c.o.Decode(items.Name, payload); err != nil {
		u.add(Finding{Kind: FindingItemValue, Queue: items.Name, Key: pair.Key, Text: fmt.Sprintf("the item does not decode: %v", err)})
	}
	return nil
}

// anyPiece looks whether an item has further pieces at all. Where there are some, it
// is at those that they are judged.
func (l *look) anyPiece(u *unit, items *layout.Queue, key []byte, pieces int) error {
	for _, err := range l.r.Range(kv.PrefixRange(items.Beside(key)), kv.RangeOptions{Limit: 1, KeysOnly: true}) {
		return err
	}
	u.add(Finding{Kind: FindingPieces, Queue: items.Name, Key: key, Text: fmt.Sprintf("%d of %d pieces are missing", pieces-1, pieces)})
	return nil
}

// stage judges what is staged.
func (l *look) stage(u *unit, q *checkedQueue, pair kv.KeyValue, _ []byte, report *CheckReport) error {
	found, err := l.c.stageOf(q.items).Check(l.r, pair)
	if err != nil {
		return err
	}
	u.next, u.repair, u.putBack = found.Next, found.Repair, found.PutBack
	for _, f := range found.Faults {
		u.add(Finding{Kind: FindingKind(f.Kind), Queue: q.name, Key: f.Key, Text: f.Text, Repairable: f.Repairable})
	}
	for _, item := range found.Items {
		pieces := q.items.Keys(item.Key)
		if pieces == 1 || found.PutBack > 0 && l.comes(item.Key) {
			continue
		}
		if err := l.anyPiece(u, q.items, item.Key, pieces); err != nil {
			return err
		}
	}
	n := found.Counts
	report.Keys += found.Keys - 1
	report.Bytes += found.Bytes - int64(len(pair.Key)+len(pair.Value))
	report.Requests += n.Requests
	report.ExpiredRequests += n.OldRequests
	report.Results += n.Results
	report.ExpiredResults += n.OldResults
	report.StagedItems += n.Items
	report.ExpiredItems += n.OldItems
	report.Waiting += n.Waiting
	report.ExpiredWaiting += n.OldWaiting
	return nil
}

// comes tells whether a check has yet to come to an item that goes back: it is judged there.
func (l *look) comes(key []byte) bool {
	c := l.c
	return c.o.Repair && !l.unsure && !c.done && bytes.Compare(key, c.next) >= 0
}

// outcome judges an outcome key. rest is what follows the name in it.
func (l *look) outcome(u *unit, q *checkedQueue, pair kv.KeyValue, rest []byte, report *CheckReport) error {
	lane, err := tuple.Unpack(rest)
	isLane := err == nil && len(lane) == 1
	if isLane {
		_, isLane = lane[0].([]byte)
	}
	at, ok := kv.OutcomeTime(pair.Value)
	switch {
	case !isLane:
		u.add(Finding{Kind: FindingOutcome, Queue: q.name, Key: pair.Key, Text: "the key has not the random bytes of a lane behind the name"})
	case !ok:
		u.add(Finding{Kind: FindingOutcome, Queue: q.name, Key: pair.Key, Text: fmt.Sprintf("its value %.64x is not an outcome", pair.Value)})
	default:
		report.Outcomes++
		if l.c.settings.Now().Sub(at) > kv.OutcomeAge {
			report.OldOutcomes++
		}
	}
	return nil
}

// signal judges the key that callers that wait watch. Any value will do.
func (l *look) signal(u *unit, _ *checkedQueue, _ kv.KeyValue, rest []byte, report *CheckReport) error {
	if len(rest) > 0 {
		u.run = &run{Finding: Finding{Kind: FindingSystemKey, Text: "conq writes no such key"}}
		return nil
	}
	report.Signals++
	return nil
}

// pieces judges the further pieces of an item. rest is what follows the name in the
// key of the first of them that is there.
func (l *look) pieces(u *unit, q *checkedQueue, pair kv.KeyValue, rest []byte, report *CheckReport) error {
	items := q.items
	fields, pieces, _, ok := items.CutPiece(rest)
	if !ok {
		u.add(Finding{Kind: FindingPieceKey, Queue: q.name, Key: pair.Key, Text: "it should be the key of an item with the number of a piece behind it"})
		return nil
	}
	p := pieceCheck{l: l, u: u, items: items, key: items.Key(fields), pieces: pieces, sizes: make(map[int]int)}
	p.rest = kv.Range{Begin: pair.Key, End: kv.PrefixRange(items.Beside(p.key)).End}
	u.next = p.rest.End
	for piece, err := range l.r.Range(p.rest, kv.RangeOptions{}) {
		if err != nil {
			return err
		}
		p.piece(piece)
	}
	report.Keys += p.count + p.odd - 1
	report.Pieces += p.count
	report.Bytes += p.bytes - int64(len(pair.Key)+len(pair.Value))
	return p.judge(q)
}

// pieceCheck is the check of the pieces of one item.
type pieceCheck struct {
	l     *look
	u     *unit
	items *layout.Queue

	key    []byte // of the item
	pieces int    // that there should be, the first one counted

	rest  kv.Range // where the further ones are
	sizes map[int]int
	count int
	bytes int64
	extra [][]byte // keys of those whose numbers are too large or too small
	odd   int      // keys that are none
}

func (p *pieceCheck) piece(piece kv.KeyValue) {
	p.bytes += int64(len(piece.Key) + len(piece.Value))
	_, _, number, ok := p.items.CutPiece(piece.Key[len(layout.Pieces(p.items.Name).Bytes()):])
	if !ok || !bytes.Equal(piece.Key, p.items.Piece(p.key, number)) {
		p.odd++
		p.u.add(Finding{Kind: FindingPieceKey, Queue: p.items.Name, Key: piece.Key, Text: "it should end with the number of a piece"})
		return
	}
	p.count++
	if number < 1 || number >= int64(p.pieces) {
		p.extra = append(p.extra, piece.Key)
		return
	}
	p.sizes[int(number)] = len(piece.Value)
}

// judge compares the pieces with the first one, which is in the queue, or staged.
func (p *pieceCheck) judge(q *checkedQueue) error {
	header, err := p.l.r.Get(p.key)
	if err != nil {
		return err
	}
	size, found := len(header), header != nil
	if !found {
		if size, found, err = p.l.stagedSize(q, p.key); err != nil {
			return err
		}
	}
	if !found {
		p.orphans(p.count, p.rest, "their item is not there")
		return nil
	}
	p.compare(size)
	return nil
}

// orphans are cleared if nothing among them is unknown.
func (p *pieceCheck) orphans(n int, all kv.Range, text string) {
	f := Finding{Kind: FindingOrphans, Queue: p.items.Name, Key: all.Begin, Keys: n, Text: text, Repairable: p.odd == 0}
	p.u.add(f)
	if !f.Repairable {
		return
	}
	before := p.u.repair
	p.u.repair = func(tx kv.Tx) error {
		tx.ClearRange(all)
		if before != nil {
			return before(tx)
		}
		return nil
	}
}

// compare looks whether all pieces are there, and have the sizes that they should:
// all but the last one that of the first.
func (p *pieceCheck) compare(size int) {
	wrong := func(key []byte, format string, args ...any) {
		p.u.add(Finding{Kind: FindingPieces, Queue: p.items.Name, Key: key, Text: fmt.Sprintf(format, args...)})
	}
	if missing := p.pieces - 1 - len(p.sizes); missing > 0 {
		wrong(p.key, "%d of %d pieces are missing", missing, p.pieces)
	}
	for _, i := range slices.Sorted(maps.Keys(p.sizes)) {
		n := p.sizes[i]
		switch {
		case i < p.pieces-1 && n != size:
			wrong(p.items.Piece(p.key, int64(i)), "piece %d of %d has %d bytes, and the first one %d", i+1, p.pieces, n, size)
		case i == p.pieces-1 && (n == 0 || n > size):
			wrong(p.items.Piece(p.key, int64(i)), "the last of %d pieces has %d bytes, and the first one %d", p.pieces, n, size)
		}
	}
	p.extras()
}

// extras are pieces that no reader takes for a part of the payload.
func (p *pieceCheck) extras() {
	behind := p.items.Piece(p.key, int64(p.pieces))
	n := 0
	for n < len(p.extra) && bytes.Compare(p.extra[n], behind) < 0 {
		n++
	}
	if n > 0 {
		p.orphans(n, kv.Range{Begin: p.extra[0], End: p.items.Piece(p.key, 1)}, "their numbers are below those of the item's pieces")
	}
	if n < len(p.extra) {
		p.orphans(len(p.extra)-n, kv.Range{Begin: p.extra[n], End: p.rest.End}, "their numbers are above those of the item's pieces")
	}
}

// stagedSize returns the size of the value of a staged item of several pieces, and
// whether it is staged. It needs no conflict: an item comes into a result from the
// queue only, where it was not found.
func (l *look) stagedSize(q *checkedQueue, key []byte) (size int, found bool, err error) {
	if q.split == nil {
		q.split = make(map[string]int)
		for item, err := range l.c.stageOf(q.items).Items(l.r) {
			if err != nil {
				return 0, false, err
			}
			if pieces, err := q.items.Check(item.Key); err == nil && pieces > 1 {
				q.split[string(item.Key)] = len(item.Value)
			}
		}
	}
	size, found = q.split[string(key)]
	return size, found, nil
}
