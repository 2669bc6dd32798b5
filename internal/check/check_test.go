package check

import (
	"math"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// A store may have more bytes than an int can count where it has 32 bits.
func TestLargeStore(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	for i := range 20 {
		testkit.Write(t, db, kv.KeyValue{Key: testkit.Pack(t, "other", i)})
	}
	c := newChecker(db, CheckOptions{}, Settings{Page: 3})
	c.report.Bytes = math.MaxInt32 - 10
	testkit.NoError(t, c.all(t.Context()))
	testkit.Equal(t, "keys", c.report.Keys, 20)
	testkit.Equal(t, "more bytes than 32 bits can count", c.report.Bytes > math.MaxInt32, true)
}
