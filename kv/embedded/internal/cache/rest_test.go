package cache

import (
	"fmt"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// A cache forgets what nobody asks for, and not what somebody does.
func TestRest(t *testing.T) {
	const queues = 3 * restStep
	s := newStore(Usual)
	name := func(i int) kv.Range { return kv.PrefixRange(fmt.Appendf(nil, "q%04d", i)) }
	for i := range queues {
		s.set(nil, item(fmt.Sprintf("q%04d", i), 1))
		s.read(name(i), false, 1)
		s.last(name(i), name(i))
	}
	missed := s.missed
	for range 4 {
		s.read(name(1), false, 1)
		s.last(name(100), name(100))
		s.Rest()
	}
	testkit.Equal(t, "reads that missed", s.missed-missed, 0)
	ranges, lastKeys := s.Len()
	testkit.Equal(t, "hot ranges and last keys", ranges+lastKeys, 2)
	for range 3 {
		s.Rest()
	}
	ranges, lastKeys = s.Len()
	testkit.Equal(t, "hot ranges and last keys", ranges+lastKeys, 0)
	testkit.Equal(t, "bytes", s.bytes+s.lastKeys.bytes, 0)
}
