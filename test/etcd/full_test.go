package etcd_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// When the database becomes full, what was refused is not there, and what was acknowledged
// is; and whoever comes later is told so, and does not wait.
func TestFullCluster(t *testing.T) {
	c := startCluster(t, clusterOptions{quota: 32 << 20})
	db := open(t, c.options())
	padding := strings.Repeat("x", 100<<10)
	var mu sync.Mutex
	acknowledged, refused := make(map[string]bool), make(map[string]error)
	var group sync.WaitGroup
	var queues []*conq.Queue[string]
	for i := range 32 {
		queues = append(queues, openQueue(t, db, fmt.Sprint("q", i)))
	}
	for i, q := range queues {
		group.Go(func() {
			for n := 0; ; n++ {
				value := fmt.Sprintf("%d.%d.", i, n)
				err := q.Enqueue(t.Context(), value+padding)
				mu.Lock()
				switch {
				case err == nil:
					acknowledged[value] = true
				case !errors.Is(err, kv.ErrCommitUnknown):
					refused[value] = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	group.Wait()
	there := make(map[string]bool)
	for _, q := range queues {
		for item, err := range q.All(t.Context()) {
			testkit.NoError(t, err)
			there[strings.TrimRight(item, "x")] = true
		}
		if err := q.Enqueue(t.Context(), "later"); err == nil || errors.Is(err, kv.ErrCommitUnknown) || !strings.Contains(err.Error(), "no space") {
			t.Errorf("an item for a full cluster: error %v, want one that says so", err)
		}
	}
	for value, err := range refused {
		if there[value] {
			t.Errorf("item %s was refused with %v, and is there", value, err)
		}
	}
	for value := range acknowledged {
		if !there[value] {
			t.Errorf("item %s was acknowledged, and is not there", value)
		}
	}
	t.Logf("%d items were acknowledged, %d refused", len(acknowledged), len(refused))
}
