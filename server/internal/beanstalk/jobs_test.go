package beanstalk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/tuple"
	"github.com/conq-go/conq/work"
)

// one runs a dialogue of one client: commands and replies by turns.
func one(t *testing.T, dialogue ...string) {
	t.Helper()
	inWorld(t, Options{MaxJobSize: 10}, func(w *world) {
		c := w.dial()
		defer c.close()
		for i := 0; i < len(dialogue); i += 2 {
			c.ask(dialogue[i], dialogue[i+1])
		}
	})
}

func TestFormats(t *testing.T) {
	for _, c := range [][]string{
		{"nosuchcommand", "UNKNOWN_COMMAND", "", "UNKNOWN_COMMAND", "USE a", "UNKNOWN_COMMAND", " use a", "UNKNOWN_COMMAND", "put", "UNKNOWN_COMMAND"},
		{"reserved", "BAD_FORMAT", "stats-", "BAD_FORMAT", "list-tubes x", "BAD_FORMAT", "peek-ready ", "BAD_FORMAT", "pause-tube", "BAD_FORMAT"},
		{strings.Repeat("x", 222), "UNKNOWN_COMMAND", strings.Repeat("x", 223), "BAD_FORMAT", strings.Repeat("x", 5000), "BAD_FORMAT", "use a", "USING a"},
		{"peek x", "BAD_FORMAT", "peek 1111111111111111111111111111", "BAD_FORMAT", "peek 1x", "BAD_FORMAT", "peek 18446744073709551615", "NOT_FOUND"},
		{"touch", "UNKNOWN_COMMAND", "touch ", "BAD_FORMAT", "touch a", "BAD_FORMAT", "touch 1 1", "BAD_FORMAT", "touch 1", "NOT_FOUND"},
		{"bury a", "BAD_FORMAT", "bury 1", "BAD_FORMAT", "bury 1 a", "BAD_FORMAT", "bury 1 1", "NOT_FOUND"},
		{"kick-job a", "BAD_FORMAT", "kick-job 1", "NOT_FOUND", "kick a", "BAD_FORMAT", "kick 4294967295", "KICKED 0"},
		{"delete a", "BAD_FORMAT", "delete -1", "BAD_FORMAT", "delete 1 1", "BAD_FORMAT", "delete 1", "NOT_FOUND"},
		{"release 1", "BAD_FORMAT", "release 1 1", "BAD_FORMAT", "release 1 1 a", "BAD_FORMAT", "release 1 1 1 1", "BAD_FORMAT", "release 1 1 1", "NOT_FOUND"},
		{"reserve-with-timeout", "BAD_FORMAT", "reserve-with-timeout a", "BAD_FORMAT", "reserve-with-timeout -1", "BAD_FORMAT", "reserve-with-timeout 0", "TIMED_OUT"},
		{"reserve-job a", "BAD_FORMAT", "reserve-job 1", "NOT_FOUND"},
		{"put -1 0 1 1", "BAD_FORMAT", "put a 0 1 1", "BAD_FORMAT", "put 4294967296 0 1 1", "BAD_FORMAT", "put 4294967295 0 1 1\na", "INSERTED 1"},
		{"put 0 -1 1 1", "BAD_FORMAT", "put 0 0 -1 1", "BAD_FORMAT", "put 0 0 1 -1", "BAD_FORMAT", "put 0 0 1", "BAD_FORMAT", "put 0 0 1 1 1", "BAD_FORMAT"},
		{"put  0  0 1   0\n", "INSERTED 1"},
		{"use -a", "BAD_FORMAT", "use", "UNKNOWN_COMMAND", "use ", "BAD_FORMAT", "use a b", "BAD_FORMAT", "use  a", "BAD_FORMAT", "use a\x00", "BAD_FORMAT", "use é", "BAD_FORMAT",
			"use " + strings.Repeat("a", 201), "BAD_FORMAT", "use " + strings.Repeat("a", 200), "USING " + strings.Repeat("a", 200),
			"use AZaz09-+/;.$_()", "USING AZaz09-+/;.$_()", "list-tube-used", "USING AZaz09-+/;.$_()"},
		{"watch a", "WATCHING 2", "watch a", "WATCHING 2", "watch b", "WATCHING 3", "list-tubes-watched", "OK 22\n---\n- default\n- a\n- b\n", "ignore c", "WATCHING 3",
			"ignore default", "WATCHING 2", "ignore a", "WATCHING 1", "ignore b", "NOT_IGNORED", "watch -", "BAD_FORMAT", "ignore ", "BAD_FORMAT"},
		{"pause-tube x", "BAD_FORMAT", "pause-tube x a", "BAD_FORMAT", "pause-tube x 0", "NOT_FOUND", "pause-tube default 0", "PAUSED"},
		{"stats-tube x", "NOT_FOUND", "stats-tube -", "BAD_FORMAT", "stats-job a", "BAD_FORMAT", "stats-job 1", "NOT_FOUND", "list-tubes", "OK 14\n---\n- default\n"},
	} {
		t.Run(fmt.Sprintf("%.20q", c[0]), func(t *testing.T) { one(t, c...) })
	}
}

