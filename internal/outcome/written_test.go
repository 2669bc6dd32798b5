package outcome_test

import (
	"testing"
	"time"

	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// Written reads what a lane writes, and nothing else.
func TestWritten(t *testing.T) {
	db := faulty.New(memory.New(memory.Options{}), 1, faulty.Options{Limits: kv.Limits{UnknownCommits: true}})
	defer db.Close()
	key := []byte("lane")
	before := time.Now()
	_, err := kv.TransactOnce(t.Context(), kv.NewOnce(db, key, nil), func(tx kv.Tx) (struct{}, error) {
		tx.Set([]byte("k"), nil)
		return struct{}{}, nil
	})
	check(t, err)
	var value []byte
	check(t, db.ReadTransact(t.Context(), func(r kv.Reader) (err error) {
		value, err = r.Get(key)
		return err
	}))
	at, ok := outcome.Written(value)
	if !ok || at.Before(before.Truncate(time.Microsecond)) || at.After(time.Now()) {
		t.Errorf("%x: written at %v, %v; want a time from %v on", value, at, ok, before)
	}
	newer := append([]byte{2}, value[1:]...)
	for _, other := range [][]byte{nil, value[1:], append(value, 0), newer} {
		if _, ok := outcome.Written(other); ok {
			t.Errorf("%x is taken for an outcome", other)
		}
	}
}
