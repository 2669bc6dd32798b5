package kv_test

import (
	"context"
	"fmt"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// A store behind a bad network: of the first two commits the client does not
// learn whether they were applied. The first was not, the second was.
func ExampleTransactOnce() {
	fates := []faulty.Outcome{faulty.Dropped, faulty.Applied}
	db := faulty.New(memory.New(memory.Options{}), 1, faulty.Options{Choose: func() (fate faulty.Fate) {
		if len(fates) > 0 {
			fate.Outcome, fates = fates[0], fates[1:]
		}
		return fate
	}})
	defer db.Close()

	ctx := context.Background()
	lane := kv.NewOnce(db, []byte("outcomes/client 1"), nil)
	attempt := 0
	result, err := kv.TransactOnce(ctx, lane, func(tx kv.Tx) (string, error) {
		attempt++
		tx.Add([]byte("balance"), 100)
		return fmt.Sprint("attempt ", attempt), nil
	})
	fmt.Println(result, err)

	var balance []byte
	err = db.ReadTransact(ctx, func(r kv.Reader) (err error) {
		balance, err = r.Get([]byte("balance"))
		return err
	})
	fmt.Println(balance[0], err)
	fmt.Println(lane.Forget(ctx))
	// Output:
	// attempt 2 <nil>
	// 100 <nil>
	// <nil>
}
