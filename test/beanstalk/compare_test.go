package beanstalk

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	scripts   = flag.Int("scripts", 60, "how many random scripts to play to conq and to beanstalkd")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first script")
)

// The same script has the same replies of conq and of beanstalkd, but for ids and times.
func TestCompare(t *testing.T) {
	real, conq := startBeanstalkd(t), startConq(t, t.TempDir())
	defer conq.kill()
	for seed := *firstSeed; seed < *firstSeed+uint64(*scripts); seed++ {
		prefix := fmt.Sprintf("s%d-", seed)
		a, b := newPlayer(t, conq.addr, prefix), newPlayer(t, real.addr, prefix)
		s := script{random: rand.New(rand.NewPCG(seed, 0)), prefix: prefix}
		var history []string
		for range 80 {
			step := s.next()
			got, want := step.play(a), step.play(b)
			history = append(history, fmt.Sprintf("%v -> %q", step, want))
			if got != want {
				t.Fatalf("-seed %d -scripts 1: conq says %q\n%s", seed, got, strings.Join(history, "\n"))
			}
			s.jobs = len(a.ids)
		}
		a.close()
		b.close()
	}
}

const clients = 3

// player plays a script to a server.
type player struct {
	t      *testing.T
	addr   string
	prefix string
	conns  [clients + 1]*conn // the last one only looks
	ids    []string           // of jobs, in the order in which they were put
}

type conn struct {
	net.Conn
	r *bufio.Reader
}

func newPlayer(t *testing.T, addr, prefix string) *player {
	p := &player{t: t, addr: addr, prefix: prefix}
	for i := range p.conns {
		p.dial(i)
	}
	p.await(func() bool { return p.number("current-connections") == len(p.conns) }) // the last script's have ended
	return p
}

func (p *player) dial(i int) {
	c, err := net.Dial("tcp", p.addr)
	check(p.t, err)
	p.conns[i] = &conn{c, bufio.NewReader(c)}
	for _, command := range []string{"use %sa", "watch %sa", "ignore default"} {
		command = strings.ReplaceAll(command, "%s", p.prefix)
		p.send(i, command)
		p.reply(i, command)
	}
}

func (p *player) close() {
	for _, c := range p.conns[:clients] {
		check(p.t, c.Close())
	}
	p.await(func() bool { return p.number("current-connections") == 1 })
	check(p.t, p.conns[clients].Close())
}

func (p *player) send(i int, command string) {
	for n, id := range p.ids {
		command = strings.ReplaceAll(command, fmt.Sprintf("#%d#", n), id)
	}
	_, err := io.WriteString(p.conns[i], strings.ReplaceAll(command, "\n", "\r\n")+"\r\n")
	check(p.t, err)
}

// reply returns the next reply, with the numbers of jobs in place of their ids, and without times.
func (p *player) reply(i int, command string) string {
	line, err := p.conns[i].r.ReadString('\n')
	if err != nil {
		p.t.Fatalf("%q: %v", command, err)
	}
	words := strings.Fields(line)
	switch words[0] {
	case "INSERTED":
		p.ids = append(p.ids, words[1])
		return fmt.Sprintf("INSERTED #%d", len(p.ids)-1)
	case "RESERVED", "FOUND":
		return fmt.Sprintf("%s %s %s", words[0], p.name(words[1]), p.data(i, words[2]))
	case "OK":
		return p.normal(command, p.data(i, words[1]))
	}
	return strings.TrimSpace(line)
}

func (p *player) name(id string) string { return fmt.Sprintf("#%d", slices.Index(p.ids, id)) }

func (p *player) data(i int, size string) string {
	n, err := strconv.Atoi(size)
	check(p.t, err)
	data := make([]byte, n+2)
	_, err = io.ReadFull(p.conns[i].r, data)
	check(p.t, err)
	return string(data[:n])
}

// same are the fields of stats, which is of the whole server and all scripts, that are compared.
const same = "current-jobs-urgent current-jobs-ready current-jobs-reserved current-jobs-delayed current-jobs-buried " +
	"current-connections current-waiting cmd-put cmd-peek cmd-reserve cmd-delete cmd-kick cmd-bury cmd-use job-timeouts total-jobs max-job-size draining version"

func (p *player) normal(command, data string) string {
	lines := strings.Split(strings.TrimSuffix(strings.TrimPrefix(data, "---\n"), "\n"), "\n")
	if strings.HasPrefix(command, "list-") {
		lines = slices.DeleteFunc(lines, func(line string) bool { return command == "list-tubes" && !strings.Contains(line, p.prefix) })
		slices.Sort(lines) // their order is not told
		return strings.Join(lines, " ")
	}
	var kept []string
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case name == "age", name == "time-left", name == "pause-time-left", name == "file":
		case name == "id" && command != "stats":
			kept = append(kept, "id: "+p.name(value))
		case command != "stats" || slices.Contains(strings.Fields(same), name):
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, ", ")
}

// number returns one of stats.
func (p *player) number(field string) int {
	p.send(clients, "stats")
	for line := range strings.Lines(p.reply(clients, "statistics")) {
		for _, part := range strings.Split(line, ", ") {
			if value, is := strings.CutPrefix(part, field+": "); is {
				n, err := strconv.Atoi(value)
				check(p.t, err)
				return n
			}
		}
	}
	p.t.Fatalf("stats has no %s", field)
	return 0
}

func (p *player) await(is func() bool) {
	for !is() && p.t.Context().Err() == nil {
		continue
	}
}
