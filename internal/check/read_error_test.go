package check_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/conq-go/conq/internal/check"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// So it is with a check of a store that is damaged. One that only looks tells at once, and reads no more. make
// thorough has each read fail.
func TestReadErrorsCheck(t *testing.T) {
	testkit.Long(t)
	damaged := func(t *testing.T, c planted) kv.DB {
		db, f := healthyStore(t)
		c.plant(t, &plot{t, db, f})
		return db
	}
	for _, c := range slices.Concat(plantedKeys, plantedPieces, plantedStaging) {
		t.Run(c.name, func(t *testing.T) {
			db := damaged(t, c)
			for k := range testkit.Faults(3) {
				at := k
				o := check.CheckOptions{Decode: func(string, []byte) error { return nil }}
				_, found, err := tryCheck(t, testkit.FailingAt(readOnly{db}, &at), 0, o)
				if at > 0 {
					testkit.NoError(t, err)
					testkit.Equal(t, "found", found, c.want)
					break
				}
				testkit.WantError(t, err, testkit.ErrRead)
				testkit.Equal(t, fmt.Sprintf("reads after read %d, which failed", k), -at, 0)
			}
			if c.then == "" {
				return
			}
			for k := range testkit.Faults(3) {
				db, at := damaged(t, c), k
				_, found, err := tryCheck(t, testkit.FailingAt(db, &at), 0, check.CheckOptions{Repair: true})
				failed := at <= 0
				if err != nil {
					testkit.WantError(t, err, testkit.ErrRead)
					runCheck(t, db, check.CheckOptions{Repair: true})
				} else {
					testkit.Equal(t, fmt.Sprintf("found and mended without an error, though read %d failed", k), found, c.then)
				}
				_, found = runCheck(t, readOnly{db}, check.CheckOptions{})
				testkit.Equal(t, fmt.Sprintf("found after a repair in which read %d failed", k), found, c.after)
				if !failed {
					break
				}
			}
		})
	}
}
