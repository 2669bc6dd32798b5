package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
)

// served is "conq serve" as its clients know it, by one address through all its lives.
type served struct {
	t         *testing.T
	store     string
	cmd       *exec.Cmd
	address   string // of HTTP
	beanstalk string
	client    http.Client
}

var servingAt = regexp.MustCompile(`msg=serving protocol=(\S+) address=(\S+)`)

// start starts the server, and returns when it answers.
func (s *served) start() {
	s.t.Helper()
	s.cmd = command(s.store, "serve", "--listen", cmp.Or(s.address, "127.0.0.1:0"), "--beanstalk", cmp.Or(s.beanstalk, "127.0.0.1:0"))
	stderr, err := s.cmd.StderrPipe()
	testkit.NoError(s.t, err)
	testkit.NoError(s.t, s.cmd.Start())
	log := bufio.NewScanner(stderr)
	addresses := make(map[string]string)
	for len(addresses) < 2 && log.Scan() {
		if serving := servingAt.FindStringSubmatch(log.Text()); serving != nil {
			addresses[serving[1]] = serving[2]
		}
	}
	if len(addresses) < 2 {
		s.t.Fatalf("it does not serve: %v", s.cmd.Wait())
	}
	if s.address == "" { // later it is read by clients, and is the same
		s.address, s.beanstalk = addresses["http"], addresses["beanstalk"]
	}
	go io.Copy(io.Discard, stderr)
}

// end ends the server by a signal.
func (s *served) end(signal syscall.Signal) {
	testkit.NoError(s.t, s.cmd.Process.Signal(signal))
	err := s.cmd.Wait()
	if signal == syscall.SIGTERM {
		testkit.NoError(s.t, err)
	}
}

// post asks the server, until it answers or ctx ends, and returns the body. A key has a retry do nothing.
func (s *served) post(ctx context.Context, path, key, body string) (answer []byte, tries int) {
	for tries = 1; ctx.Err() == nil; tries++ {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/v1/"+path, strings.NewReader(body))
		testkit.NoError(s.t, err)
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		answer, status, err := s.try(r)
		switch {
		case err == nil && status < 300 || status == http.StatusConflict:
			return answer, tries
		case err == nil && status < 500:
			s.t.Errorf("%s: %d %s", path, status, answer)
			return nil, tries
		}
		select {
		case <-time.After(5 * time.Millisecond): // it starts again
		case <-ctx.Done():
		}
	}
	return nil, tries
}

func (s *served) try(r *http.Request) (body []byte, status int, err error) {
	response, err := s.client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return body, response.StatusCode, err
}

// record is what clients know.
type record struct {
	mu    sync.Mutex
	items map[string]bool  // acknowledged
	jobs  map[string]int64 // acknowledged, with their ids
	done  map[string]bool  // jobs that were acknowledged by a worker, or may have been
	acks  chan struct{}    // has one for each request that was acknowledged
	again atomic.Int64     // requests that were tried more than once
}

func (r *record) note(tries int, f func()) {
	r.mu.Lock()
	f()
	r.mu.Unlock()
	r.acks <- struct{}{}
	if tries > 1 {
		r.again.Add(1)
	}
}

// produce adds an item, or a job, or a few of one of them, again and again.
func (s *served) produce(ctx context.Context, r *record, producer int) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%d-%d", producer, i)
		one := fmt.Sprintf(`{"text":"%s a"},{"text":"%s b"}`, name, name)
		if producer%2 == 0 {
			_, tries := s.post(context.WithoutCancel(ctx), "queues/items/items", name, `{"items":[`+one+`]}`)
			r.note(tries, func() { r.items[name+" a"], r.items[name+" b"] = true, true })
			continue
		}
		answer, tries := s.post(context.WithoutCancel(ctx), "jobs/jobs", name, `{"jobs":[`+one+`]}`)
		var got struct{ IDs []int64 }
		testkit.Check(s.t, json.Unmarshal(answer, &got))
		r.note(tries, func() { r.jobs[name+" a"], r.jobs[name+" b"] = got.IDs[0], got.IDs[1] })
	}
}

type leased struct {
	ID    int64
	Token string
	Text  string
}

