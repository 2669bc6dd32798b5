//go:build unix

package docs

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/work"
)

// Stores and dumps that earlier builds have written, as docs/upgrades.md lists them. In each is queue "emails" with hello and
// world, and priority queue "chores" with tidy up (10) and fire (-5); in those with jobs also work queue "letters".
const oldStores = "internal/docs/testdata/stores/"

// unpack returns the directory of an old store, which may be written to.
func unpack(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	z, err := zip.OpenReader(oldStores + name + ".zip")
	testkit.NoError(t, err)
	defer z.Close()
	for _, file := range z.File {
		r, err := file.Open()
		testkit.NoError(t, err)
		content, err := io.ReadAll(r)
		testkit.NoError(t, err)
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, file.Name), content, 0o644))
	}
	return dir
}

// testOldQueues looks whether the items are there.
func testOldQueues(t *testing.T, db kv.DB) {
	t.Helper()
	emails, err := conq.OpenQueue(t.Context(), db, "emails", conq.String())
	testkit.NoError(t, err)
	chores, err := conq.OpenPriorityQueue(t.Context(), db, "chores", conq.String())
	testkit.NoError(t, err)
	items, err := emails.DequeueN(ctx, 10)
	testkit.NoError(t, err)
	testkit.EqualSlices(t, "emails", items, []string{"hello", "world"})
	for _, want := range []string{"fire", "tidy up"} {
		item, err := chores.PopMin(ctx)
		testkit.NoError(t, err)
		testkit.Equal(t, "chore", item, want)
	}
}

// done does the jobs of letters, and returns how their payloads begin.
func done(t *testing.T, letters *work.Queue[string]) (did []string) {
	t.Helper()
	testkit.NoError(t, work.Run(ctx, letters, func(_ context.Context, job *work.Lease[string]) error {
		did = append(did, job.Value[:6])
		return nil
	}, work.RunOptions{Drain: true}))
	return did
}

// testOldJobs looks whether the jobs are there: in their states, with their errors, and to be done in their order.
func testOldJobs(t *testing.T, letters *work.Queue[string]) {
	t.Helper()
	var got strings.Builder
	for j, err := range letters.List(ctx, work.Filter{}) {
		testkit.NoError(t, err)
		got.WriteString(j.State.String() + " " + j.Value[:3] + "\n")
		if j.Value == "bad" {
			testkit.Equal(t, "its failures", len(j.Failures), 1)
		}
	}
	equal(t, got.String(), "ready to \nblocked to \nscheduled to \ndead bad\ndead to \nready xxx\n")
	every, err := letters.Periodics(ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "periodic", len(every) == 1 && every[0].Name == "nightly" && every[0].Spec == "0 3 1 1 *", true)
}

// A store of each format that there was is opened and read, and has the format of now then.
func TestOldStores(t *testing.T) {
	for _, c := range []struct {
		name string
		jobs int // the form of its work queue: 0 if it has none, 1 if it needs a repair
	}{
		{"directory1", 0}, {"directory2", 0}, {"directory3-jobs1", 1}, {"directory3-jobs2", 2}, {"directory4-jobs2", 2}, {"directory4-jobs3", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := unpack(t, c.name)
			testkit.Equal(t, "its format", string(readFile(t, filepath.Join(dir, "CONQ"))), "conq embedded store, format "+c.name[len("directory"):][:1]+"\n")
			db, err := conq.Open(t.Context(), dir)
			testkit.NoError(t, err)
			if c.jobs > 0 {
				letters, err := work.Open(t.Context(), db, "letters", conq.String())
				testkit.NoError(t, err)
				testOldJobs(t, letters)
				report, err := conq.Check(ctx, db, conq.CheckOptions{Repair: true})
				testkit.NoError(t, err)
				testkit.Equal(t, "faults that stay", report.Faults, 0)
				testkit.Equal(t, "what keys have in use is repaired", report.Repaired > 1, c.jobs == 1)
				testkit.EqualSlices(t, "done", done(t, letters), []string{"to ada", "to ben", "xxxxxx"})
			}
			testOldQueues(t, db)
			testkit.NoError(t, db.Close())
			testkit.Equal(t, "format now", string(readFile(t, filepath.Join(dir, "CONQ"))), "conq embedded store, format 4\n")
		})
	}
}

// A store of a format that is yet to come is refused, by its number, and stays as it is.
func TestNewerStore(t *testing.T) {
	dir := unpack(t, "directory4-jobs3")
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "CONQ"), []byte("conq embedded store, format 5\n"), 0o644))
	before := contents(t, dir)
	_, err := conq.Open(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), "it has format 5, and this build knows formats up to 4: use a newer build") {
		t.Errorf("error %v", err)
	}
	equal(t, contents(t, dir), before)
}

// contents returns the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, file := range files(t, "", dir) {
		found[filepath.Base(file)] = string(readFile(t, file))
	}
	return found
}

// Old dumps are loaded, but for those of the first form of work queues, which are refused by its number.
func TestOldDumps(t *testing.T) {
	for name, refused := range map[string]bool{"dump1-queues": false, "dump1-jobs1": true, "dump1-jobs2": false, "dump1-jobs3": false} {
		t.Run(name, func(t *testing.T) {
			db := memory.New(memory.Options{})
			defer db.Close()
			_, err := conq.Load(ctx, db, bytes.NewReader(readFile(t, oldStores+name+".conq")))
			if refused {
				if err == nil || !strings.Contains(err.Error(), `queue "letters": settings of a work queue of format 1, this version of conq knows 2`) {
					t.Errorf("error %v", err)
				}
				return
			}
			testkit.NoError(t, err)
			if strings.Contains(name, "jobs") {
				letters, err := work.Open(t.Context(), db, "letters", conq.String())
				testkit.NoError(t, err)
				testOldJobs(t, letters)
				testkit.EqualSlices(t, "done", done(t, letters), []string{"to ada", "to ben", "xxxxxx"})
			}
			testOldQueues(t, db)
		})
	}
}
