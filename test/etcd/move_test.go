package etcd_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/work"
)

// Queues move from another engine to a cluster as they are, also payloads that must be
// split in another way there, and a check of the cluster finds nothing.
func TestMoveAndCheck(t *testing.T) {
	from := memory.New(memory.Options{})
	defer func() { testkit.NoError(t, from.Close()) }()
	queue := openQueue(t, from, "queue")
	priority, err := conq.OpenPriorityQueue(t.Context(), from, "priority", conq.String())
	testkit.NoError(t, err)
	for i := range 700 {
		testkit.NoError(t, queue.Enqueue(t.Context(), fmt.Sprint(i)))
		testkit.NoError(t, priority.Push(t.Context(), fmt.Sprint(i), int64(i%7-3)))
	}
	testkit.NoError(t, queue.Enqueue(t.Context(), strings.Repeat("large ", 100_000)))
	jobs, err := work.Open(t.Context(), from, "jobs", conq.String())
	testkit.NoError(t, err)
	for i := range 100 {
		_, err := jobs.Put(t.Context(), strings.Repeat("job ", i*100), work.Job{
			Key: fmt.Sprint(i % 9), Priority: int64(i % 3), Delay: time.Duration(i%2) * time.Hour, Unique: fmt.Sprint(i),
		})
		testkit.NoError(t, err)
	}
	testkit.NoError(t, jobs.Every(t.Context(), "nightly", "0 3 * * *", "v"))
	testkit.NoError(t, jobs.Close())

	to := open(t, startCluster(t, clusterOptions{}).options())
	var dump, again bytes.Buffer
	_, err = conq.Dump(t.Context(), from, &dump)
	testkit.NoError(t, err)
	_, err = conq.Load(t.Context(), to, bytes.NewReader(dump.Bytes()))
	testkit.NoError(t, err)
	_, err = conq.Dump(t.Context(), to, &again)
	testkit.NoError(t, err)
	if !bytes.Equal(dump.Bytes(), again.Bytes()) {
		t.Errorf("a dump of %d bytes came back with %d others", dump.Len(), again.Len())
	}
	_, err = conq.Check(t.Context(), to, conq.CheckOptions{Found: func(f conq.Finding) { t.Error(f) }})
	testkit.NoError(t, err)
}
