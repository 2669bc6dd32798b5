package beanstalk

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv/memory"
)

// A lease ends after the ttr, from the reservation or the last touch on, and its job is ready again.
func TestTTR(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c, other := w.dial(), w.dial()
		defer c.close()
		defer other.close()
		for i, ttr := range []int{0, 1, 4294, 4295, 21600} {
			c.ask(fmt.Sprintf("put %d 0 %d 1\na", i, ttr), fmt.Sprintf("INSERTED %d", i+1))
			c.wantStats(fmt.Sprintf("stats-job %d", i+1), "ttr", max(ttr, 1))
			if i > 0 {
				c.ask(fmt.Sprintf("delete %d", i+1), "DELETED")
			}
		}
		c.ask("put 0 0 3 1\nb", "INSERTED 6")
		c.ask("delete 1", "DELETED")
		c.ask("reserve", "RESERVED 6 1\nb")
		time.Sleep(2 * time.Second)
		c.wantStats("stats-job 6", "time-left", 1, "state", "reserved")
		c.ask("touch 6", "TOUCHED")
		c.wantStats("stats-job 6", "time-left", 3)
		began := time.Now()
		other.ask("reserve", "RESERVED 6 1\nb")
		testkit.Equal(t, "time", time.Since(began).Round(time.Millisecond), 3*time.Second)
		for _, command := range []string{"touch 6", "release 6 1 1", "bury 6 1", "delete 6"} {
			c.ask(command, "NOT_FOUND")
		}
		other.wantStats("stats-job 6", "timeouts", 1, "reserves", 2, "releases", 0)
		time.Sleep(4 * time.Second)
		other.wantStats("stats-job 6", "timeouts", 2, "state", "ready")
		other.ask("delete 6", "DELETED") // nobody has it
	})
}

// The last second of a lease is kept for its holder to end it.
func TestDeadlineSoon(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c := w.dial()
		defer c.close()
		c.ask("put 0 0 1 1\na", "INSERTED 1")
		c.ask("reserve", "RESERVED 1 1\na")
		c.ask("reserve", "DEADLINE_SOON")
		c.ask("reserve-with-timeout 0", "DEADLINE_SOON")
		c.ask("put 0 0 5 1\nb", "INSERTED 2")
		c.ask("reserve", "RESERVED 2 1\nb") // there is one at once
		c.ask("reserve", "DEADLINE_SOON")
		c.ask("delete 1", "DELETED")
		c.ask("reserve-with-timeout 1", "TIMED_OUT")
		began := time.Now()
		c.ask("reserve-with-timeout 100", "DEADLINE_SOON")
		testkit.Equal(t, "time", time.Since(began).Round(time.Millisecond), 3*time.Second)
		c.ask("touch 2", "TOUCHED")
		began = time.Now()
		c.ask("reserve", "DEADLINE_SOON")
		testkit.Equal(t, "time", time.Since(began).Round(time.Millisecond), 4*time.Second)
		time.Sleep(time.Second)
		c.ask("reserve", "RESERVED 2 1\nb") // its lease has run out, so it is as any other
		c.wantStats("stats", "job-timeouts", 1)
	})
}

func TestTimedOut(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c, other := w.dial(), w.dial()
		defer c.close()
		defer other.close()
		began := time.Now()
		c.ask("reserve-with-timeout 2", "TIMED_OUT")
		testkit.Equal(t, "time", time.Since(began).Round(time.Millisecond), 2*time.Second)
		c.ask("watch a", "WATCHING 2")
		c.ask("reserve-with-timeout 1", "TIMED_OUT")
		c.ask("ignore a", "WATCHING 1")
		c.send("reserve-with-timeout 5")
		synctest.Wait()
		other.send("reserve-with-timeout 6")
		synctest.Wait()
		w.dial().ask("put 0 0 9 1\nx", "INSERTED 1")
		c.want("", "RESERVED 1 1\nx") // it came first
		other.want("", "TIMED_OUT")
	})
}

