// Package reuse keeps values that many of one kind need for a moment, one at a time: all of that
// kind share a few, which are in the processor's caches, in place of one each, which would be in
// none.
package reuse

import (
	"reflect"
	"sync"
)

// Pool has values of a type that are not in use. It is safe for concurrent use.
type Pool[T any] struct{ pool *sync.Pool }

var pools sync.Map // reflect.Type of T to *sync.Pool

// Of returns the pool of a type, of which a process has one. It makes a value where it has none
// by the function that it was first asked for with.
func Of[T any](make func() *T) Pool[T] {
	kind := reflect.TypeFor[T]()
	pool, ok := pools.Load(kind)
	if !ok {
		pool, _ = pools.LoadOrStore(kind, &sync.Pool{New: func() any { return make() }})
	}
	return Pool[T]{pool.(*sync.Pool)}
}

// Get returns a value that nobody else has until it is put back.
func (p Pool[T]) Get() *T { return p.pool.Get().(*T) }

// Put puts a value back, which must have nothing left of its use.
func (p Pool[T]) Put(v *T) { p.pool.Put(v) }
