package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// fromSlice returns a next function over a slice.
func fromSlice(items []item) func() (item, error) {
	return func() (item, error) {
		if len(items) == 0 {
			return item{}, io.EOF
		}
		it := items[0]
		items = items[1:]
		return it, nil
	}
}

func numbered(n int) []item {
	all := make([]item, n)
	for i := range all {
		all[i].Value = fmt.Append(nil, i+1)
	}
	return all
}

func TestFeedIsBoundedAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed(budget.Batch{Items: 10, Bytes: 1000})
		go f.fill(fromSlice(numbered(25)))
		synctest.Wait() // the reader is ahead as far as it may be
		want := 1
		for _, size := range []int{10, 10, 5} {
			batch, first, err := f.take(t.Context())
			if err != nil || len(batch) != size || first != want || string(batch[0].Value) != fmt.Sprint(first) {
				t.Fatalf("batch of %d items from %d: %v", len(batch), first, err)
			}
			want += size
			synctest.Wait()
		}
		if _, first, err := f.take(t.Context()); err != io.EOF || first != 26 {
			t.Errorf("behind the end: item %d, %v", first, err)
		}
	})
}

func TestFeedBoundsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed(budget.Batch{Items: 1000, Bytes: 100})
		large := item{Value: make([]byte, 60)}
		go f.fill(fromSlice([]item{large, large, large}))
		synctest.Wait()
		if batch, _, err := f.take(t.Context()); err != nil || len(batch) != 2 {
			t.Errorf("%d items, %v", len(batch), err)
		}
	})
}

func TestFeedDoesNotWaitForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := make(chan item)
		defer close(lines)
		f := newFeed(budget.Batch{Items: 10, Bytes: 1000})
		go f.fill(func() (item, error) {
			it, ok := <-lines
			if !ok {
				return it, io.EOF
			}
			return it, nil
		})
		lines <- item{Value: []byte("first")}
		synctest.Wait()
		if batch, _, err := f.take(t.Context()); err != nil || len(batch) != 1 {
			t.Errorf("%d items, %v", len(batch), err)
		}
	})
}

func TestFeedCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		lines := make(chan struct{})
		f := newFeed(budget.Batch{Items: 1, Bytes: 1})
		go f.fill(func() (item, error) {
			<-lines
			return item{}, nil // after which the feed, being closed, asks for no more
		})
		failed := make(chan error)
		go func() {
			_, _, err := f.take(ctx)
			failed <- err
		}()
		synctest.Wait()
		cancel(stop)
		if err := <-failed; !errors.Is(err, stop) {
			t.Errorf("error %v", err)
		}
		close(lines) // fill ends, or the bubble would be stuck
	})
}

func TestFullFeedCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed(budget.Batch{Items: 1, Bytes: 1})
		go f.fill(fromSlice(numbered(5)))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := f.take(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		f.close() // fill ends, or the bubble would be stuck
	})
}

// A store that takes 10 bytes a transaction, and no item over 5.
func fussy(taken *[]string) func(context.Context, []item) error {
	return func(_ context.Context, batch []item) error {
		total := 0
		for _, it := range batch {
			if total += len(it.Value); len(it.Value) > 5 || total > 10 {
				return &kv.TooLargeError{What: "item", Size: len(it.Value), Limit: 5, Unit: "bytes"}
			}
		}
		for _, it := range batch {
			*taken = append(*taken, string(it.Value))
		}
		return nil
	}
}

