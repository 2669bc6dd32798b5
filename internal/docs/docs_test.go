//go:build unix

package docs

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/tuple"
	"github.com/google/go-cmp/cmp"
)

const formatDoc = "docs/reference/format.md"

// The bytes of tuples in docs/reference/format.md are those that package tuple packs.
func TestFormatTuples(t *testing.T) {
	tuples := map[string]tuple.Tuple{
		`("Q")`:                  {"Q"},
		`("é")`:                  {"é"},
		`(b"conq")`:              {[]byte("conq")},
		`(b"a\x00b")`:            {[]byte("a\x00b")},
		`(0)`:                    {0},
		`(1)`:                    {1},
		`(255)`:                  {255},
		`(256)`:                  {256},
		`(-1)`:                   {-1},
		`(-256)`:                 {-256},
		`(9223372036854775807)`:  {int64(1<<63 - 1)},
		`(-9223372036854775808)`: {int64(-1 << 63)},
		`("jobs", -5, 0)`:        {"jobs", -5, 0},
	}
	got := map[string]string{}
	for _, row := range rows(t, formatDoc, 2, "| tuple | bytes |") {
		got[row[0]] = strings.ReplaceAll(row[1], " ", "")
	}
	want := map[string]string{}
	for text, elems := range tuples {
		packed, err := elems.Pack()
		check(err)
		want[text] = hex.EncodeToString(packed)
	}
	equal(t, got, want)
}

// So are the values of codecs.
func TestFormatValues(t *testing.T) {
	got := map[string]string{}
	for _, row := range rows(t, formatDoc, 4, "| codec | payload | example | bytes |") {
		got[row[0]+": "+row[2]] = strings.ReplaceAll(row[3], " ", "")
	}
	want := map[string]string{
		"Bytes: a":                  encoded(conq.Bytes(), []byte("a")),
		"String: é":                 encoded(conq.String(), "é"),
		`JSON: {"a": 1}`:            encoded(conq.JSON[map[string]int](), map[string]int{"a": 1}),
		"Tuple, of bytes: a":        encoded(conq.Tuple[[]byte](), []byte("a")),
		"Tuple, of a string: a":     encoded(conq.Tuple[string](), "a"),
		"Tuple, of an integer: 300": encoded(conq.Tuple[int](), 300),
	}
	equal(t, got, want)
}

func encoded[T any](c conq.Codec[T], v T) string {
	b, err := c.Encode(v)
	check(err)
	return hex.EncodeToString(b)
}

// The store that docs/reference/format.md shows in full is what its operations leave, no
// key more or less.
func TestFormatStore(t *testing.T) {
	random := make([]byte, 20*8)
	for i := range random {
		random[i] = byte(i % 20)
	}
	db := memory.New(memory.Options{Limits: kv.Limits{Value: 20}})
	defer db.Close()
	options := func() conq.Options { return conq.Options{Random: bytes.NewReader(random)} }
	q, err := conq.OpenQueue(t.Context(), db, "Q", conq.Bytes(), options())
	check(err)
	p, err := conq.OpenPriorityQueue(t.Context(), db, "P", conq.Bytes(), options())
	check(err)
	check(q.Enqueue(ctx, []byte("a")))
	check(q.Enqueue(ctx, []byte("abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ")))
	check(p.Push(ctx, []byte("x"), -5))
	check(p.Push(ctx, []byte("y"), -5))
	check(p.Push(ctx, []byte("z"), 300))
	equal(t, pairsOfDoc(t, 0), pairsOf(db))
}

// pairsOf returns the keys of a store with their values, in hexadecimal.
func pairsOf(db kv.DB) map[string]string {
	pairs := map[string]string{}
	check(db.ReadTransact(context.Background(), func(r kv.Reader) error {
		for pair, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			pairs[hex.EncodeToString(pair.Key)] = hex.EncodeToString(pair.Value)
		}
		return nil
	}))
	return pairs
}

