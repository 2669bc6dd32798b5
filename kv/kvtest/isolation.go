package kvtest

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/conq-go/conq/kv"
)

var isolationCases = []testCase{
	{name: "no write skew", check: checkWriteSkew,
		rule: "two transactions that each read what the other writes do not both commit"},
	{name: "no read-only anomaly", check: checkReadOnlyAnomaly,
		rule: "what a read-only transaction saw stays true: no transaction commits that would have to come before it and can't"},
	{name: "one version", check: checkOneVersion,
		rule: "all reads of a transaction, plain and Snapshot, Get and Range, see the store at one version"},
	{name: "version of the first read", check: checkFirstRead,
		rule: "the version is no older than the moment of the first read"},
	{name: "loop sees one version", check: checkLoopVersion,
		rule: "a range that is being read does not change while others commit"},
	{name: "bank", check: checkBank,
		rule: "transfers between accounts keep the sum, in every view of them"},
	{name: "random histories", check: checkHistories,
		rule: "committed transactions behave as if each ran alone, in an order that agrees with real time: one that begins after another was acknowledged sees it"},
}

func checkWriteSkew(t *tester) {
	t.reset("x", "y")
	leave := func(tx kv.Tx, who string) error { // allowed if both are there
		pairs, err := keysOf(tx.Range(span("x", "z"), kv.RangeOptions{}))
		if err == nil && pairs == "x y " {
			tx.Clear([]byte(who))
		}
		return err
	}
	n := 0
	t.transact(func(tx kv.Tx) error {
		err := leave(tx, "x")
		if n++; n == 1 && err == nil {
			t.transact(func(tx kv.Tx) error { return leave(tx, "y") })
		}
		return err
	})
	t.want("each of two transactions may clear one key if both are there", "x", "x")
}

// checkReadOnlyAnomaly is the example of receipts and batches: a receipt joins
// the batch that it read, another transaction closes that batch, a third
// reports it. The report must stay complete.
func checkReadOnlyAnomaly(t *tester) {
	t.put("batch", "1")
	report := ""
	n := 0
	t.transact(func(tx kv.Tx) error {
		batch, err := tx.Get([]byte("batch"))
		if err != nil {
			return err
		}
		tx.Set([]byte("receipt "+string(batch)), nil)
		if n++; n > 1 {
			return nil
		}
		t.put("batch", "2")
		t.read(func(r kv.Reader) error {
			report, err = keysOf(r.Range(span("receipt 1", "receipt 2"), kv.RangeOptions{}))
			return err
		})
		return err
	})
	t.want("the report on batch 1 was "+strconv.Quote(report), "batch", "2", "receipt 2", "")
}

// everything reads x and y in all ways.
func everything(r kv.Reader) (string, error) {
	seen := ""
	for _, r := range []kv.Reader{r, r.Snapshot()} {
		for _, key := range []string{"x", "y"} {
			value, err := r.Get([]byte(key))
			if err != nil {
				return "", err
			}
			seen += showValue(value) + " "
		}
		for _, reverse := range []bool{false, true} {
			pairs, err := op{kind: "range", reverse: reverse}.runRange(r)
			if err != nil {
				return "", err
			}
			seen += pairs + " "
		}
	}
	return seen, nil
}

func checkOneVersion(t *tester) {
	change := func(tx kv.Tx) {
		tx.Set([]byte("x"), []byte("later"))
		tx.Clear([]byte("y"))
		tx.Set([]byte("z"), []byte("later"))
	}
	firstReads := map[string]func(kv.Reader) error{
		"Get":      func(r kv.Reader) error { _, err := r.Get([]byte("x")); return err },
		"Range":    func(r kv.Reader) error { _, err := collect(r.Range(span("p", "q"), kv.RangeOptions{})); return err },
		"Snapshot": func(r kv.Reader) error { _, err := r.Snapshot().Get([]byte("q")); return err },
	}
	for name, first := range firstReads {
		check := func(r kv.Reader) error {
			t.reset("x", "y")
			if err := first(r); err != nil {
				return err
			}
			before, err := everything(r)
			if err != nil {
				return err
			}
			t.write(change)
			after, err := everything(r)
			if before != after {
				t.Errorf("a transaction whose first read was a %s read %s, and, when another had committed, %s", name, before, after)
			}
			return err
		}
		t.inBoth(check)
	}
}

func checkFirstRead(t *tester) {
	check := func(r kv.Reader) error {
		t.reset("k")
		t.wantGet("in a transaction that began before the key was written, and reads it now", r, "k", "k")
		t.write(set("k"))
		t.wantGet("later in the same transaction", r, "k", "k")
		return nil
	}
	t.inBoth(check)
	t.reset()
	t.transact(func(tx kv.Tx) error {
		tx.Set([]byte("own"), nil)
		return check(tx.Snapshot())
	})
}

func checkLoopVersion(t *tester) {
	change := func(tx kv.Tx) {
		tx.Set([]byte("a"), []byte("later"))
		tx.Set([]byte("bb"), []byte("later"))
		tx.Clear([]byte("c"))
		tx.Set([]byte("d"), []byte("later"))
	}
	for _, reverse := range []bool{false, true} {
		check := func(r kv.Reader) error {
			t.reset("b", "c", "d", "e")
			var got []kv.KeyValue
			for pair, err := range r.Range(kv.Range{}, kv.RangeOptions{Reverse: reverse}) {
				if err != nil {
					return err
				}
				if got = append(got, pair); len(got) == 1 {
					t.write(change)
				}
			}
			want := showPairs("b", "b", "c", "c", "d", "d", "e", "e")
			if reverse {
				want = showPairs("e", "e", "d", "d", "c", "c", "b", "b")
			}
			if show(got) != want {
				t.Errorf("a loop, reverse %v, during which another transaction committed, returned %s, want %s", reverse, show(got), want)
			}
			return nil
		}
		t.inBoth(check)
	}
}

func checkBank(t *tester) {
	const accounts, sum = 6, 600
	t.write(func(tx kv.Tx) {
		for i := range accounts {
			tx.Set(account(i), fmt.Append(nil, sum/accounts))
		}
	})
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 40 {
				from, to := (g+i)%accounts, (3*g+2*i+1)%accounts
				if !t.goes(func(tx kv.Tx) error { return t.transfer(tx, from, to, sum) }) {
					return
				}
				if err := t.db.ReadTransact(t.ctx, func(r kv.Reader) error { return t.audit(r, sum) }); err != nil {
					t.Errorf("ReadTransact: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
}

func account(i int) []byte { return []byte("account " + strconv.Itoa(i)) }

// balance reads an account.
func balance(r kv.Reader, i int) (int, error) {
	value, err := r.Get(account(i))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(value))
}

// transfer moves up to 7 from one account to another, and audits the sum.
func (t *tester) transfer(tx kv.Tx, from, to, sum int) error {
	source, err := balance(tx, from)
	if err != nil {
		return err
	}
	amount := min(7, source)
	tx.Set(account(from), fmt.Append(nil, source-amount))
	target, err := balance(tx, to)
	if err != nil {
		return err
	}
	tx.Set(account(to), fmt.Append(nil, target+amount))
	return t.audit(tx.Snapshot(), sum)
}

// audit checks the sum of all accounts.
func (t *tester) audit(r kv.Reader, want int) error {
	total := 0
	for pair, err := range r.Range(kv.PrefixRange([]byte("account ")), kv.RangeOptions{}) {
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(pair.Value))
		if err != nil {
			return err
		}
		total += n
	}
	if total != want {
		t.Errorf("a transaction saw accounts that sum up to %d, want %d", total, want)
	}
	return nil
}
