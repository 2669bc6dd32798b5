package beanstalk

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// script makes up commands.
type script struct {
	random *rand.Rand
	prefix string
	jobs   int // that were put
}

// step is a command of a connection. With put it is a reserve that waits, until another connection puts a job.
type step struct {
	conn    int
	command string
	put     string
	by      int
	redial  bool // the connection ends instead, and another one begins
}

func (s step) String() string {
	switch {
	case s.redial:
		return fmt.Sprintf("%d: ends", s.conn)
	case s.put != "":
		return fmt.Sprintf("%d: %s, if it waits %d: %s", s.conn, s.command, s.by, s.put)
	}
	return fmt.Sprintf("%d: %.100q", s.conn, s.command)
}

// play plays a step, and returns what the server has said.
func (s step) play(p *player) string {
	switch {
	case s.redial:
		check(p.t, p.conns[s.conn].Close())
		p.await(func() bool { return p.number("current-connections") == len(p.conns)-1 })
		p.dial(s.conn)
		return ""
	case s.put != "":
		return s.playWaiting(p)
	}
	p.send(s.conn, s.command)
	return p.reply(s.conn, s.command)
}

func (s step) playWaiting(p *player) string {
	for _, also := range []struct {
		conn    int
		command string
	}{{s.conn, "watch " + p.prefix + "w"}, {s.by, "use " + p.prefix + "w"}} {
		p.send(also.conn, also.command)
		p.reply(also.conn, also.command)
	}
	if reply := s.try(p); reply != "TIMED_OUT" {
		return reply
	}
	p.send(s.conn, s.command)
	p.await(func() bool { return p.number("current-waiting") == 1 })
	p.send(s.by, s.put)
	inserted := p.reply(s.by, s.put)
	return inserted + ", " + p.reply(s.conn, s.command)
}

// try takes a job if there is one.
func (s step) try(p *player) string {
	p.send(s.conn, s.command+"-with-timeout 0")
	return p.reply(s.conn, s.command)
}

func (s *script) tube() string { return s.prefix + string("abc"[s.random.IntN(3)]) }

// job is the number of one, mostly of one of the last.
func (s *script) job() string {
	if s.jobs == 0 || s.random.IntN(30) == 0 {
		return "99999999"
	}
	n := s.random.IntN(s.jobs)
	if s.random.IntN(3) > 0 {
		n = max(n, s.jobs-8)
	}
	return fmt.Sprintf("#%d#", n)
}

func (s *script) number(of ...int) int { return of[s.random.IntN(len(of))] }

func (s *script) delay() int { return s.number(0, 0, 0, 1000, 2000) }

func (s *script) priority() int { return s.number(0, 1, 1, 5, 1023, 1024, 4294967295) }

func (s *script) put() string {
	size := s.number(0, 1, 5, 300, 65535)
	return fmt.Sprintf("put %d %d %d %d\n%s", s.priority(), s.delay(), s.number(0, 60, 100, 4000)+60, size, strings.Repeat("x", size))
}

// odd are commands that something is wrong with.
var odd = []string{
	"", "x", "put", "put 1 2 3", "put x 0 1 1", "put 4294967296 0 1 1", "put 0 0 1 65536\n" + strings.Repeat("x", 65536), "reserved", "delete", "delete x",
	"delete 18446744073709551616", "delete 18446744073709551615", "release 1 1", "bury 1", "touch", "use", "use -", "use a b", "use " + strings.Repeat("a", 201),
	"watch ", "ignore *", "peek", "peek x", "peek-ready ", "peek-all", "kick", "kick-job x", "stats x", "stats-job", "stats-tube", "stats-tube -", "list", "list-tubes x",
	"pause-tube", "pause-tube x", "pause-tube x x", "pause-tube nosuch 1", "reserve-job", "reserve-job x", "reserve-with-timeout", "QUIT", strings.Repeat("x", 222),
	"use a\x00",
}

func (s *script) next() step {
	c := s.random.IntN(clients)
	at := func(format string, args ...any) step { return step{conn: c, command: fmt.Sprintf(format, args...)} }
	switch n := s.random.IntN(100); {
	case n < 18:
		return at("%s", s.put())
	case n < 34:
		return at("reserve-with-timeout 0")
	case n < 38:
		return step{conn: c, command: "reserve", by: (c + 1) % clients, put: "put 7 0 100 1\nw"}
	case n < 41:
		return at("reserve-job %s", s.job())
	case n < 48:
		return at("delete %s", s.job())
	case n < 54:
		return at("release %s %d %d", s.job(), s.priority(), s.delay())
	case n < 59:
		return at("bury %s %d", s.job(), s.priority())
	case n < 61:
		return at("touch %s", s.job())
	case n < 64:
		return at("kick %d", s.number(0, 1, 2, 100))
	case n < 66:
		return at("kick-job %s", s.job())
	case n < 71:
		return at("stats-job %s", s.job())
	case n < 75:
		return at("stats-tube %s", s.tube())
	case n < 77:
		return at("peek %s", s.job())
	case n < 80:
		return at("peek-%s", []string{"ready", "delayed", "buried"}[s.random.IntN(3)])
	case n < 84:
		return at("use %s", s.tube())
	case n < 88:
		return at("watch %s", s.tube())
	case n < 90:
		return at("ignore %s", s.tube())
	case n < 92:
		return at("%s", []string{"list-tubes", "list-tube-used", "list-tubes-watched", "stats"}[s.random.IntN(4)])
	case n < 93:
		return at("pause-tube %s %d", s.tube(), 1000)
	case n < 94:
		return step{conn: c, redial: true}
	default:
		return at("%s", odd[s.random.IntN(len(odd))])
	}
}
