package check_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/check"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// Nobody need be told of what was found.
func TestCheckSilent(t *testing.T) {
	db, f := healthyStore(t)
	p := &plot{t, db, f}
	p.set(layout.EntryKey("q"), []byte("x"))
	report, err := conq.Check(t.Context(), db)
	testkit.NoError(t, err)
	testkit.Equal(t, "faults", report.Faults, 1)
}

// What can't be mended any more when its turn comes is told all the same.
func TestCheckWorse(t *testing.T) {
	db, f := healthyStore(t)
	p := &plot{t, db, f}
	item := p.split()
	p.clear(item)
	first := true
	_, found := runCheck(t, &testkit.Hooked{DB: db, Attempt: func(tx kv.Tx) kv.Tx {
		if first {
			first = false
			p.set(testkit.Packed(t, testkit.Laid("q").Beside(item), 1, "x"), nil)
		}
		return tx
	}}, check.CheckOptions{Repair: true})
	testkit.Equal(t, "found", found, "piece key q, orphans q 2")
}

// What follows each other and is of different kinds is told apart.
func TestCheckRuns(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	testkit.Write(t, db, kv.KeyValue{Key: layout.System("zoo")}, kv.KeyValue{Key: testkit.Packed(t, nil, "other", 1)})
	_, found := runCheck(t, db, check.CheckOptions{})
	testkit.Equal(t, "found", found, "unknown key, other keys~")
}

// A payload of which pieces are missing is told as that only.
func TestCheckDecodeBroken(t *testing.T) {
	db, f := healthyStore(t)
	p := &plot{t, db, f}
	p.clear(p.piece(p.split(), 1))
	_, found := runCheck(t, readOnly{db}, check.CheckOptions{Decode: func(_ string, payload []byte) error {
		if len(payload) == 250 {
			return errors.New("too long")
		}
		return nil
	}})
	testkit.Equal(t, "found", found, "pieces q, item value q")
}

// A finding says what is wrong, with numbers from 1 on, and what to do.
func TestCheckTexts(t *testing.T) {
	for _, c := range []struct {
		plant func(p *plot)
		want  []string
	}{
		{func(p *plot) { p.clear(layout.FormatKey()) }, []string{"the store's format is missing; ", "conq stat with a queue's name does"}},
		{func(p *plot) {
			p.set(layout.FormatKey(), []byte("x"))
			p.set(p.stage(3, 1, 1, opID(1)), nil)
		}, []string{"put the format back from a copy of the store", "the store's format has to be known first"}},
		{func(p *plot) { p.set(p.piece(p.split(), 1), make([]byte, 99)) }, []string{"piece 2 of 3 has 99 bytes, and the first one 100"}},
		{func(p *plot) { p.set(p.split(), make([]byte, 10)) }, []string{"the last of 3 pieces has 50 bytes, and the first one 10"}},
		{func(p *plot) { p.clear(p.piece(p.split(), 2)) }, []string{"1 of 3 pieces are missing"}},
		{func(p *plot) {
			p.clear(p.piece(p.split(), 1))
			p.clear(p.piece(p.split(), 2))
		}, []string{"2 of 3 pieces are missing"}},
		{func(p *plot) { p.set(testkit.Packed(t, testkit.Laid("q").Prefix(), 1, 1, opID(1)), nil) }, []string{"2 integers in front of the random bytes, and should have 1"}},
		{func(p *plot) { p.set(testkit.Packed(t, testkit.Laid("q").Prefix(), opID(1)), nil) }, []string{"its key is not that of an item"}},
		{func(p *plot) { p.set(testkit.Packed(t, testkit.Laid("q").Prefix(), 1, "x"), nil) }, []string{"its key is not that of an item"}},
		{func(p *plot) { p.set(testkit.Packed(t, testkit.Laid("q").Prefix(), 1, opID(1), 2, 2), nil) }, []string{"its key is not that of an item"}},
		{func(p *plot) { p.set(testkit.Packed(t, testkit.Laid("q").Prefix(), 1, opID(1), 1), nil) }, []string{"the number of pieces in its key"}},
		{func(p *plot) { p.set(append(testkit.Laid("q").Prefix(), 0xfe), nil) }, []string{"tuple: "}},
	} {
		db, f := healthyStore(t)
		c.plant(&plot{t, db, f})
		var texts []string
		testkit.NoError(t, testkit.Drop(atCheckTime(0).Check(t.Context(), db, check.CheckOptions{
			Found: func(f check.Finding) { texts = append(texts, f.String()) },
		})))
		all := strings.Join(texts, "\n")
		for _, want := range c.want {
			if !strings.Contains(all, want) {
				t.Errorf("found %s\nwant %s", all, want)
			}
		}
	}
}