// A paused tube gives out nothing for a time, then wakes those that wait. Other tubes that they watch go on.
func TestPause(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c, other := w.dial(), w.dial()
		defer c.close()
		defer other.close()
		c.ask("put 0 0 9 1\na", "INSERTED 1")
		began := time.Now()
		c.ask("pause-tube default 3", "PAUSED")
		c.wantStats("stats-tube default", "pause", 3, "pause-time-left", 3, "cmd-pause-tube", 1)
		c.ask("reserve-with-timeout 0", "TIMED_OUT")
		c.ask("reserve-with-timeout 1", "TIMED_OUT")
		other.ask("watch b", "WATCHING 2")
		other.send("reserve")
		synctest.Wait()
		c.ask("use b", "USING b")
		c.ask("put 0 0 9 1\nb", "INSERTED 2")
		other.want("reserve", "RESERVED 2 1\nb")
		other.send("reserve")
		synctest.Wait()
		c.ask("pause-tube default 5", "PAUSED")
		other.want("reserve", "RESERVED 1 1\na")
		testkit.Equal(t, "time", time.Since(began).Round(time.Millisecond), 6*time.Second)
		other.wantStats("stats-tube default", "pause", 0, "pause-time-left", 0, "cmd-pause-tube", 2)
		other.send("reserve")
		synctest.Wait()
		c.ask("pause-tube b 100", "PAUSED") // while it waits
		c.ask("put 0 0 9 1\nc", "INSERTED 3")
		other.want("reserve", "DEADLINE_SOON")
		c.ask("pause-tube b 0", "PAUSED")
		time.Sleep(time.Millisecond)
		other.ask("reserve", "RESERVED 3 1\nc")
	})
}

// Jobs of a connection that ends are ready again at once, however it ends.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(c *client){
		"close":            func(c *client) { c.close() },
		"quit":             func(c *client) { c.send("quit"); c.ended() },
		"quit and more":    func(c *client) { c.send("quit now"); c.ended() },
		"in a line":        func(c *client) { testkit.NoError(c.t, c.write("reser")); c.close() },
		"in a body":        func(c *client) { testkit.NoError(c.t, c.write("put 0 0 1 10\nabc")); c.close() },
		"while it waits":   func(c *client) { c.send("reserve"); synctest.Wait(); time.Sleep(time.Second); c.close() },
		"as soon as waits": func(c *client) { c.send("reserve"); c.close() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Options{}, func(w *world) {
				c, other := w.dial(), w.dial()
				defer other.close()
				for id := 1; id <= 3; id++ {
					c.ask("put 0 0 100 1\na", fmt.Sprintf("INSERTED %d", id))
					c.ask("reserve", fmt.Sprintf("RESERVED %d 1\na", id))
				}
				began := time.Now()
				end(c)
				got := make(map[string]bool)
				for range 3 {
					other.send("reserve")
					got[other.reply()] = true
				}
				testkit.Equal(t, "jobs", len(got), 3)
				if time.Since(began) > 10*time.Second {
					t.Errorf("it took %v", time.Since(began))
				}
				other.ask("put 0 0 100 1\nb", "INSERTED 4")
				other.ask("reserve", "RESERVED 4 1\nb") // nobody who has gone has it
				synctest.Wait()                         // the connection has ended for the server, too
				other.wantStats("stats-job 1", "reserves", 2, "timeouts", 0, "releases", 0)
				other.wantStats("stats", "current-connections", 1, "current-waiting", 0, "current-jobs-reserved", 4)
			})
		})
	}
}

func TestDrain(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c := w.dial()
		defer c.close()
		c.ask("put 0 0 9 1\na", "INSERTED 1")
		w.Drain()
		c.ask("put 0 0 9 1\nb", "DRAINING")
		c.ask("put 0 0 9 1\nbcd", "EXPECTED_CRLF")
		c.want("the end of the line", "UNKNOWN_COMMAND")
		c.wantStats("stats", "draining", true)
		c.ask("reserve", "RESERVED 1 1\na")
		c.ask("delete 1", "DELETED")
	})
}

// A tube is there while it is used or watched, or has jobs.
func TestTubes(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c, other := w.dial(), w.dial()
		defer c.close()
		tubes := func(want ...string) {
			t.Helper()
			synctest.Wait() // a connection that has ended is not counted any more
			c.ask("list-tubes", fmt.Sprintf("OK %d\n---\n- %s\n", len("---\n- \n")+len(strings.Join(want, "\n- ")), strings.Join(want, "\n- ")))
			c.wantStats("stats", "current-tubes", len(want))
		}
		tubes("default")
		other.ask("use u", "USING u")
		other.ask("watch w", "WATCHING 2")
		tubes("default", "u", "w")
		other.ask("put 0 99 9 1\na", "INSERTED 1")
		other.ask("reserve-with-timeout 0", "TIMED_OUT")
		other.ask("use v", "USING v")
		other.close()
		tubes("default", "u")
		c.wantStats("stats-tube u", "current-using", 0, "total-jobs", 1, "current-jobs-delayed", 1)
		c.ask("pause-tube u 50", "PAUSED")
		c.wantStats("stats-tube u", "pause", 50)
		c.ask("delete 1", "DELETED")
		tubes("default")
		c.ask("stats-tube u", "NOT_FOUND")
		testkit.Equal(t, "tubes in memory", len(w.tubes.all), 1)
	})
}