// consume does jobs, and notes those that it has acknowledged, or may have.
func (s *served) consume(ctx context.Context, r *record) {
	for ctx.Err() == nil {
		answer, _ := s.post(ctx, "jobs/jobs/reserve?n=3&wait=1s&lease=1s", "", "")
		for _, j := range jobsIn(s.t, answer) {
			r.mu.Lock()
			r.done[j.Text] = true
			r.mu.Unlock()
			s.post(context.WithoutCancel(ctx), fmt.Sprintf("jobs/jobs/%d/ack", j.ID), "", fmt.Sprintf(`{"token":%q}`, j.Token))
		}
	}
}

func jobsIn(t *testing.T, answer []byte) []leased {
	var got struct{ Jobs []leased }
	if len(answer) > 0 {
		testkit.Check(t, json.Unmarshal(answer, &got))
	}
	return got.Jobs
}

// However often "conq serve" is killed under load from clients of all kinds, nothing that it has acknowledged is lost, a retry with a key
// adds nothing twice, each job comes to a worker, and those of connections that have ended are free.
func TestKillServer(t *testing.T) {
	random := seeded(t)
	s := &served{t: t, store: filepath.Join(t.TempDir(), "store")}
	r := &record{items: make(map[string]bool), jobs: make(map[string]int64), done: make(map[string]bool), acks: make(chan struct{})}
	s.start()
	s.post(t.Context(), "jobs/jobs", "first", `{"jobs":[{"text":"first a"}]}`)
	r.jobs["first a"] = 1
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() { s.produce(ctx, r, i) })
	}
	for range 3 {
		group.Go(func() { s.consume(ctx, r) })
	}
	others := &clients{s: s}
	others.start(ctx, &group)
	for round := range *kills {
		for range 1 + random.IntN(200) {
			<-r.acks
		}
		signal := syscall.SIGKILL
		if round%5 == 4 {
			signal = syscall.SIGTERM
		}
		s.end(signal)
		s.start()
	}
	stop()
	go func() {
		group.Wait()
		close(r.acks)
	}()
	for range r.acks { // of those that still go on
	}
	s.end(syscall.SIGTERM)
	must(t, 0, command(s.store, "check"))
	judgeItems(t, r, lines(must(t, 0, command(s.store, "dequeue", "items", "--all"))))
	others.judge(*kills)
	s.start()
	defer s.end(syscall.SIGTERM)
	judgeJobs(t, s, r)
	others.judgeWork()
	if r.again.Load() < int64(*kills) {
		t.Errorf("only %d requests met a kill", r.again.Load())
	}
	t.Logf("%d requests were tried again; %d items, %d jobs", r.again.Load(), len(r.items), len(r.jobs))
}

func judgeItems(t *testing.T, r *record, stored []string) {
	seen := make(map[string]int)
	for _, item := range stored {
		if seen[item]++; seen[item] > 1 || !r.items[item] {
			t.Errorf("item %s is there %d times; acknowledged: %v", item, seen[item], r.items[item])
		}
	}
	for item := range r.items {
		if seen[item] == 0 {
			t.Errorf("item %s is lost", item)
		}
	}
}

// judgeJobs compares what is left with what was put and done.
func judgeJobs(t *testing.T, s *served, r *record) {
	left := s.jobsLeft("jobs")
	for text, id := range left {
		if r.jobs[text] != id {
			t.Errorf("job %q is %d; %d was acknowledged", text, id, r.jobs[text])
		}
	}
	for text := range r.jobs {
		if left[text] == 0 && !r.done[text] {
			t.Errorf("job %q is lost", text)
		}
	}
}

// jobsLeft returns the texts and ids of all jobs of a queue, of which no two have one text.
func (s *served) jobsLeft(queue string) map[string]int64 {
	left := make(map[string]int64)
	for after := ""; ; {
		request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.address+"/v1/jobs/"+queue+"?limit=1000&after="+after, nil)
		testkit.NoError(s.t, err)
		body, _, err := s.try(request)
		testkit.NoError(s.t, err)
		for _, j := range jobsIn(s.t, body) {
			if id, twice := left[j.Text]; twice {
				s.t.Errorf("jobs %d and %d are %q", id, j.ID, j.Text)
			}
			left[j.Text] = j.ID
		}
		var page struct{ Next string }
		testkit.NoError(s.t, json.Unmarshal(body, &page))
		if after = page.Next; after == "" {
			return left
		}
	}
}
