package recipe_test

import (
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
)

// The cost of a key: one snapshot read in memory, the random element, packing.
func BenchmarkNextKey(b *testing.B) {
	db := open(b)
	q := recipe.NewQueue(queueItems, nil)
	p := recipe.NewPriorityQueue(priorityItems, nil, recipe.LastPushed)
	transact(b, db, enqueue(q, "x"))
	transact(b, db, push(p, "x", 5))
	for name, next := range map[string]func(kv.Tx) ([]byte, error){
		"queue":          q.NextKey,
		"priority queue": func(tx kv.Tx) ([]byte, error) { return p.NextKey(tx, 5) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				err := db.Transact(b.Context(), func(tx kv.Tx) error {
					_, err := next(tx)
					return err
				})
				testkit.NoError(b, err)
			}
		})
	}
}

// The cost of reading an item key back.
func BenchmarkPriority(b *testing.B) {
	db := open(b)
	p := recipe.NewPriorityQueue(priorityItems, nil, recipe.LastPushed)
	var key []byte
	transact(b, db, func(tx kv.Tx) (err error) {
		key, err = p.NextKey(tx, -123456)
		return err
	})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Priority(key); err != nil {
			b.Fatal(err)
		}
	}
}
