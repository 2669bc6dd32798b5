package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// book is what the clients of a queue know of its items or jobs, whose texts are all different.
type book struct {
	mu      sync.Mutex
	tried   map[string]bool // to be added
	added   map[string]bool // as was acknowledged
	taken   map[string]bool // by a client that has it, or may have done so
	removed map[string]bool // for good, as was acknowledged
}

func newBook() *book {
	return &book{tried: make(map[string]bool), added: make(map[string]bool), taken: make(map[string]bool), removed: make(map[string]bool)}
}

func (b *book) note(in map[string]bool, text string) (was bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, in[text] = in[text], true
	return was
}

// add notes an item, and that it is acknowledged if add returns true.
func (b *book) add(text string, add func() bool) {
	b.note(b.tried, text)
	if add() {
		b.note(b.added, text)
	}
}

// judge compares the book with what is left in the queue. lost is how many items may be gone: of answers that were on their way.
func (b *book) judge(t *testing.T, name string, left []string, lost int) {
	t.Helper()
	seen := make(map[string]bool)
	for _, text := range left {
		if seen[text] || b.removed[text] || !b.tried[text] {
			t.Errorf("%s: %q is there; twice: %v, removed before: %v, added: %v", name, text, seen[text], b.removed[text], b.tried[text])
		}
		seen[text] = true
	}
	var gone []string
	for text := range b.added {
		if !seen[text] && !b.taken[text] {
			gone = append(gone, text)
		}
	}
	if len(gone) > lost || len(b.added) == 0 {
		t.Errorf("%s: of %d, %d are lost, which can be %d: %.300q", name, len(b.added), len(gone), lost, gone)
	}
	t.Logf("%s: %d added, %d taken, %d left, %d on their way to a client", name, len(b.added), len(b.taken), len(left), len(gone))
}

// clients are of all kinds, but those of served.produce and served.consume.
type clients struct {
	s                                         *served
	flow, chores, work, tube, curled, keyless *book
}

const flowConsumers = 2

// start starts them. They go on until ctx ends.
func (c *clients) start(ctx context.Context, group *sync.WaitGroup) {
	c.flow, c.chores, c.work, c.tube, c.curled, c.keyless = newBook(), newBook(), newBook(), newBook(), newBook(), newBook()
	dialled, err := client.Dial(ctx, "http://"+c.s.address)
	testkit.NoError(c.s.t, err)
	c.startItems(ctx, dialled, group)
	c.startWork(ctx, dialled, group)
	group.Go(func() { c.s.putInTube(ctx, c.tube) })
	for range 2 {
		group.Go(func() { c.s.emptyTube(ctx, c.tube) })
	}
	group.Go(func() {
		numbers(ctx, "keyless", func(text string) { c.keyless.add(text, func() bool { return c.s.addOnce(text) }) })
	})
	if path, err := exec.LookPath("curl"); err == nil {
		group.Go(func() {
			numbers(ctx, "curled", func(text string) { c.curled.add(text, func() bool { return c.s.curl(path, text) }) })
		})
	} else {
		c.curled = nil
	}
}

// numbers calls add with one text after the other.
func numbers(ctx context.Context, name string, add func(text string)) {
	for n := 0; ctx.Err() == nil; n++ {
		add(fmt.Sprintf("%s %d", name, n))
	}
}

func succeeds(t *testing.T, err error) bool {
	testkit.Check(t, err)
	return err == nil
}

// startItems starts those of the Go client that have a queue and a priority queue.
func (c *clients) startItems(ctx context.Context, of *client.Client, group *sync.WaitGroup) {
	t := c.s.t
	q, err := client.OpenQueue(ctx, of, "flow", queue.String())
	testkit.NoError(t, err)
	p, err := client.OpenPriorityQueue(ctx, of, "chores", queue.String())
	testkit.NoError(t, err)
	lasting := context.WithoutCancel(ctx)
	for i := range 2 {
		group.Go(func() {
			numbers(ctx, fmt.Sprint("flow", i), func(text string) {
				c.flow.add(text, func() bool { return succeeds(t, q.Enqueue(lasting, text)) })
			})
		})
	}
	group.Go(func() {
		numbers(ctx, "chore", func(text string) {
			c.chores.add(text, func() bool { return succeeds(t, p.Push(lasting, text, int64(len(text)))) })
		})
	})
	for range flowConsumers {
		group.Go(func() {
			for ctx.Err() == nil {
				text, err := q.DequeueWait(ctx)
				if err == nil && c.flow.note(c.flow.taken, text) {
					t.Errorf("%q was dequeued twice", text)
				}
				if err == nil {
					c.flow.note(c.flow.removed, text)
				} else if ctx.Err() == nil {
					t.Errorf("DequeueWait: %v", err)
				}
			}
		})
	}
}

