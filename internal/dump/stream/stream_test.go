package stream

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/conq-go/conq/internal/testkit"
)

// content is what a stream holds.
type content struct {
	Queues []Queue
	Items  [][]Item
}

func (c content) write(w io.Writer) error {
	s := NewWriter(w, c.Queues)
	for i := range c.Queues {
		for _, it := range c.Items[i] {
			if err := s.Item(it); err != nil {
				return err
			}
		}
		if err := s.EndQueue(); err != nil {
			return err
		}
	}
	return s.End()
}

func (c content) bytes(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	testkit.NoError(t, c.write(&b))
	return b.Bytes()
}

// read returns what could be read, with the error that ended it.
func read(r io.Reader, max int) (c content, err error) {
	s := NewReader(r, max)
	if c.Queues, err = s.Queues(); err != nil {
		return c, err
	}
	for range c.Queues {
		var items []Item
		for {
			it, err := s.Item()
			if err == io.EOF {
				break
			}
			if err != nil {
				c.Items = append(c.Items, items)
				return c, err
			}
			items = append(items, it)
		}
		c.Items = append(c.Items, items)
	}
	return c, s.End()
}

func item(priority, payload string) Item { return Item{[]byte(priority), []byte(payload)} }

var sample = content{
	[]Queue{{"queue", "a"}, {"queue", "empty"}, {"priority queue", "é\n\""}},
	[][]Item{{item("", "one"), item("", ""), item("", "three")}, nil, {item("\x14", "x"), item("\x15\x01", "\x00\xff")}},
}

func TestRoundTrip(t *testing.T) {
	big := content{[]Queue{{"queue", strings.Repeat("n", MaxText)}}, [][]Item{nil}}
	for i := range 40 {
		big.Items[0] = append(big.Items[0], item(strings.Repeat("p", i), strings.Repeat("x", i*i*200+i)))
	}
	for name, c := range map[string]content{
		"nothing": {}, "sample": sample, "many blocks": big,
		"longest priority":    {[]Queue{{"k", "n"}}, [][]Item{{item(strings.Repeat("p", MaxText), "")}}},
		"a block to the byte": {[]Queue{{"k", "n"}}, [][]Item{{item("", strings.Repeat("x", blockSize-13))}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.bytes(t)
			for how, r := range map[string]io.Reader{
				"whole": bytes.NewReader(b), "by byte": iotest.OneByteReader(bytes.NewReader(b)),
				"with EOF": iotest.DataErrReader(bytes.NewReader(b)),
			} {
				got, err := read(r, 0)
				if err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				if !reflect.DeepEqual(got, c) {
					t.Fatalf("%s: read %.300v", how, got)
				}
			}
		})
	}
}

// Wherever a block ends, and however long blocks are, the items are the same.
func TestBlockSizes(t *testing.T) {
	for less := range 32 {
		c := content{[]Queue{{"k", "n"}}, [][]Item{{item("", strings.Repeat("x", blockSize-less))}}}
		got, err := read(bytes.NewReader(c.bytes(t)), 0)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("payload of %d bytes: %v", blockSize-less, err)
		}
	}
	c := content{[]Queue{{"k", "n"}}, [][]Item{{item("", strings.Repeat("x", 2*MaxBlock))}}}
	for _, size := range []int{1000, MaxBlock} {
		got, err := read(bytes.NewReader(framed(body(c.bytes(t)), size)), 0)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("blocks of %d bytes: %v", size, err)
		}
	}
}

// body is what the blocks of a stream hold.
func body(whole []byte) (body []byte) {
	for _, block := range blocks(whole)[1:] {
		body = append(body, block[4:len(block)-4]...)
	}
	return body
}