// Bodies have their size, and lose nothing of what follows them.
func TestBodies(t *testing.T) {
	one(t,
		"put 0 0 1 11\n01234567890", "JOB_TOO_BIG", "put 0 0 1 10\n0123456789", "INSERTED 1",
		"put 0 0 1 100000\n"+strings.Repeat("x", 100000), "JOB_TOO_BIG", "delete 1", "DELETED",
	)
}

func TestBodyWithoutEnd(t *testing.T) {
	inWorld(t, Options{MaxJobSize: 1 << 20}, func(w *world) {
		c := w.dial()
		defer c.close()
		c.ask("put 0 0 9 3\nabcd\nlist-tube-used", "EXPECTED_CRLF")
		c.want("\\nlist-tube-used", "UNKNOWN_COMMAND") // what is before that was the body's
		c.ask("list-tube-used", "USING default")
		large := strings.Repeat("x", 1<<20)
		c.ask("put 0 0 9 1048576\n"+large, "INSERTED 1")
		c.ask("reserve", "RESERVED 1 1048576\n"+large)
		c.ask("put 0 0 9 5\n\r\r\r\r\x00", "INSERTED 2")
		c.ask("peek 2", "FOUND 2 5\n\r\r\r\r\x00")
	})
}

// Several commands may come in one packet, and one in several.
func TestPackets(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c := w.dial()
		defer c.close()
		go func() {
			testkit.NoError(t, c.write("use a\nuse b\nput 0 0 9 1\nx\n"))
			for _, b := range "use c\n" {
				testkit.NoError(t, c.write(string(b)))
			}
		}()
		for _, want := range []string{"USING a", "USING b", "INSERTED 1", "USING c"} {
			c.want("", want)
		}
	})
}

// Priority is first, then the order of arrival, over all tubes that are watched.
func TestOrder(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c := w.dial()
		defer c.close()
		for i, tube := range []string{"a", "b", "c", "a", "b", "c"} {
			c.ask("use "+tube, "USING "+tube)
			c.ask(fmt.Sprintf("put %d 0 99 1\n%d", i%2, i), fmt.Sprintf("INSERTED %d", i+1))
			c.ask("watch "+tube, fmt.Sprintf("WATCHING %d", 2+min(i, 2)))
		}
		for _, id := range []int{1, 3, 5} {
			c.ask("reserve", fmt.Sprintf("RESERVED %d 1\n%d", id, id-1))
		}
		// With a new priority a job is among those that have it by its id.
		c.ask("release 5 1 0", "RELEASED")
		c.ask("ignore b", "WATCHING 3")
		for _, id := range []int{4, 6} {
			c.ask("reserve", fmt.Sprintf("RESERVED %d 1\n%d", id, id-1))
		}
		c.ask("watch b", "WATCHING 4")
		for _, id := range []int{2, 5} {
			c.ask("reserve", fmt.Sprintf("RESERVED %d 1\n%d", id, id-1))
		}
		c.ask("bury 6 7", "BURIED")
		c.ask("bury 2 3", "BURIED")
		c.ask("use c", "USING c")
		c.ask("kick 9", "KICKED 1")
		c.ask("use b", "USING b")
		c.ask("kick 9", "KICKED 1")
		c.ask("reserve", "RESERVED 2 1\n1")
		c.ask("reserve", "RESERVED 6 1\n5")
		c.ask("reserve-with-timeout 0", "TIMED_OUT")
	})
}

func TestDelete(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c, other := w.dial(), w.dial()
		defer c.close()
		defer other.close()
		c.ask("put 0 0 9 1\na", "INSERTED 1")
		c.ask("put 0 99 9 1\nb", "INSERTED 2")
		c.ask("put 9 0 9 1\nc", "INSERTED 3")
		c.ask("reserve", "RESERVED 1 1\na")
		for _, command := range []string{"delete 1", "release 1 1 1", "bury 1 1", "touch 1", "reserve-job 1", "kick-job 1"} {
			other.ask(command, "NOT_FOUND")
		}
		other.ask("peek 1", "FOUND 1 1\na")
		other.ask("delete 2", "DELETED") // delayed
		other.ask("delete 3", "DELETED") // ready
		c.ask("bury 1 5", "BURIED")
		c.ask("touch 1", "NOT_FOUND")
		other.ask("delete 1", "DELETED") // buried
		c.ask("delete 1", "NOT_FOUND")
		c.ask("peek 1", "NOT_FOUND")
		c.wantStats("stats-tube default", "cmd-delete", 3, "total-jobs", 3, "current-using", 2, "current-watching", 2)
	})
}

