package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// sampleStore returns a store with a queue that has all that there can be, and its pairs.
func sampleStore(t testing.TB) (kv.DB, *Queue, []kv.KeyValue) {
	kinds, data := sampleRecords(t)
	db := memory.New(memory.Options{})
	id := int64(100)
	q := NewQueue("q", kv.Limits{Value: 4}, Config{
		Settings: Settings{Keep: 1000, Concurrency: 9, KeyRate: Rate{N: 1, Period: 50}, Rate: Rate{N: 100, Period: 1000}}, NextTick: CronTick,
		NewID: func(context.Context) (int64, error) { id++; return id, nil },
	})
	imported(t, db, q, 40, kinds, data)
	err := db.Transact(context.Background(), func(tx kv.Tx) error {
		q.Pause(tx, false)
		_, err := q.Reserve(tx, 41, Request{N: 1, Holder: "h", Lease: 100, NewToken: func() int64 { return 77 }})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return db, q, pairsOf(t, db, rangeOf(q.space))
}

const now = 60

// verbsOn are all verbs on a job.
func verbsOn(q *Queue, id int64) map[string]func(kv.Tx) error {
	return map[string]func(kv.Tx) error{
		"ack": func(tx kv.Tx) error { return q.Ack(tx, id, 77, now, nil) },
		"extend": func(tx kv.Tx) error {
			_, err := q.Extend(tx, id, 77, now, 100)
			return err
		},
		"release": func(tx kv.Tx) error { return q.Release(tx, id, 77, now, 0, &NewPriority{Priority: 3}) },
		"fail": func(tx kv.Tx) error {
			_, err := q.Fail(tx, id, 77, now, 0, "why")
			return err
		},
		"bury":         func(tx kv.Tx) error { return q.BuryAny(tx, id, now, "why") },
		"kick":         func(tx kv.Tx) error { return q.Kick(tx, id, now) },
		"delete":       func(tx kv.Tx) error { return q.Delete(tx, id, now) },
		"cancel":       func(tx kv.Tx) error { return q.Cancel(tx, id, now) },
		"reprioritise": func(tx kv.Tx) error { return q.Reprioritise(tx, id, now, 7) },
	}
}

// verbsOf are all verbs on a queue.
func verbsOf(q *Queue) map[string]func(kv.Tx) error {
	put := func(n New) func(kv.Tx) error {
		return func(tx kv.Tx) error {
			_, err := q.Put(tx, q.Places(), now, &n)
			return err
		}
	}
	due := func(now int64) func(kv.Tx) error {
		return func(tx kv.Tx) error {
			_, err := q.Due(tx, now, 10)
			return err
		}
	}
	return map[string]func(kv.Tx) error{
		"put": put(New{}), "put of a key": put(New{Key: "a"}), "put unique": put(New{Unique: "dead"}),
		"due": due(now), "due later": due(maxTime),
		"reserve": func(tx kv.Tx) error {
			_, err := q.Reserve(tx, now, Request{N: 10, Lease: 5, NewToken: func() int64 { return 78 }})
			return err
		},
		"admit": func(tx kv.Tx) error {
			_, err := q.Admit(tx, now, nil, 10)
			return err
		},
		"list": func(tx kv.Tx) error {
			_, _, err := q.List(tx, Filter{Contains: "x"}, nil, 100, func(*Job) (bool, error) { return true, nil })
			return err
		},
		"counts": func(tx kv.Tx) error {
			_, err := q.Counts(tx)
			return err
		},
		"periodics": func(tx kv.Tx) error {
			_, err := q.Periodics(tx)
			return err
		},
		"remove periodic": func(tx kv.Tx) error { return q.RemovePeriodic(tx, "p") },
		"run now": func(tx kv.Tx) error {
			_, err := q.RunNow(tx, "p", now)
			return err
		},
		"export": func(tx kv.Tx) error {
			for _, part := range q.Exported() {
				for pair, err := range tx.Range(part, kv.RangeOptions{}) {
					if err != nil {
						return err
					}
					if r, err := q.Export(tx, pair); err != nil {
						return err
					} else if r != nil {
						r.Encode()
					}
				}
			}
			return nil
		},
		"check": func(tx kv.Tx) error {
			problems, err := q.Check(tx)
			for _, p := range problems {
				if p.Repair != nil {
					p.Repair(tx)
				}
			}
			return err
		},
	}
}

// tell has a test fail of an error that does not say what is wrong with what is stored.
func tell(t *testing.T, verb string, pair kv.KeyValue, err error) {
	t.Helper()
	for _, known := range []error{nil, queue.ErrCorrupt, ErrNotFound, ErrState, ErrLeaseLost, ErrDuplicate} {
		if errors.Is(err, known) {
			return
		}
	}
	if !strings.Contains(err.Error(), "periodic job") {
		t.Errorf("%s with %x -> %x: %v", verb, pair.Key, pair.Value, err)
	}
}

// try runs each verb with a pair that is not as it should be, and keeps nothing of it.
func try(t *testing.T, db kv.DB, q *Queue, pair kv.KeyValue) {
	t.Helper()
	undo := errors.New("undone")
	each := func(verbs map[string]func(kv.Tx) error) {
		for name, verb := range verbs {
			err := db.Transact(context.Background(), func(tx kv.Tx) error {
				tx.Set(pair.Key, pair.Value)
				tell(t, name, pair, verb(tx))
				return undo
			})
			if !errors.Is(err, undo) {
				t.Fatal(err)
			}
		}
	}
	each(verbsOf(q))
	for id := range int64(8) {
		each(verbsOn(q, id))
	}
}

// TestHostileValues: each value cut off, and others in its place, is an error that names the key, or does no harm.
func TestHostileValues(t *testing.T) {
	db, q, pairs := sampleStore(t)
	defer db.Close()
	huge := withInts(nil, 1, 3, -1<<63, 1<<63-1, 1<<63-1, -1<<63, 1<<63-1, 1<<63-1, 77, 1<<63-1, 1<<63-1, 1<<63-1, 7)
	texts, err := tuple.Tuple{"a", "dead", "h", tuple.Tuple{}, tuple.Tuple{}}.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, pair := range pairs {
		for _, value := range [][]byte{
			{}, {0xff}, make([]byte, 8), []byte("text"), withInts(nil, 1<<63-1, 1<<63-1), withInts(nil, -1<<63, -1<<63), append(huge, texts...),
			pair.Value[:len(pair.Value)/2], pairs[(i+7)%len(pairs)].Value,
		} {
			try(t, db, q, kv.KeyValue{Key: pair.Key, Value: value})
		}
		for _, key := range [][]byte{pair.Key[:len(pair.Key)-1], append(pair.Key[:len(pair.Key):len(pair.Key)], 0x14), append(pair.Key[:len(q.headers):len(q.headers)], 0xff)} {
			try(t, db, q, kv.KeyValue{Key: key, Value: pair.Value})
		}
	}
}

// FuzzStored: whatever a key of a queue holds, and whatever key is there besides, no verb panics, and errors name it.
func FuzzStored(f *testing.F) {
	db, q, pairs := sampleStore(f)
	defer db.Close()
	for _, pair := range pairs {
		f.Add(pair.Key[len(q.space):], pair.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		try(t, db, q, kv.KeyValue{Key: append(q.space[:len(q.space):len(q.space)], key...), Value: value})
	})
}

// FuzzHeader: whatever bytes a header has, it is an error that names its key, or a job whose header reads as the same job.
func FuzzHeader(f *testing.F) {
	_, q, pairs := sampleStore(f)
	for _, pair := range pairs {
		if bytes.HasPrefix(pair.Key, q.headers) {
			f.Add(pair.Value)
		}
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		key := []byte("its key")
		j, err := decode(key, 7, header)
		if err != nil {
			if !isCorrupt(err) || !strings.Contains(err.Error(), fmt.Sprintf("%x", key)) {
				t.Fatal(err)
			}
			return
		}
		again, err := decode(key, 7, j.encode())
		if err != nil || !reflect.DeepEqual(j, again) {
			t.Fatalf("%x is %+v, and then %+v, %v", header, j, again, err)
		}
	})
}
