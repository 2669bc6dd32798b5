package faulty_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// A transaction that was given up for lost, and landed after all.
func Example() {
	db := faulty.New(memory.New(memory.Options{}), 1, faulty.Options{
		Choose: func() faulty.Fate { return faulty.Fate{Outcome: faulty.Late} },
	})
	defer db.Close()
	ctx := context.Background()

	err := db.Transact(ctx, func(tx kv.Tx) error {
		tx.Set([]byte("k"), []byte("late"))
		return nil
	})
	fmt.Println(errors.Is(err, kv.ErrCommitUnknown))

	look := func(r kv.Reader) error {
		value, err := r.Get([]byte("k"))
		fmt.Printf("%q %v\n", value, err)
		return err
	}
	_ = db.ReadTransact(ctx, look)
	db.Flush()
	_ = db.ReadTransact(ctx, look)
	// Output:
	// true
	// "" <nil>
	// "late" <nil>
}

// A store as slow as a cluster, for benchmarks, with a cluster's limits.
func ExampleNew() {
	db := faulty.New(memory.New(memory.Options{}), 1, faulty.Options{
		Latency: 2 * time.Millisecond, CommitLatency: 3 * time.Millisecond,
		Limits: kv.Limits{Value: 100_000, Transaction: 10_000_000, Shared: true},
	})
	defer db.Close()
	fmt.Println(db.Limits().Shared, db.Limits().UnknownCommits)
	// Output: true false
}
