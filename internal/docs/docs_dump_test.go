//go:build unix

package docs

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv/memory"
)

// The dump that docs/format.md shows is that of the store which it shows before, byte
// for byte, and can be loaded.
func TestFormatDump(t *testing.T) {
	var text strings.Builder
	for _, line := range strings.Split(blocks(t, formatDoc, "dump")[0], "\n") {
		if !strings.HasPrefix(line, "#") {
			text.WriteString(strings.ReplaceAll(line, " ", ""))
		}
	}
	db := memory.New(memory.Options{})
	defer db.Close()
	q, err := conq.OpenQueue(db, "Q", conq.Bytes())
	check(err)
	p, err := conq.OpenPriorityQueue(db, "P", conq.Bytes())
	check(err)
	check(q.Enqueue(ctx, []byte("a")))
	check(q.Enqueue(ctx, []byte("abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ")))
	check(p.Push(ctx, []byte("x"), -5))
	check(p.Push(ctx, []byte("y"), -5))
	check(p.Push(ctx, []byte("z"), 300))
	var dump bytes.Buffer
	_, err = conq.Dump(ctx, db, &dump)
	check(err)
	equal(t, text.String(), hex.EncodeToString(dump.Bytes()))

	// The check as the page defines it, without the code that wrote it.
	table := crc32.MakeTable(0x82f63b78)
	equal(t, crc32.Checksum([]byte("123456789"), table), uint32(0xe3069283))
	covered, sum := dump.Bytes()[:dump.Len()-4], dump.Bytes()[dump.Len()-4:]
	equal(t, binary.BigEndian.Uint32(sum), crc32.Checksum(covered, table))
}
