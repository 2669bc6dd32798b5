//go:build unix

package docs

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// The dump that docs/reference/format.md shows is that of the store which it shows before, byte
// for byte, and can be loaded.
func TestFormatDump(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	q, err := conq.OpenQueue(t.Context(), db, "Q", conq.Bytes())
	check(err)
	p, err := conq.OpenPriorityQueue(t.Context(), db, "P", conq.Bytes())
	check(err)
	check(q.Enqueue(ctx, []byte("a")))
	check(q.Enqueue(ctx, []byte("abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ")))
	check(p.Push(ctx, []byte("x"), -5))
	check(p.Push(ctx, []byte("y"), -5))
	check(p.Push(ctx, []byte("z"), 300))
	var dump bytes.Buffer
	_, err = conq.Dump(ctx, db, &dump)
	check(err)
	equal(t, dumpShown(t, 0), hex.EncodeToString(dump.Bytes()))

	// The check as the page defines it, without the code that wrote it.
	table := crc32.MakeTable(0x82f63b78)
	equal(t, crc32.Checksum([]byte("123456789"), table), uint32(0xe3069283))
	covered, sum := dump.Bytes()[:dump.Len()-4], dump.Bytes()[dump.Len()-4:]
	equal(t, binary.BigEndian.Uint32(sum), crc32.Checksum(covered, table))
}

// dumpShown returns a dump that docs/reference/format.md shows.
func dumpShown(t *testing.T, n int) string {
	var text strings.Builder
	for _, line := range strings.Split(blocks(t, formatDoc, "dump")[n], "\n") {
		if !strings.HasPrefix(line, "#") {
			text.WriteString(strings.ReplaceAll(line, " ", ""))
		}
	}
	return text.String()
}

// So is that of the work queue which it shows.
func TestFormatDumpOfJobs(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	q := jobs.NewQueue("W", db.Limits(), jobs.Config{NewID: func(context.Context) (int64, error) { return 7, nil }})
	check(db.Transact(ctx, func(tx kv.Tx) error {
		layout.Enter(tx, "W", queue.KindWorkQueue)
		tx.Set(jobs.SystemSpace(), []byte{0x15, 10})
		_, err := q.Put(tx, q.Places(), 1000, &jobs.New{Payload: []byte("a"), Priority: 5, MaxAttempts: 20})
		return err
	}))
	var dump bytes.Buffer
	_, err := conq.Dump(ctx, db, &dump)
	check(err)
	equal(t, dumpShown(t, 1), hex.EncodeToString(dump.Bytes()))
	_, err = conq.Load(ctx, db, bytes.NewReader(dump.Bytes()), conq.LoadOptions{Existing: conq.ExistingReplace})
	check(err)
}
