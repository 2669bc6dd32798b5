package dump

import (
	"bytes"
	"errors"
	"slices"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// readable returns where the items of a queue are, if this version can read them.
func readable(db kv.DB, info layout.Info) (*layout.Queue, error) {
	if err := info.CheckReadable(); err != nil {
		return nil, err
	}
	return layout.New(info.Name, info.Kind, db.Limits()), nil
}

// hasItems tells whether a queue has items, staged ones too, or jobs.
func hasItems(r kv.Reader, db kv.DB, q *layout.Queue, kind queue.Kind) (bool, error) {
	if kind == queue.KindWorkQueue {
		empty, err := workQueue(db, q.Name).IsEmpty(r)
		return !empty, err
	}
	for _, err := range r.Range(q.Items, kv.RangeOptions{Limit: 1, KeysOnly: true}) {
		return err == nil, err
	}
	staged, err := stagedItems(r, q, q.Items)
	return len(staged) > 0, err
}

// stagedItem is an item that was taken by a staged request and not collected.
type stagedItem struct{ at, key []byte } // where its value is; where it was in the queue

// stagedResult is the first element of the keys of results in internal/staging.
const stagedResult = 2

// stagedItems returns those that were in a part of the queue, by their keys there.
func stagedItems(r kv.Reader, q *layout.Queue, in kv.Range) ([]stagedItem, error) {
	space := layout.Stage(q.Name).Bytes()
	var items []stagedItem
	results := kv.PrefixRange(tuple.AppendInt(space, stagedResult))
	for pair, err := range r.Range(results, kv.RangeOptions{KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		elems, err := tuple.Unpack(pair.Key[len(space):])
		if err != nil {
			return nil, q.DecodeError(pair.Key, err)
		}
		if len(elems) != 5 { // a result without items
			continue
		}
		key, ok := elems[4].([]byte)
		if !ok || !q.Items.Contains(key) {
			return nil, q.DecodeError(pair.Key, errors.New("it is that of a staged item, and does not hold the item's own"))
		}
		if in.Contains(key) {
			items = append(items, stagedItem{pair.Key, key})
		}
	}
	slices.SortFunc(items, func(a, b stagedItem) int { return bytes.Compare(a.key, b.key) })
	return items, nil
}

// workQueue returns the recipe of a work queue, for what does not depend on the options of its handles.
func workQueue(db kv.DB, name string) *jobs.Queue {
	return jobs.NewQueue(name, db.Limits(), jobs.Config{})
}
