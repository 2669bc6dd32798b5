package reuse_test

import (
	"sync"
	"testing"

	"github.com/conq-go/conq/internal/reuse"
)

type thing[T any] struct{ made, users int }

// Nobody gets what somebody else has, nor what another type has; what is put back is got again.
func TestPool(t *testing.T) {
	a := reuse.Of(func() *thing[int] { return &thing[int]{made: 1} })
	b := reuse.Of(func() *thing[string] { return &thing[string]{made: 2} })
	again := reuse.Of(func() *thing[int] { return &thing[int]{made: 3} })
	var mu sync.Mutex
	users := make(map[*thing[int]]int)
	reused := false
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 10_000 {
				pool := a
				if i%2 == 1 {
					pool = again
				}
				v := pool.Get()
				if v.users++; v.users > 1 || v.made != 1 { // the race detector would find it, too
					t.Errorf("%d users of what was made by function %d", v.users, v.made)
					return
				}
				mu.Lock()
				reused = reused || users[v] > 0
				users[v]++
				mu.Unlock()
				v.users--
				pool.Put(v)
			}
		})
	}
	group.Wait()
	if !reused {
		t.Error("nothing was got a second time")
	}
	if v := b.Get(); v.made != 2 {
		t.Errorf("got what was made by function %d, want 2", v.made)
	}
}
