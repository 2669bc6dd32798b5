package jobs

import (
	"context"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// TestFormat compares what is stored with the last block of docs/reference/format.md.
func TestFormat(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/format.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```hex\n")
	block, _, _ := strings.Cut(blocks[len(blocks)-1], "```")
	var want []string
	for line := range strings.Lines(block) {
		want = append(want, strings.ReplaceAll(strings.TrimSpace(line), " ", ""))
	}
	db := memory.New(memory.Options{})
	defer db.Close()
	q := NewQueue("W", db.Limits(), Config{NewID: func(context.Context) (int64, error) { return 7, nil }})
	err = db.Transact(context.Background(), func(tx kv.Tx) error {
		_, err := q.Put(tx, q.Places(), 1000, &New{Payload: []byte("a"), Priority: 5, MaxAttempts: 20})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pair := range all(t, db) {
		got = append(got, hex.EncodeToString(pair.Key)+"="+hex.EncodeToString(pair.Value))
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("stored is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
