package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
)

var kills = flag.Int("kills", 5, "how often conq work and conq serve are killed; conq enqueue and conq dequeue a few times as often")

// attempt is what a command of conq work has noted of itself when it began.
type attempt struct {
	id, attempt     int
	runner          int    // the process of conq work
	began, deadline int64  // nanoseconds; of the lease, at first
	item            string // empty if it got none: conq was killed before
}

// noted has a command note its job.
const noted = `read -r item; echo "$CONQ_JOB_ID $CONQ_JOB_ATTEMPT $PPID $(date +%s%N) $CONQ_JOB_DEADLINE $item" >> "$NOTES"`

func withNotes(cmd *exec.Cmd, notes string) *exec.Cmd {
	cmd.Env = append(os.Environ(), "NOTES="+notes)
	return cmd
}

func attempts(t *testing.T, notes string) (all []attempt) {
	t.Helper()
	text, err := os.ReadFile(notes)
	testkit.NoError(t, err)
	for _, line := range lines(string(text)) {
		var a attempt
		var deadline string
		_, err := fmt.Sscan(line, &a.id, &a.attempt, &a.runner, &a.began, &deadline)
		testkit.NoError(t, err)
		at, err := time.Parse(time.RFC3339Nano, deadline)
		testkit.NoError(t, err)
		a.deadline = at.UnixNano()
		a.item = strings.SplitN(line, " ", 6)[5]
		all = append(all, a)
	}
	// A command may outlive conq, and begin late: it notes its job behind the next attempt.
	slices.SortFunc(all, func(a, b attempt) int { return cmp.Or(a.id-b.id, a.attempt-b.attempt) })
	return all
}

// Whatever the moment at which "conq work" is killed, with eight commands running, each job that was acknowledged is done
// at least once, nobody gets a job before the process or the lease of the one who had it is over, and counts are right.
func TestKillWhileWorking(t *testing.T) {
	testkit.Long(t)
	random := seeded(t)
	store, notes := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "notes")
	const each = 60
	put := make(map[int]string)
	for round := range *kills {
		for id, item := range putJobs(t, store, numbered(fmt.Sprint("round ", round), each), random) {
			put[id] = item
		}
		killWork(t, store, notes, random.Int64N(each*90))
		if round%20 == 0 {
			must(t, 0, command(store, "check"))
		}
	}
	must(t, 0, command(store, "check"))
	countsAreRight(t, store)
	must(t, 0, withNotes(command(store, "work", "jobs", "-j", "8", "--drain", "--", "sh", "-c", noted), notes))
	must(t, 0, command(store, "check"))
	if left := countsAreRight(t, store); left != 0 {
		t.Errorf("%d jobs are left", left)
	}
	again := judge(t, put, attempts(t, notes))
	if again < *kills {
		t.Errorf("%d jobs were in hand at %d kills", again, *kills)
	}
	t.Logf("%d kills, %d jobs, %d attempts that a kill has ended", *kills, len(put), again)
}

// putJobs puts jobs, some with keys, and returns their ids.
func putJobs(t *testing.T, store string, items []string, random *rand.Rand) map[int]string {
	t.Helper()
	cmd := command(store, "put", "jobs", "--ids", "--max-attempts", "-1")
	if key := random.IntN(4); key > 0 {
		cmd.Args = append(cmd.Args, "--priority", strconv.Itoa(key))
	}
	cmd.Stdin = strings.NewReader(strings.Join(items, "\n") + "\n")
	ids := make(map[int]string)
	for i, line := range lines(must(t, 0, cmd)) {
		id, err := strconv.Atoi(line)
		testkit.NoError(t, err)
		ids[id] = items[i]
	}
	testkit.Equal(t, "ids", len(ids), len(items))
	return ids
}

// killWork runs "conq work", and kills it when its commands have noted so many bytes.
func killWork(t *testing.T, store, notes string, after int64) {
	t.Helper()
	f := open(t, notes, os.O_RDWR|os.O_CREATE)
	info, err := f.Stat()
	testkit.NoError(t, err)
	cmd := withNotes(command(store, "work", "jobs", "-j", "8", "--lease", "700ms", "--", "sh", "-c", noted), notes)
	testkit.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	waitForSize(t, f, info.Size()+after%3000, ended)
	kill(t, cmd)
	<-ended
}

func statOf(t *testing.T, store string) map[string]int {
	t.Helper()
	var stat struct{ Jobs map[string]any }
	testkit.NoError(t, json.Unmarshal([]byte(must(t, 0, command(store, "stat", "jobs", "--json"))), &stat))
	counts := make(map[string]int)
	for name, value := range stat.Jobs {
		if n, ok := value.(float64); ok {
			counts[name] = int(n)
		}
	}
	return counts
}

// countsAreRight compares the counts of states with a list of the jobs, and returns how many these are.
func countsAreRight(t *testing.T, store string) (n int) {
	t.Helper()
	counts := statOf(t, store)
	listed := make(map[string]int)
	stdout, _, _ := run(t, command(store, "jobs", "jobs", "--json", "--limit", "0"))
	for _, line := range lines(stdout) {
		var job struct{ State string }
		testkit.NoError(t, json.Unmarshal([]byte(line), &job))
		listed[job.State]++
		n++
	}
	for _, state := range []string{"ready", "scheduled", "leased", "blocked", "dead"} {
		testkit.Equal(t, state, counts[state], listed[state])
	}
	return n
}

// judge says what a correct queue could not have given to these attempts, which are sorted, and returns how many were followed by another one.
func judge(t *testing.T, put map[int]string, all []attempt) (again int) {
	t.Helper()
	done := make(map[int]bool)
	last := make(map[int]attempt)
	for _, a := range all {
		before, there := last[a.id]
		if there {
			again++
		}
		switch {
		case a.item != "" && put[a.id] != a.item:
			t.Errorf("job %d was %q, not %q", a.id, a.item, put[a.id])
		case there && a.runner == before.runner && a.began < before.deadline:
			t.Errorf("job %d began again %v before a lease of it was over", a.id, time.Duration(before.deadline-a.began))
		case there && a.attempt == before.attempt:
			t.Errorf("job %d had attempt %d twice", a.id, a.attempt)
		}
		done[a.id], last[a.id] = done[a.id] || a.item != "", a
	}
	for id := range put {
		if !done[id] {
			t.Errorf("job %d was never done", id)
		}
	}
	return again
}