func TestPeekAndKick(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c := w.dial()
		defer c.close()
		for _, state := range []string{"ready", "delayed", "buried"} {
			c.ask("peek-"+state, "NOT_FOUND")
		}
		c.ask("put 5 0 9 1\na", "INSERTED 1")
		c.ask("put 4 0 9 1\nb", "INSERTED 2")
		c.ask("put 0 20 9 1\nc", "INSERTED 3")
		c.ask("put 0 10 9 1\nd", "INSERTED 4")
		c.ask("peek-ready", "FOUND 2 1\nb")
		c.ask("peek-delayed", "FOUND 4 1\nd")
		c.ask("reserve", "RESERVED 2 1\nb")
		c.ask("reserve", "RESERVED 1 1\na")
		c.ask("bury 1 8", "BURIED")
		c.ask("bury 2 9", "BURIED")
		c.ask("peek-buried", "FOUND 1 1\na")
		c.wantStats("stats-job 1", "state", "buried", "pri", 8, "buries", 1)
		c.ask("kick 1", "KICKED 1") // only buried ones, in the order of their burial
		c.ask("peek-ready", "FOUND 1 1\na")
		c.ask("kick-job 1", "NOT_FOUND")
		c.ask("kick 5", "KICKED 1")
		c.ask("kick 1", "KICKED 1") // then delayed ones
		c.ask("peek-ready", "FOUND 4 1\nd")
		c.ask("kick-job 3", "KICKED")
		c.wantStats("stats-job 3", "state", "ready", "kicks", 1)
		c.ask("reserve-job 2", "RESERVED 2 1\nb")
		c.ask("bury 2 1", "BURIED")
		c.ask("kick-job 2", "KICKED")
		c.wantStats("stats-job 2", "state", "ready", "kicks", 2, "buries", 2, "reserves", 2)
		c.ask("use other", "USING other")
		c.ask("peek-ready", "NOT_FOUND")
		c.ask("kick 5", "KICKED 0")
	})
}

func TestReserveJob(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c, other := w.dial(), w.dial()
		defer c.close()
		defer other.close()
		c.ask("use elsewhere", "USING elsewhere")
		c.ask("put 0 0 1 1\na", "INSERTED 1")
		c.ask("put 0 99 9 1\nb", "INSERTED 2")
		c.ask("put 0 0 9 1\nc", "INSERTED 3")
		c.ask("reserve-job 3", "RESERVED 3 1\nc") // of a tube that it does not watch
		c.ask("bury 3 0", "BURIED")
		c.ask("reserve-job 3", "RESERVED 3 1\nc") // buried
		c.ask("reserve-job 2", "RESERVED 2 1\nb") // delayed
		c.ask("reserve-job 1", "RESERVED 1 1\na")
		c.ask("reserve-job 1", "NOT_FOUND")
		other.ask("reserve-job 1", "NOT_FOUND")
		c.ask("reserve", "DEADLINE_SOON")
		c.ask("reserve-job 4", "NOT_FOUND")
		c.ask("delete 1", "DELETED")
		c.ask("reserve-with-timeout 0", "TIMED_OUT")
		c.ask("delete 2", "DELETED")
	})
}

// failing is a store that can be made to fail.
type failing struct {
	kv.DB
	fails bool
}

func (f *failing) Signals() *kvext.Signals { return kvext.SignalsOf(f.DB) }

func (f *failing) Transact(ctx context.Context, do func(kv.Tx) error) error {
	if f.fails {
		return errors.New("disk full")
	}
	return f.DB.Transact(ctx, do)
}

// What the store does not take, its client can try again; the connection goes on.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &failing{DB: memory.New(memory.Options{})}
		defer db.Close()
		w := newWorld(t, db, Options{})
		defer w.end()
		c := w.dial()
		defer c.close()
		c.ask("put 0 0 9 1\na", "INSERTED 1")
		db.fails = true
		c.ask("put 0 0 9 1\nb", "OUT_OF_MEMORY")
		c.ask("delete 1", "INTERNAL_ERROR")
		c.ask("reserve-with-timeout 0", "INTERNAL_ERROR")
		db.fails = false
		c.ask("put 0 0 9 1\nb", "INSERTED 2")
		c.ask("delete 1", "DELETED")
	})
}

// away is a cluster that may not answer, which is an error after as long as etcd's patience.
type away struct {
	kv.DB
	is atomic.Bool
}

