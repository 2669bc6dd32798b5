package staging

import (
	"errors"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// told is a store that tells of other limits than it has.
type told struct {
	kv.DB
	limits kv.Limits
}

func (db told) Limits() kv.Limits { return db.limits }

// What was served can be put back, however little a transaction of the store has room for, and whatever it tells.
func TestPutBackUnderLimits(t *testing.T) {
	for operations := 8; operations < 60; operations += 3 {
		testkit.Bubble(t, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{Operations: operations})
			fill(t, db, 20)
			s := stage(told{db, kv.Limits{Operations: 128}}, Options{PutBack: func(tx kv.Tx) error {
				tx.Set([]byte("signal"), nil)
				return nil
			}})
			dead := register(t, s, Front, 7)
			register(t, s, Back, 2)
			inTheRole(t, s)
			_, found, err := peek(t, s, dead)
			if err != nil || !found {
				t.Errorf("%d operations: served: %t, %v", operations, found, err)
			}
			pass(time.Minute)
			testkit.Check(t, s.Expire(t.Context()))
			nothingLeft(t, db)
			testkit.Equal(t, "items", count(t, db, testQueue.Range()), 20)
		})
	}
}

// peek returns the result of a request, and leaves it.
func peek[T any](t *testing.T, s *Stage, of *taking[T]) (r result, found bool, err error) {
	t.Helper()
	stop := errors.New("leave it")
	err = s.db.Transact(t.Context(), func(tx kv.Tx) (err error) {
		if r, found, err = s.takeResult(tx, of.request.deadline, of.op); err == nil {
			err = stop
		}
		return err
	})
	if errors.Is(err, stop) {
		err = nil
	}
	return r, found, err
}

// Dead requests go, however few of them a transaction can remove.
func TestDropDeadInParts(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{Operations: 8})
		for range 10 {
			register(t, stage(db, Options{}), Front, 1) // and dies
		}
		pass(time.Minute)
		testkit.Check(t, stage(told{db, kv.Limits{Operations: 128}}, Options{}).Expire(t.Context()))
		nothingLeft(t, db)
	})
}