func TestPutHalvesAndNamesTheItem(t *testing.T) {
	for bad := range 9 {
		lines := strings.Fields("a bb ccc dddd eeeee f gg hhh iiii")
		lines[bad] = "too large"
		var in []item
		for _, l := range lines {
			in = append(in, item{Value: []byte(l)})
		}
		f := newFeed(budget.Batch{Items: 1000, Bytes: 1000})
		f.fill(fromSlice(in))
		var taken []string
		var out bytes.Buffer
		p := putter{
			app: &app{stdout: &out, stderr: io.Discard}, flags: putFlags{ack: true},
			queue: "q", unit: "line", put: fussy(&taken),
		}
		err := p.run(t.Context(), f)
		want := fmt.Sprintf("line %d: kv: item of 9 bytes is over the limit of 5; %s put into \"q\" before that", bad+1, items(bad))
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		if !slices.Equal(taken, lines[:bad]) {
			t.Errorf("took %q", taken)
		}
		if acked := strings.Fields(out.String()); bad > 0 && (len(acked) == 0 || acked[len(acked)-1] != fmt.Sprint(bad)) {
			t.Errorf("acknowledged %q", acked)
		}
	}
}

func TestPutOtherErrors(t *testing.T) {
	full := errors.New("no space")
	tests := []struct {
		err  error
		want string
	}{
		{full, "no space; 0 items put"},
		{kv.ErrCommitUnknown, "lines 1 to 3 may or may not be in; 0 items put"},
	}
	for _, test := range tests {
		f := newFeed(budget.Batch{Items: 1000, Bytes: 1000})
		f.fill(fromSlice(numbered(3)))
		calls := 0
		p := putter{app: &app{}, unit: "line", put: func(context.Context, []item) error { calls++; return test.err }}
		err := p.run(t.Context(), f)
		if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.want) || calls != 1 {
			t.Errorf("%d calls, error %v", calls, err)
		}
	}
}

// What is put in may have more bytes than an int can count where it has 32 bits.
func TestPutCountsManyBytes(t *testing.T) {
	const number, size = 33, 64 << 20
	in := slices.Repeat([]item{{Value: make([]byte, size)}}, number)
	f := newFeed(budget.Batch{Items: 1, Bytes: 1})
	go f.fill(fromSlice(in))
	var out bytes.Buffer
	p := putter{app: &app{json: true, stdout: &out}, put: func(context.Context, []item) error { return nil }}
	testkit.NoError(t, p.run(t.Context(), f))
	if want := fmt.Sprintf(`"bytes":%d,`, int64(number)*size); !strings.Contains(out.String(), want) {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}

// If it is unknown whether the queue was made, no item is in for certain.
func TestPutIntoQueueThatMayNotBeMade(t *testing.T) {
	b := newBench(t)
	to := goal{kind: conq.KindQueue, parse: plain, open: func(context.Context, backend) (target, error) { return nil, kv.ErrCommitUnknown }}
	err := b.app.putInto(t.Context(), local{b.app, b.db}, putFlags{}, []string{"q", "x"}, to)
	if err == nil || strings.Contains(err.Error(), "may or may not") || !strings.Contains(err.Error(), "0 items put") {
		t.Errorf("error %v", err)
	}
}

func TestParsePriority(t *testing.T) {
	tests := []struct {
		line, value string
		priority    int64
		ok          bool
	}{
		{"5\tx", "x", 5, true},
		{"-9223372036854775808\t", "", -1 << 63, true},
		{"0\ta\tb", "a\tb", 0, true},
		{"9223372036854775808\tx", "", 0, false},
		{"5 x", "", 0, false},
		{"\tx", "", 0, false},
		{"1.5\tx", "", 0, false},
	}
	for _, test := range tests {
		it, err := withPriority([]byte(test.line))
		if (err == nil) != test.ok || err == nil && (string(it.Value) != test.value || it.Priority != test.priority) {
			t.Errorf("%q: %q with priority %d, %v", test.line, it.Value, it.Priority, err)
		}
	}
}

func FuzzWithPriority(f *testing.F) {
	for _, line := range []string{"5\tx", "-0\t", "+7\ta\tb", "\t", "99999999999999999999\tx"} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		it, err := withPriority(line)
		if err != nil {
			return
		}
		again, err := withPriority(fmt.Appendf(nil, "%d\t%s", it.Priority, it.Value))
		if err != nil || again.Priority != it.Priority || !bytes.Equal(again.Value, it.Value) {
			t.Errorf("%q: %+v, then %+v, %v", line, it, again, err)
		}
	})
}
