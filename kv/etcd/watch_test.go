package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// darkWatcher is a client whose watches wait for a member that does not answer.
type darkWatcher struct {
	clientv3.Watcher
	asked chan struct{}
}

func (w darkWatcher) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	close(w.asked)
	<-ctx.Done()
	ended := make(chan clientv3.WatchResponse)
	close(ended)
	return ended
}

// Who waits is told when another member is used, also if the last one has not even
// answered that it watches.
func TestWatchOfMemberThatWentDark(t *testing.T) {
	db := newFakeCluster().open(t)
	dark := darkWatcher{asked: make(chan struct{})}
	db.conn.client = &clientv3.Client{Watcher: dark}
	var told <-chan error
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		told = tx.Watch([]byte("a"))
		return nil
	}))
	<-dark.asked
	db.conn.leave() // as use does
	select {
	case err := <-told:
		if err != nil {
			t.Errorf("it is told %v, want that something may have changed", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("it is not told")
	}
	db.stop(kv.ErrClosed)
	db.running.Wait()
}
