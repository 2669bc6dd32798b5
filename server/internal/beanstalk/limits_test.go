package beanstalk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// No command fails as it is over the limits of an engine, however many jobs and tubes there are.
func TestNoneTooLarge(t *testing.T) {
	const n = 150
	for _, limits := range []kv.Limits{
		{Key: 4096, Value: 512 << 10, Transaction: 1280 << 10, Operations: 128}, {Key: 10_000, Value: 30_000, Transaction: 100_000, Operations: 64},
	} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprint(limits.Operations, " operations, shared ", shared), func(t *testing.T) {
				var db kv.DB = memory.New(memory.Options{Limits: limits})
				defer db.Close()
				if shared {
					db = faulty.New(db, 1, faulty.Options{Limits: kv.Limits{Shared: true, UnknownCommits: true}})
				}
				w := newWorld(t, db, Options{})
				defer w.end()
				called := w.manyJobs(n)
				for _, v := range verbs {
					if !called[v.name] {
						t.Errorf("%s has no case: what does it do with many jobs on an engine that limits operations?", v.name)
					}
				}
			})
		}
	}
}

// manyJobs has clients do everything with n jobs, and returns which commands they gave.
func (w *world) manyJobs(n int) (called map[string]bool) {
	called = make(map[string]bool)
	c := w.dial()
	ask := func(command, want string) string {
		w.t.Helper()
		word, _, _ := strings.Cut(strings.Split(command, "\n")[0], " ")
		called[word] = true
		c.send(command)
		got := c.reply()
		if !strings.HasPrefix(got, want) {
			w.t.Fatalf("%s: %q, want %s", command, got, want)
		}
		return got
	}
	id := func(reply string) string { return strings.Fields(reply)[1] }
	each := func(what func(i int)) {
		for i := range n {
			what(i)
		}
	}
	var ids []string
	each(func(int) { ask("put 5 0 600 1\nx", "INSERTED") })
	each(func(int) { ask("put 5 900 600 1\nx", "INSERTED") })
	each(func(int) { ids = append(ids, id(ask("reserve-with-timeout 0", "RESERVED"))) })
	each(func(i int) { ask("touch "+ids[i], "TOUCHED") })
	ask("stats", "OK")
	ask("stats-tube default", "OK")
	ask("stats-job "+ids[0], "OK")
	ask("peek "+ids[0], "FOUND")
	each(func(i int) { ask("release "+ids[i]+" 3 0", "RELEASED") })
	ask("peek-ready", "FOUND")
	ask("peek-delayed", "FOUND")
	ask(fmt.Sprint("kick ", 10*n), fmt.Sprint("KICKED ", n)) // those that are delayed
	each(func(i int) { ask("reserve-job "+ids[i], "RESERVED "+ids[i]) })
	each(func(i int) { ask("bury "+ids[i]+" 1", "BURIED") })
	ask("peek-buried", "FOUND")
	ask("kick-job "+ids[0], "KICKED")
	ask(fmt.Sprint("kick ", 10*n), fmt.Sprint("KICKED ", n-1))

	ask("ignore nothing", "WATCHING")
	each(func(i int) {
		ask(fmt.Sprint("use t", i), "USING")
		ask("put 0 0 600 1\ny", "INSERTED")
		ask(fmt.Sprint("watch t", i), "WATCHING")
	})
	ask("list-tubes", "OK")
	ask("list-tube-used", "USING")
	ask("list-tubes-watched", "OK")
	ask("stats", "OK")
	for range 3 * n { // those of default, too, with many held
		ask("reserve", "RESERVED")
	}
	ask("reserve-with-timeout 0", "TIMED_OUT")
	ask("pause-tube default 0", "PAUSED")
	c.close() // all that it holds is given back, some of it at the same time

	c = w.dial()
	ask("stats", "OK")
	each(func(i int) { ask(fmt.Sprint("watch t", i), "WATCHING") })
	for range 3 * n {
		ask("delete "+id(ask("reserve", "RESERVED")), "DELETED")
	}
	ask("reserve-with-timeout 0", "TIMED_OUT")
	called["quit"] = true
	c.send("quit")
	c.ended()
	return called
}
