package recipe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
)

func ExampleQueue() {
	db := memory.New(memory.Options{})
	defer db.Close()
	queue := recipe.NewQueue(subspace.Named("emails"), nil)
	err := db.Transact(context.Background(), func(tx kv.Tx) error {
		for _, to := range []string{"ada", "ben", "cyd"} {
			if err := queue.Enqueue(tx, []byte(to)); err != nil {
				return err
			}
		}
		item, ok, err := queue.Dequeue(tx)
		fmt.Printf("%s %v\n", item.Value, ok)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: ada true
}

func ExamplePriorityQueue() {
	db := memory.New(memory.Options{})
	defer db.Close()
	jobs := recipe.NewPriorityQueue(subspace.Named("jobs"), nil, recipe.FirstPushed)
	err := db.Transact(context.Background(), func(tx kv.Tx) error {
		for _, priority := range []int64{5, -3, 5} {
			if err := jobs.Push(tx, fmt.Appendf(nil, "job of %d", priority), priority); err != nil {
				return err
			}
		}
		lowest, _, err := jobs.PopMin(tx)
		if err != nil {
			return err
		}
		highest, _, err := jobs.PopMax(tx)
		fmt.Printf("%s, %s\n", lowest.Value, highest.Value)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: job of -3, job of 5
}

// An item moves from one queue to another, or stays where it is.
func ExampleQueue_Dequeue() {
	db := memory.New(memory.Options{})
	defer db.Close()
	todo := recipe.NewQueue(subspace.Named("todo"), nil)
	done := recipe.NewQueue(subspace.Named("done"), nil)
	move := func(tx kv.Tx) error {
		item, ok, err := todo.Dequeue(tx)
		if err != nil || !ok {
			return err
		}
		fmt.Printf("moving %s\n", item.Value)
		return done.Enqueue(tx, item.Value)
	}
	add := func(tx kv.Tx) error { return todo.Enqueue(tx, []byte("laundry")) }
	for _, f := range []func(kv.Tx) error{add, move} {
		if err := db.Transact(context.Background(), f); err != nil {
			log.Fatal(err)
		}
	}
	// Output: moving laundry
}
