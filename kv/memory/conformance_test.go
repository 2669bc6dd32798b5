package memory_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/kvtest"
	"github.com/conq-go/conq/kv/memory"
)

func TestConformance(t *testing.T) {
	var offset atomic.Int64 // of the clock
	kvtest.Run(t, kvtest.Engine{
		Open: func(*testing.T) kv.DB {
			return memory.New(memory.Options{
				Now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) },
			})
		},
		Advance: func(d time.Duration) { offset.Add(int64(d)) },
	})
}

func TestConformanceWithSmallLimits(t *testing.T) {
	kvtest.Run(t, kvtest.Engine{Open: func(*testing.T) kv.DB {
		return memory.New(memory.Options{
			Limits: kv.Limits{Key: 30, Value: 50, Transaction: 2000, Operations: 100},
		})
	}})
}