func (a *away) hang(ctx context.Context) error {
	if !a.is.Load() {
		return nil
	}
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return kv.ErrUnavailable
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *away) Transact(ctx context.Context, do func(kv.Tx) error) error {
	if err := a.hang(ctx); err != nil {
		return err
	}
	return a.DB.Transact(ctx, do)
}

func (a *away) ReadTransact(ctx context.Context, do func(kv.Reader) error) error {
	if err := a.hang(ctx); err != nil {
		return err
	}
	return a.DB.ReadTransact(ctx, do)
}

// A reserve waits through an outage of the store, for as long as its client wants. Other verbs tell that they have failed.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &away{DB: memory.New(memory.Options{})}
		defer db.Close()
		w := newWorld(t, db, Options{})
		defer w.end()
		for _, warm := range []bool{false, true} {
			c, other := w.dial(), w.dial()
			if warm {
				c.ask("reserve-with-timeout 0", "TIMED_OUT")
			}
			db.is.Store(true)
			for _, seconds := range []time.Duration{5, 100} {
				began := time.Now()
				c.ask(fmt.Sprint("reserve-with-timeout ", int(seconds)), "TIMED_OUT")
				if late := time.Since(began) - seconds*time.Second; warm && (late < 0 || late > lateJob) {
					t.Errorf("after %v it has timed out, by %v too late", seconds*time.Second, late)
				}
			}
			c.ask("reserve-with-timeout 0", "TIMED_OUT")
			other.ask("put 0 0 9 1\na", "OUT_OF_MEMORY")
			for _, command := range []string{"delete 1", "kick 1", "peek 1", "peek-ready", "stats-job 1", "stats", "list-tubes", "reserve-job 1", "kick-job 1"} {
				other.ask(command, "INTERNAL_ERROR")
			}
			c.send("reserve")
			time.Sleep(5 * time.Minute)
			db.is.Store(false)
			other.send("put 0 0 999 1\nb")
			id := strings.TrimPrefix(other.reply(), "INSERTED ")
			c.want("reserve", "RESERVED "+id+" 1\nb")
			db.is.Store(true)
			for _, command := range []string{"touch", "release", "bury", "delete"} {
				arguments := map[string]string{"release": " 0 0", "bury": " 0"}[command]
				c.ask(command+" "+id+arguments, "INTERNAL_ERROR")
			}
			db.is.Store(false)
			c.ask("delete "+id, "DELETED")
			c.close()
			other.close()
		}
	})
}

// A job is ready when its delay is over, and not before.
func TestDelay(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c := w.dial()
		defer c.close()
		c.ask("put 0 1 9 1\na", "INSERTED 1")
		c.ask("put 9 0 9 1\nb", "INSERTED 2")
		c.wantStats("stats-job 1", "state", "delayed", "delay", 1, "age", 0, "time-left", 1)
		c.ask("reserve", "RESERVED 2 1\nb")
		began := time.Now()
		c.ask("reserve", "RESERVED 1 1\na")
		testkit.Equal(t, "time", time.Since(began).Round(time.Millisecond), time.Second)
		c.ask("release 1 3 5", "RELEASED")
		c.wantStats("stats-job 1", "state", "delayed", "delay", 5, "pri", 3, "releases", 1, "reserves", 1, "time-left", 5)
		c.ask("release 2 3 0", "RELEASED")
		c.wantStats("stats-job 2", "state", "ready", "delay", 0, "pri", 3)
		c.ask("reserve", "RESERVED 2 1\nb")
		c.ask("reserve-with-timeout 4", "TIMED_OUT")
		time.Sleep(time.Second)
		c.ask("peek-ready", "FOUND 1 1\na")
	})
}

// A job is found by its id alone in tubes that the connection neither uses nor watches, also one that another program has put. A job that this protocol puts has no key for that.
func TestFoundByIDAlone(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c := w.dial()
		defer c.close()
		for i := range 2 {
			q, err := work.Open(t.Context(), w.set.DB(), fmt.Sprint("tube", i), conq.Bytes())
			testkit.NoError(t, err)
			id, err := q.Put(w.t.Context(), []byte("x"))
			testkit.NoError(t, err)
			testkit.NoError(t, q.Close())
			c.ask(fmt.Sprint("peek ", id), fmt.Sprintf("FOUND %d 1\nx", id))
			c.ask(fmt.Sprint("delete ", id), "DELETED")
			c.ask(fmt.Sprint("delete ", id), "NOT_FOUND")
		}
		c.ask("use tube0", "USING tube0")
		c.send("put 0 0 60 1\ny")
		testkit.Equal(t, "a job was put", strings.HasPrefix(c.reply(), "INSERTED "), true)
		space := tuple.AppendString(tuple.AppendBytes(nil, []byte("conq")), "job")
		testkit.EqualPairs(t, testkit.In(t, w.set.DB(), kv.PrefixRange(space)), nil)
	})
}