// The bytes are those that the documentation of the package says.
func TestBytes(t *testing.T) {
	c := content{[]Queue{{"k", "q"}}, [][]Item{{item("p", "xy")}}}
	body := "01" + "016b" + "0171" + "01" + "0170" + "027879" + "00" + "01" + "01" + "02"
	want, err := hex.DecodeString("89636f6e710d0a1a0a" + "00000001" + "0000000f" + body)
	testkit.NoError(t, err)
	want = binary.BigEndian.AppendUint32(want, crc32.Checksum(want, crc32.MakeTable(crc32.Castagnoli)))
	if got := c.bytes(t); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

// prefix tells whether all that was read is right.
func prefix(got, of content) bool {
	if len(got.Queues) == 0 {
		return true
	}
	if !reflect.DeepEqual(got.Queues, of.Queues) || len(got.Items) > len(of.Items) {
		return false
	}
	for i, items := range got.Items {
		if len(items) > len(of.Items[i]) {
			return false
		}
		for j, it := range items {
			if !reflect.DeepEqual(it, of.Items[i][j]) {
				return false
			}
		}
	}
	return true
}

// A stream that was cut off anywhere is an error that says where.
func TestCutOff(t *testing.T) {
	whole := sample.bytes(t)
	for n := range whole {
		got, err := read(bytes.NewReader(whole[:n]), 0)
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrBroken) {
			t.Fatalf("cut off at %d: error %v", n, err)
		}
		if e.Offset != int64(n) && n > len(magic) {
			t.Fatalf("cut off at %d: error %v", n, err)
		}
		if !prefix(got, sample) {
			t.Fatalf("cut off at %d: read %v", n, got)
		}
		if n < HeaderSize && !errors.Is(CheckHeader(whole[:n]), ErrBroken) {
			t.Fatalf("cut off at %d: CheckHeader: %v", n, CheckHeader(whole[:n]))
		}
	}
	all := body(whole)
	for n := range all { // between blocks
		got, err := read(bytes.NewReader(framed(all[:n], 1)), 0)
		wrong := len(got.Queues) == len(sample.Queues) && !prefix(got, sample)
		if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), cutOff) || wrong {
			t.Fatalf("a body that was cut off at %d: error %v, read %v", n, err, got)
		}
	}
}

// After an error each call returns it again, though it could read on.
func TestErrorStays(t *testing.T) {
	for name, stream := range map[string][]byte{
		"header": []byte("no stream"),
		"list":   framed([]byte("\x01\x00\x01q\x00\x00\x00\x00"), MaxBlock),
		"record": framed([]byte("\x01\x01k\x01q\x02\x00\x00\x00\x00"), MaxBlock),
	} {
		s := NewReader(bytes.NewReader(stream), 0)
		_, err := s.Item()
		_, item := s.Item()
		_, list := s.Queues()
		if !errors.Is(err, ErrBroken) || item != err || list != err || s.End() != err {
			t.Errorf("%s: %v, then %v, %v and %v", name, err, item, list, s.End())
		}
	}
}