// Stats have all fields of beanstalkd 1.12, in its order.
func TestStats(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c, other := w.dial(), w.dial()
		defer c.close()
		defer other.close()
		for i, priority := range []int{0, 1023, 1024, 5, 5, 5} {
			c.ask(fmt.Sprintf("put %d 0 9 1\na", priority), fmt.Sprintf("INSERTED %d", i+1))
		}
		other.ask("reserve", "RESERVED 1 1\na")
		other.ask("reserve", "RESERVED 4 1\na")
		other.ask("bury 4 0", "BURIED")
		other.ask("reserve-job 6", "RESERVED 6 1\na")
		other.ask("release 6 0 99", "RELEASED")
		counts := []any{
			"current-jobs-urgent", 2, "current-jobs-ready", 3, "current-jobs-reserved", 1, "current-jobs-delayed", 1, "current-jobs-buried", 1,
		}
		c.wantStats("stats-tube default", counts...)
		c.wantStats("stats", append(counts, "cmd-put", 6, "cmd-reserve", 2, "cmd-bury", 1, "cmd-release", 1, "cmd-stats-tube", 5, "total-jobs", 6,
			"current-connections", 2, "current-producers", 1, "current-workers", 1, "total-connections", 2, "max-job-size", 65535, "version", `"1.12"`)...)
		for command, want := range fieldsOf {
			c.send(command)
			var names []string
			for line := range strings.Lines(c.reply()) {
				if name, _, is := strings.Cut(line, ": "); is {
					names = append(names, name)
				}
			}
			testkit.Equal(t, command, strings.Join(names, " "), strings.Join(strings.Fields(want), " "))
		}
	})
}

var fieldsOf = map[string]string{
	"stats-job 1": "id tube state pri age delay ttr time-left file reserves timeouts releases buries kicks",
	"stats-tube default": `name current-jobs-urgent current-jobs-ready current-jobs-reserved current-jobs-delayed current-jobs-buried
		total-jobs current-using current-watching current-waiting cmd-delete cmd-pause-tube pause pause-time-left`,
	"stats": `current-jobs-urgent current-jobs-ready current-jobs-reserved current-jobs-delayed current-jobs-buried cmd-put cmd-peek
		cmd-peek-ready cmd-peek-delayed cmd-peek-buried cmd-reserve cmd-reserve-with-timeout cmd-delete cmd-release cmd-use cmd-watch
		cmd-ignore cmd-bury cmd-kick cmd-touch cmd-stats cmd-stats-job cmd-stats-tube cmd-list-tubes cmd-list-tube-used
		cmd-list-tubes-watched cmd-pause-tube job-timeouts total-jobs max-job-size current-tubes current-connections current-producers
		current-workers current-waiting total-connections pid version rusage-utime rusage-stime uptime binlog-oldest-index
		binlog-current-index binlog-records-migrated binlog-records-written binlog-max-size draining id hostname os platform`,
}

// A server that stops gives back what connections hold, also those that wait, and ends them.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New(memory.Options{})
		defer db.Close()
		w := newWorld(t, db, Options{})
		c, waits := w.dial(), w.dial()
		c.ask("put 0 0 99 1\na", "INSERTED 1")
		c.ask("reserve", "RESERVED 1 1\na")
		waits.send("reserve")
		time.Sleep(time.Second)
		w.end()
		c.ended()
		waits.ended()

		w = newWorld(t, db, Options{MaxConnections: 1})
		defer w.end()
		c = w.dial()
		c.ask("reserve", "RESERVED 1 1\na")
		w.dial().ended()
		c.ask("delete 1", "DELETED")
		c.close()
	})
}

// A client that has ended its side only gets what is there, or TIMED_OUT at once.
func TestHalfClosed(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	w := newWorld(t, db, Options{})
	defer w.end()
	serve := func() (client *client, half func()) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.NoError(t, err)
		defer l.Close()
		here, err := net.Dial("tcp", l.Addr().String())
		testkit.NoError(t, err)
		there, err := l.Accept()
		testkit.NoError(t, err)
		w.listen.conns <- there
		return newClient(t, here), func() { testkit.NoError(t, here.(*net.TCPConn).CloseWrite()) }
	}
	for range 3 {
		c, half := serve()
		c.send("put 0 0 99 1\na\nreserve\nreserve")
		half()
		id := strings.Fields(c.reply())[1]
		c.want("reserve", "RESERVED "+id+" 1\na")
		c.want("reserve", "TIMED_OUT")
		c.ended()
		c.close()
		c, _ = serve()
		c.ask("reserve", "RESERVED "+id+" 1\na")
		c.ask("delete "+id, "DELETED")
		c.close()
	}
}