// startWork starts those of the Go client that have a work queue.
func (c *clients) startWork(ctx context.Context, of *client.Client, group *sync.WaitGroup) {
	t := c.s.t
	q, err := client.OpenWork(ctx, of, "work", queue.String(), client.WorkOptions{Lease: time.Second})
	testkit.NoError(t, err)
	group.Go(func() {
		numbers(ctx, "work", func(text string) {
			c.work.add(text, func() bool {
				_, err := q.Put(context.WithoutCancel(ctx), text, work.Job{MaxAttempts: -1})
				return succeeds(t, err)
			})
		})
	})
	group.Go(func() {
		testkit.Check(t, work.Run(ctx, q, func(_ context.Context, l *work.Lease[string]) error {
			c.work.note(c.work.taken, l.Value)
			return nil
		}, work.RunOptions{Workers: 3, OnError: func(work.ID, error) {}}))
	})
}

// addOnce adds an item by a request without a key, which is not tried again.
func (s *served) addOnce(text string) bool {
	r, err := http.NewRequest(http.MethodPost, "http://"+s.address+"/v1/queues/keyless/items", strings.NewReader(`{"items":[{"text":"`+text+`"}]}`))
	testkit.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	_, status, err := s.try(r)
	return err == nil && status == http.StatusOK
}

// curl adds an item by curl, as often as it takes.
func (s *served) curl(path, text string) bool {
	for {
		code, _ := exec.Command(path, "-s", "-o", "/dev/null", "-w", "%{http_code}", "--json", `{"items":[{"text":"`+text+`"}]}`, "-H", "Idempotency-Key: "+text,
			"http://"+s.address+"/v1/queues/curled/items").Output()
		if string(code) == "200" {
			return true
		}
		if !bytes.HasPrefix(code, []byte("5")) && string(code) != "000" {
			s.t.Errorf("curl: %s", code)
			return false
		}
	}
}

// tubeConn is a connection by beanstalkd's protocol.
type tubeConn struct {
	net.Conn
	r *bufio.Reader
}

// dialTube connects as soon as there is a server, or returns nil when ctx has ended.
func (s *served) dialTube(ctx context.Context) *tubeConn {
	for ctx.Err() == nil {
		if c, err := net.Dial("tcp", s.beanstalk); err == nil {
			return &tubeConn{c, bufio.NewReader(c)}
		}
	}
	return nil
}

// ask sends a command, and returns the words of the reply.
func (c *tubeConn) ask(command string) (words []string, err error) {
	_, err = io.WriteString(c, command+"\r\n")
	if err != nil {
		return nil, err
	}
	line, err := c.r.ReadString('\n')
	return append(strings.Fields(line), ""), err
}

func (s *served) putInTube(ctx context.Context, b *book) {
	c := s.dialTube(ctx)
	numbers(ctx, "tube", func(text string) {
		b.add(text, func() bool {
			words, err := c.ask(fmt.Sprintf("put 0 0 3600 %d\r\n%s", len(text), text))
			if err == nil && words[0] == "INSERTED" {
				return true
			}
			c.Close()
			if c = s.dialTube(context.WithoutCancel(ctx)); err == nil {
				s.t.Errorf("put: %q", words)
			}
			return false
		})
	})
	c.Close()
}

// emptyTube does jobs of the default tube, and ends its connection now and then while it holds one.
func (s *served) emptyTube(ctx context.Context, b *book) {
	for n := 1; ctx.Err() == nil; {
		c := s.dialTube(ctx)
		for ; c != nil && ctx.Err() == nil && n%40 != 0 && s.doTubeJob(c, b); n++ {
		}
		if c != nil && n%40 == 0 {
			n++
			_, _ = c.ask("reserve-with-timeout 1") // and dies
		}
		if c != nil {
			c.Close()
		}
	}
}

// doTubeJob reserves a job and deletes it. It returns false if the connection has failed.
func (s *served) doTubeJob(c *tubeConn, b *book) bool {
	words, err := c.ask("reserve-with-timeout 1")
	if err != nil || words[0] != "RESERVED" {
		return err == nil && words[0] == "TIMED_OUT"
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		return false
	}
	text := strings.TrimSuffix(line, "\r\n")
	b.mu.Lock()
	again := b.removed[text]
	b.mu.Unlock()
	if again {
		s.t.Errorf("%q was deleted, and came again", text)
	}
	b.note(b.taken, text)
	words, err = c.ask("delete " + words[1])
	if err == nil && words[0] == "DELETED" {
		b.note(b.removed, text)
	}
	return err == nil
}