// A stream does not end before its queues, and ends once.
func TestEnd(t *testing.T) {
	s := NewReader(bytes.NewReader(sample.bytes(t)), 0)
	items := 0
	for range sample.Queues {
		if err := s.End(); err == nil {
			t.Fatal("it ends before its queues")
		}
		for ; ; items++ {
			if _, err := s.Item(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Item(); err != io.EOF || items != 5 {
		t.Errorf("behind %d items: error %v", items, err)
	}
	testkit.Check(t, s.End())
	if err := s.End(); err != errEnded {
		t.Errorf("it ends again: error %v", err)
	}
}

// Any byte that has changed, is missing or is there twice is an error, and no wrong
// item is read before it.
func TestDamage(t *testing.T) {
	whole := sample.bytes(t)
	for i := range whole {
		for name, damaged := range map[string][]byte{
			"changed":  append(append(bytes.Clone(whole[:i]), whole[i]^0x01), whole[i+1:]...),
			"inverted": append(append(bytes.Clone(whole[:i]), ^whole[i]), whole[i+1:]...),
			"missing":  append(bytes.Clone(whole[:i]), whole[i+1:]...),
			"twice":    append(bytes.Clone(whole[:i+1]), whole[i:]...),
		} {
			got, err := read(bytes.NewReader(damaged), 0)
			if !errors.Is(err, ErrBroken) && !errors.Is(err, ErrVersion) {
				t.Fatalf("byte %d %s: error %v", i, name, err)
			}
			if !prefix(got, sample) {
				t.Fatalf("byte %d %s: read %v", i, name, got)
			}
		}
	}
}

// blocks returns the parts of a stream: its header, and each block.
func blocks(whole []byte) (parts [][]byte) {
	parts = append(parts, whole[:HeaderSize])
	for rest := whole[HeaderSize:]; len(rest) > 0; {
		n := 4 + binary.BigEndian.Uint32(rest) + 4
		parts = append(parts, rest[:n])
		rest = rest[n:]
	}
	return parts
}

// Whole blocks that are missing, repeated or in another order are noticed, though each
// is as it was written. So is one of another stream.
func TestBlocks(t *testing.T) {
	var c content
	c.Queues, c.Items = []Queue{{"queue", "q"}}, make([][]Item, 1)
	for i := range 5 * blockSize / 16 {
		c.Items[0] = append(c.Items[0], item("", fmt.Sprintf("%014d", i)))
	}
	p := blocks(c.bytes(t))
	if len(p) != 7 {
		t.Fatalf("%d parts", len(p))
	}
	c.Items[0][0].Payload[0] = 'x'
	other := blocks(c.bytes(t))
	for name, order := range map[string][][]byte{
		"missing":  {p[0], p[1], p[3], p[4], p[5], p[6]},
		"repeated": {p[0], p[1], p[2], p[2], p[3], p[4], p[5], p[6]},
		"swapped":  {p[0], p[1], p[3], p[2], p[4], p[5], p[6]},
		"mixed":    {p[0], p[1], other[2], p[3], p[4], p[5], p[6]},
	} {
		_, err := read(bytes.NewReader(bytes.Join(order, nil)), 0)
		if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "has changed") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// framed makes a stream of a body, right or not.
func framed(body []byte, size int) []byte {
	out := binary.BigEndian.AppendUint32([]byte(magic), Version)
	covered := bytes.Clone(out)
	for len(body) > 0 {
		n := min(size, len(body))
		block := append(binary.BigEndian.AppendUint32(nil, uint32(n)), body[:n]...)
		covered = append(covered, block...)
		out = append(out, block...)
		out = binary.BigEndian.AppendUint32(out, crc32.Checksum(covered, castagnoli))
		body = body[n:]
	}
	return out
}

// What is wrong although all checks are right is an error that says what and where.
func TestBadBody(t *testing.T) {
	const q = "\x01\x01k\x01q" // one queue
	for _, c := range []struct{ body, want string }{
		{"\x01\x00\x01q", "at byte 19: a queue without a kind or a name"},
		{"\x02\x01k\x01q\x01k\x01q", `queue "q" is there twice`},
		{"\x01\x01k\xff\xff\xff\xff\x0f", "a text of 4294967295 bytes, 65536 are allowed"},
		{q + "\x02", `at byte 23, item 1 of queue "q": a record of type 2, which there is not`},
		{q + "\x01\x00\x01a\x00\x02\x01\x01", `item 2 of queue "q": the queue ends after item 1 and says that it has 2`},
		{q + "\x01\x00\x01a\x00\x01\x02\x01", "it ends with 1 items of 1 bytes, and says that it has 2 of 1"},
		{q + "\x01\x00\x01a\x00\x01\x01\x02", "it ends with 1 items of 1 bytes, and says that it has 1 of 2"},
		{q + "\x00\x00\x00\x00m", "there is more behind its end"},
		{q + "\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "a number of more than 64 bits"},
		{q + "\x01\x00" + string(binary.AppendUvarint(nil, math.MaxInt)) + "abc", "cut off here"},
		{q + "\x01\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", `item 1 of queue "q": a payload of 9223372036854775808 bytes, more than any can have`},
		{q + "\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a payload of 18446744073709551615 bytes"},
		{q + "\x01\x00\x05abc", `item 1 of queue "q": it is cut off here`},
	} {
		_, err := read(bytes.NewReader(framed([]byte(c.body), MaxBlock)), 0)
		if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %s", c.body, err, c.want)
		}
	}
	for _, length := range []uint32{0, MaxBlock + 1, 1 << 31} {
		b := binary.BigEndian.AppendUint32(framed(nil, 1), length)
		_, err := read(io.MultiReader(bytes.NewReader(b), zeros{}), 0)
		want := fmt.Sprintf("at byte 17: a block of %d bytes: 1 to 1048576 are allowed", length)
		if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), want) {
			t.Errorf("block of %d: error %v", length, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestHeader(t *testing.T) {
	whole := sample.bytes(t)
	newer := bytes.Clone(whole)
	newer[len(magic)+3] = 9
	older := bytes.Clone(whole)
	older[len(magic)+3] = 0
	for _, c := range []struct {
		input []byte
		err   error
		want  string
	}{
		{nil, ErrBroken, "it is empty"},
		{[]byte("hello\n"), ErrBroken, "at byte 0: it does not begin as a dump of conq does"},
		{bytes.ReplaceAll(whole, []byte("\r\n"), []byte("\n")), ErrBroken, "does not begin"},
		{older, ErrBroken, "its version is 0"},
		{newer, ErrVersion, "the stream has version 9, this program reads up to 1"},
	} {
		_, err := read(bytes.NewReader(c.input), 0)
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: error %v, want %s", c.input, err, c.want)
		}
		if got := CheckHeader(c.input[:min(len(c.input), HeaderSize)]); got == nil || got.Error() != err.Error() {
			t.Errorf("%.20q: CheckHeader: %v, want %v", c.input, got, err)
		}
	}
	testkit.Check(t, CheckHeader(whole[:HeaderSize]))
}

// A payload over the reader's limit is an error before it is read.
func TestTooLong(t *testing.T) {
	c := content{[]Queue{{"queue", "q"}}, [][]Item{{item("", "four"), item("", "five5")}}}
	got, err := read(bytes.NewReader(c.bytes(t)), 4)
	var e *TooLongError
	if !errors.As(err, &e) || !errors.Is(err, ErrTooLong) || *e != (TooLongError{"q", 2, 5, 4}) || len(got.Items[0]) != 1 {
		t.Errorf("error %v, read %v", err, got)
	}
}

// Errors of the reader below come through, and are not taken for a broken stream.
func TestReadFails(t *testing.T) {
	broken := errors.New("disk is on fire")
	whole := sample.bytes(t)
	for n := range len(whole) + 1 {
		s := NewReader(io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken)), 0)
		for {
			if _, err := s.Queues(); err != nil {
				break
			}
			if _, err := s.Item(); err != nil && (err != io.EOF || s.at == len(s.queues)) {
				break
			}
		}
		err := s.End()
		if !errors.Is(err, broken) || errors.Is(err, ErrBroken) {
			t.Fatalf("after %d bytes: error %v", n, err)
		}
		if again := s.End(); again != err {
			t.Fatalf("after %d bytes: error %v, then %v", n, err, again)
		}
	}
}

// limited fails when so many bytes are written.
type limited struct{ left int }

var errFull = errors.New("full")

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// short writes less than it should when so many bytes are written, without an error.
type short struct{ limited }

func (s *short) Write(b []byte) (int, error) {
	n, _ := s.limited.Write(b)
	return n, nil
}

func TestWriterErrors(t *testing.T) {
	size := len(sample.bytes(t))
	for n := range size {
		if err := sample.write(&limited{n}); !errors.Is(err, errFull) {
			t.Fatalf("room for %d of %d bytes: error %v", n, size, err)
		}
		if err := sample.write(&short{limited{n}}); !errors.Is(err, io.ErrShortWrite) {
			t.Fatalf("room for %d of %d bytes, and no error of the writer: error %v", n, size, err)
		}
	}
	for name, misuse := range map[string]func(*Writer) error{
		"no queue":    func(s *Writer) error { s.EndQueue(); return s.Item(item("", "x")) },
		"ended twice": func(s *Writer) error { s.EndQueue(); return s.EndQueue() },
		"unfinished":  func(s *Writer) error { return s.End() },
		"priority":    func(s *Writer) error { return s.Item(item(strings.Repeat("x", MaxText+1), "")) },
		"after End":   func(s *Writer) error { s.EndQueue(); s.End(); return s.End() },
	} {
		if misuse(NewWriter(io.Discard, []Queue{{"k", "n"}})) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, q := range []Queue{{"", "n"}, {"k", ""}, {"k", strings.Repeat("n", MaxText+1)}} {
		if NewWriter(io.Discard, []Queue{q}).EndQueue() == nil {
			t.Errorf("queue %.20q is taken", q)
		}
	}
}