// pairsOfDoc returns those of one of the stores that the page shows.
func pairsOfDoc(t *testing.T, block int) map[string]string {
	pairs := map[string]string{}
	for _, line := range strings.Split(blocks(t, formatDoc, "hex")[block], "\n") {
		if line = strings.ReplaceAll(line, " ", ""); line == "" || line[0] == '#' {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		if !found {
			t.Fatalf("no value in %q", line)
		}
		pairs[key] = value
	}
	return pairs
}

// The sizes of pieces and of the largest payloads are the engines'.
func TestFormatLimits(t *testing.T) {
	store, err := embedded.Open(t.Context(), t.TempDir(), embedded.Options{})
	check(err)
	defer store.Close()
	inMemory := memory.New(memory.Options{})
	defer inMemory.Close()
	want := map[string]string{}
	for name, db := range map[string]kv.DB{"embedded": store, "memory": inMemory} {
		want[name] = fmt.Sprintf("%d %d", db.Limits().Value, db.Limits().Transaction/2)
	}
	// Others need a cluster. The tests of etcd and FoundationDB hold docs/reference/limits.md.
	limits := map[string][]string{}
	for _, row := range rows(t, "docs/reference/limits.md", 5, "Bytes, where nothing else is said.\n\n| | embedded | memory | etcd | FoundationDB |") {
		limits[row[0]] = row
	}
	for column, name := range map[int]string{3: "etcd", 4: "FoundationDB"} {
		want[name] = strings.ReplaceAll(limits["value"][column]+" "+limits["largest item"][column], ",", "")
	}
	size := regexp.MustCompile(`^([\d,]+) bytes( \(.*\))?$`)
	got := map[string]string{}
	for _, row := range rows(t, formatDoc, 3, "| engine | V | largest payload |") {
		text := size.ReplaceAllString(row[1], "$1") + " " + size.ReplaceAllString(row[2], "$1")
		got[row[0]] = strings.ReplaceAll(text, ",", "")
	}
	equal(t, got, want)
}

// The numbers of formats are those that are written where the page says.
func TestFormatNumbers(t *testing.T) {
	dir := t.TempDir()
	db, err := embedded.Open(t.Context(), dir, embedded.Options{})
	check(err)
	defer db.Close()
	_, err = conq.OpenQueue(t.Context(), db, "Q", conq.Bytes())
	check(err)
	pairs := pairsOf(db)
	// last is the last integer of the value of a key.
	last := func(key tuple.Tuple) string {
		packed, err := append(tuple.Tuple{[]byte("conq")}, key...).Pack()
		check(err)
		value, err := hex.DecodeString(pairs[hex.EncodeToString(packed)])
		check(err)
		elems, err := tuple.Unpack(value)
		check(err)
		return fmt.Sprint(elems[len(elems)-1])
	}
	var directory string
	_, err = fmt.Sscanf(string(readFile(t, filepath.Join(dir, "CONQ"))), "conq embedded store, format %s", &directory)
	check(err)
	var dump bytes.Buffer
	_, err = conq.Dump(ctx, db, &dump)
	check(err)
	got := map[string]string{}
	for _, row := range rows(t, formatDoc, 3, "| what | format | where it is recorded |") {
		got[row[0]] = row[1]
	}
	equal(t, got, map[string]string{
		"key space": last(tuple.Tuple{"format"}), "one queue": last(tuple.Tuple{"queue", "Q"}),
		"embedded directory": directory, "dump": fmt.Sprint(binary.BigEndian.Uint32(dump.Bytes()[9:13])),
	})
}

// The files of the embedded directory are as docs/reference/format.md has them.
func TestFormatDirectory(t *testing.T) {
	dir := t.TempDir()
	db, err := embedded.Open(t.Context(), dir, embedded.Options{})
	check(err)
	check(db.Transact(t.Context(), func(tx kv.Tx) error { tx.Set([]byte("key"), nil); return nil }))
	check(db.Close())
	for _, row := range rows(t, formatDoc, 2, "| file | contents |") {
		switch row[0] {
		case "CONQ":
			text, _, _ := strings.Cut(row[1], " and a line end")
			equal(t, string(readFile(t, filepath.Join(dir, "CONQ"))), text+"\n")
		case "OWNER":
			equal(t, string(readFile(t, filepath.Join(dir, "OWNER"))), fmt.Sprintf("pid %d\n", os.Getpid()))
		case "LOCK", "RESERVE":
			equal(t, string(readFile(t, filepath.Join(dir, row[0]))), "")
		case "N.journal":
			found, err := filepath.Glob(filepath.Join(dir, "[0-9]*.journal"))
			if err != nil || len(found) != 1 {
				t.Fatalf("segments are %q (%v), want one", found, err)
			}
			if segment := readFile(t, found[0]); !bytes.Contains(segment, []byte("key")) {
				t.Errorf("the first segment has no key: %x", segment)
			}
		case "NEEDED":
			form, _, _ := strings.Cut(row[1], " and a line end")
			form = regexp.MustCompile("[FLBSRME]").ReplaceAllString(form, `(\d+)`)
			line := regexp.MustCompile(regexp.MustCompile("[TC]").ReplaceAllString(form, "([0-9a-f]{8})") + "\n$")
			text := readFile(t, filepath.Join(dir, "NEEDED"))
			found := line.FindSubmatch(text)
			if found == nil {
				t.Fatalf("NEEDED has %q, not %q", text, line)
			}
			part, _, _ := bytes.Cut(text, []byte(", check"))
			equal(t, string(found[9]), fmt.Sprintf("%08x", crc32.Checksum(part, crc32.MakeTable(crc32.Castagnoli))))
			equal(t, string(found[1]), string(found[2])) // closed, with one segment
		case "spare.journal":
		default:
			version := regexp.MustCompile(`version (\d+)`).FindStringSubmatch(row[1])
			marker := fmt.Sprintf("marker.format-version.*.%03s", version[1])
			if found, err := filepath.Glob(filepath.Join(dir, marker)); err != nil || len(found) != 1 {
				t.Errorf("files %s are %q (%v), want one", marker, found, err)
			}
		}
	}
}

// rows returns the cells of a Markdown table without their backquotes.
func rows(t *testing.T, file string, columns int, header string) (cells [][]string) {
	t.Helper()
	_, table, found := strings.Cut(string(readFile(t, file)), "\n"+header+"\n")
	if !found {
		t.Fatalf("%s has no table %q", file, header)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, line := range strings.Split(table, "\n")[1:] {
		row := strings.Split(strings.Trim(line, "| "), " | ")
		if len(row) != columns {
			t.Fatalf("%s: row %q has %d columns, want %d", file, line, len(row), columns)
		}
		for i := range row {
			row[i] = strings.ReplaceAll(row[i], "`", "")
		}
		cells = append(cells, row)
	}
	return cells
}

// blocks returns the fenced blocks of a language.
func blocks(t *testing.T, file, language string) (found []string) {
	t.Helper()
	fence := regexp.MustCompile("(?ms)^ *```" + language + "\n(.*?)^ *```$")
	for _, match := range fence.FindAllStringSubmatch(string(readFile(t, file)), -1) {
		found = append(found, match[1])
	}
	if len(found) == 0 {
		t.Fatalf("%s has no block of %s", file, language)
	}
	return found
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}