// judge compares what the clients know with what is left in the store, which no server has open.
func (c *clients) judge(kills int) {
	t, s := c.s.t, c.s
	left := func(queue string) []string { return lines(must(t, 0, command(s.store, "dequeue", queue, "--all"))) }
	flow, _, _ := run(t, command(s.store, "dequeue", "flow", "--all"))
	c.flow.judge(t, "flow", lines(flow), flowConsumers*(kills+1))
	chores := lines(must(t, 0, command(s.store, "pop", "chores", "--all")))
	c.chores.judge(t, "chores", chores, 0)
	if !slices.IsSortedFunc(chores, func(a, b string) int { return len(a) - len(b) }) {
		t.Error("chores are not sorted by priority")
	}
	c.keyless.judge(t, "keyless", left("keyless"), 0)
	if c.curled != nil {
		c.curled.judge(t, "curled", left("curled"), 0)
	}
}

// judgeWork is judge for jobs, of which the server tells. All of those of the tube are free, as their connections have ended.
func (c *clients) judgeWork() {
	for name, b := range map[string]*book{"work": c.work, "default": c.tube} {
		var left []string
		for text := range c.s.jobsLeft(name) {
			left = append(left, text)
		}
		b.judge(c.s.t, name, left, 0)
	}
	conn := c.s.dialTube(c.s.t.Context())
	defer conn.Close()
	words, err := conn.ask("stats-tube default")
	testkit.NoError(c.s.t, err)
	if words[0] != "OK" {
		return // it has no jobs
	}
	for line, err := conn.r.ReadString('\n'); err == nil && line != "\r\n"; line, err = conn.r.ReadString('\n') {
		if name, n, _ := strings.Cut(line, ": "); name == "current-jobs-reserved" && n != "0\n" {
			c.s.t.Errorf("of the tube are reserved %s", n)
		}
	}
}

// requests returns how many are under way at the server, beside its own.
func (s *served) requests() (n int) {
	r, err := http.NewRequest(http.MethodGet, "http://"+s.address+"/metrics", nil)
	testkit.NoError(s.t, err)
	body, _, err := s.try(r)
	testkit.NoError(s.t, err)
	_, after, found := strings.Cut(string(body), `conq_requests{protocol="http"} `)
	if _, err := fmt.Sscan(after, &n); err != nil || !found {
		s.t.Fatalf("metrics of requests: %v, %.100q", err, after)
	}
	return n
}

// Clients that are killed while they wait take nothing.
func TestKillWaitingClients(t *testing.T) {
	s := &served{t: t, store: filepath.Join(t.TempDir(), "store")}
	s.start()
	defer s.end(syscall.SIGTERM)
	s.post(t.Context(), "queues/items/items", "", `{"items":[{"text":"first"}]}`)
	s.post(t.Context(), "queues/items/take", "", "")
	s.post(t.Context(), "jobs/jobs", "", `{"jobs":[{"text":"first"}]}`)
	answer, _ := s.post(t.Context(), "jobs/jobs/reserve", "", "")
	first := jobsIn(t, answer)[0]
	s.post(t.Context(), fmt.Sprintf("jobs/jobs/%d/ack", first.ID), "", fmt.Sprintf(`{"token":%q}`, first.Token))
	none := s.requests()
	url := "http://" + s.address
	waiting := []*exec.Cmd{
		command(url, "dequeue", "items", "--wait=1h"), command(url, "dequeue", "items", "--follow"),
		command(url, "work", "jobs", "--", "false"), command(url, "work", "jobs", "-j", "2", "--", "false"),
	}
	if path, err := exec.LookPath("curl"); err == nil {
		waiting = append(waiting, exec.Command(path, "-s", "-X", "POST", url+"/v1/queues/items/take?wait=1h"), exec.Command(path, "-s", "-X", "POST", url+"/v1/jobs/jobs/reserve?wait=1h"))
	}
	for _, c := range waiting {
		testkit.NoError(t, c.Start())
	}
	for s.requests() < none+len(waiting) {
	}
	for _, c := range waiting {
		kill(t, c)
		_ = c.Wait()
	}
	for s.requests() > none {
	}
	s.post(t.Context(), "queues/items/items", "", `{"items":[{"text":"a"},{"text":"b"}]}`)
	s.post(t.Context(), "jobs/jobs", "", `{"jobs":[{"text":"a"},{"text":"b"}]}`)
	answer, _ = s.post(t.Context(), "queues/items/take?n=100", "", "")
	testkit.Equal(t, "items", string(answer), `{"items":[{"text":"a"},{"text":"b"}]}`+"\n")
	answer, _ = s.post(t.Context(), "jobs/jobs/reserve?n=100", "", "")
	testkit.Equal(t, "jobs", len(jobsIn(t, answer)), 2)
}
