package foundationdb

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/google/go-cmp/cmp"
)

// The status is as fdbcli documents it, with one process excluded and a coordinator gone.
func TestHealth(t *testing.T) {
	f := newFake()
	status, err := os.ReadFile("testdata/status.json")
	testkit.NoError(t, err)
	f.data.Set(string(statusKey), string(status))
	got, err := opened(t, newDB(f, Options{})).Health(t.Context())
	testkit.NoError(t, err)
	want := kv.Health{Bytes: 419_430_400, Problem: "Only one replica remains of some data", Members: []kv.Member{
		{Name: "10.0.4.1:4500", Detail: "coordinator, log, master, storage"},
		{Name: "10.0.4.2:4500", Detail: "storage, excluded", Down: true},
		{Name: "10.0.4.3:4500", Detail: "commit proxy, degraded", Down: true},
		{Name: "10.0.4.4:4500", Detail: "a coordinator that can't be reached", Down: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A cluster that does not answer is not waited for longer than the caller wants.
func TestHealthOfNoCluster(t *testing.T) {
	f := newFake()
	db := opened(t, newDB(f, Options{}))
	f.stuck.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := db.Health(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}
