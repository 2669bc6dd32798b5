package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

func TestOpenByURL(t *testing.T) {
	for _, url := range []string{"memory:", "memory://"} {
		db, err := kv.Open(t.Context(), url)
		if err != nil {
			t.Fatalf("kv.Open(%q): %v", url, err)
		}
		testkit.Check(t, db.Close())
	}
	if _, err := kv.Open(t.Context(), "memory:name"); !errors.Is(err, kv.ErrInvalid) {
		t.Errorf("error %v for a store with a name, want ErrInvalid", err)
	}
}

func TestLimitsDefaultFieldByField(t *testing.T) {
	got := memory.New(memory.Options{Limits: kv.Limits{Value: 5, Operations: 7, Shared: true}}).Limits()
	want := kv.Limits{
		Key: 10_000, Value: 5, Transaction: 10_000_000, Operations: 7, Age: 5 * time.Second, Shared: true,
	}
	if got != want {
		t.Errorf("limits %+v, want %+v", got, want)
	}
}
