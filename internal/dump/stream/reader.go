package stream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/conq-go/conq/internal/reads"
)

// Reader reads a stream: Queues, then Item until io.EOF for each of them, then End.
// After an error other than that each call returns it again.
type Reader struct {
	r      *bufio.Reader
	max    int
	offset int64  // of what comes next in the stream
	sum    uint32 // of what was read, checks left out
	block  []byte // what is left of it
	buf    []byte
	err    error

	queues []Queue
	listed bool
	at     int // queue under way
	item   int // of it, the one under way, from 1
	total  totals
}

// NewReader returns a reader that takes payloads of up to max bytes, or if that is 0 of
// any length. It reads ahead.
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = math.MaxInt
	}
	return &Reader{r: bufio.NewReaderSize(reads.Progress(r), 64<<10), max: max}
}

// Limit has the reader take payloads of up to max bytes from here on.
func (s *Reader) Limit(max int) { s.max = max }

// CheckHeader returns the error for bytes that no stream which this package reads begins
// with: an ErrBroken or ErrVersion, or nil. They should be HeaderSize bytes; fewer are
// a stream that was cut off.
func CheckHeader(b []byte) error {
	n := min(len(b), len(magic))
	switch {
	case len(b) == 0:
		return &Error{Reason: "it is empty"}
	case string(b[:n]) != magic[:n]:
		return &Error{Reason: "it does not begin as a dump of conq does"}
	case len(b) < HeaderSize:
		return &Error{Offset: int64(len(b)), Reason: cutOff}
	}
	version := binary.BigEndian.Uint32(b[len(magic):])
	switch {
	case version == 0:
		return &Error{Offset: int64(len(magic)), Reason: "its version is 0"}
	case version > Version:
		return fmt.Errorf("%w: the stream has version %d, this program reads up to %d", ErrVersion, version, Version)
	}
	return nil
}

const cutOff = "it is cut off here"

// Queues returns which queues the stream has. No name is there twice.
func (s *Reader) Queues() ([]Queue, error) {
	if s.err == nil && !s.listed {
		if s.err = s.start(); s.err == nil {
			s.err = s.list()
		}
		s.listed = true
	}
	return s.queues, s.err
}

// start reads what comes before the first block.
func (s *Reader) start() error {
	header := make([]byte, HeaderSize)
	n, err := io.ReadFull(s.r, header)
	if err != nil && !isEnd(err) {
		return s.failed(err)
	}
	s.offset = int64(n)
	s.sum = crc32.Update(0, castagnoli, header[:n])
	return CheckHeader(header[:n])
}

func (s *Reader) list() error {
	n, err := s.number()
	if err != nil {
		return err
	}
	names := make(map[string]bool)
	for range n {
		var q Queue
		for _, text := range []*string{&q.Kind, &q.Name} {
			b, err := s.bytes(MaxText)
			if err != nil {
				return err
			}
			if len(b) == 0 {
				return s.Broken("a queue without a kind or a name")
			}
			*text = string(b)
		}
		if names[q.Name] {
			return s.Broken("queue %.200q is there twice", q.Name)
		}
		names[q.Name] = true
		s.queues = append(s.queues, q)
	}
	return nil
}

// Item returns the next item of the queue under way, at first the first one. Behind the
// last it returns io.EOF, and then those of the next queue follow. The item belongs to
// the caller.
func (s *Reader) Item() (Item, error) {
	if _, err := s.Queues(); err != nil {
		return Item{}, err
	}
	if s.at == len(s.queues) {
		return Item{}, io.EOF
	}
	s.item++
	it, err := s.record()
	if err == io.EOF {
		s.at++
		s.item = 0
	} else if err != nil {
		s.err = err
	}
	return it, err
}

func (s *Reader) record() (it Item, err error) {
	tag, err := s.byte()
	switch {
	case err != nil:
		return Item{}, err
	case tag == endRecord:
		return Item{}, s.end()
	case tag != itemRecord:
		return Item{}, s.Broken("a record of type %d, which there is not", tag)
	}
	if it.Priority, err = s.bytes(MaxText); err != nil {
		return Item{}, err
	}
	if it.Payload, err = s.payload(); err != nil {
		return Item{}, err
	}
	s.total.items++
	s.total.bytes += uint64(len(it.Payload))
	return it, nil
}

// end reads the end of a queue and returns io.EOF.
func (s *Reader) end() error {
	n, err := s.number()
	if err != nil {
		return err
	}
	if read := uint64(s.item - 1); n != read {
		return s.Broken("the queue ends after item %d and says that it has %d", read, n)
	}
	return io.EOF
}

// End reads the end of the stream, when all queues have ended. There must be nothing
// behind it.
func (s *Reader) End() error {
	if _, err := s.Queues(); err != nil {
		return err
	}
	if s.at < len(s.queues) {
		return errUnfinished
	}
	if s.err = s.totals(); s.err == nil {
		s.err = errEnded
		return nil
	}
	return s.err
}

func (s *Reader) totals() error {
	var t totals
	for _, n := range []*uint64{&t.items, &t.bytes} {
		var err error
		if *n, err = s.number(); err != nil {
			return err
		}
	}
	if t != s.total {
		return s.Broken("it ends with %d items of %d bytes, and says that it has %d of %d",
			s.total.items, s.total.bytes, t.items, t.bytes)
	}
	if len(s.block) > 0 {
		return s.Broken("there is more behind its end")
	}
	switch _, err := s.r.ReadByte(); {
	case err == nil:
		return s.brokenAt(s.offset, "there is more behind its end")
	case err != io.EOF:
		return s.failed(err)
	}
	return nil
}

// Broken returns the error for what was read last, if the caller finds that it cannot be.
func (s *Reader) Broken(format string, args ...any) error {
	const check = 4 // of the block, which has been read
	return s.brokenAt(s.offset-check-int64(len(s.block)), format, args...)
}

func (s *Reader) brokenAt(offset int64, format string, args ...any) error {
	e := &Error{Offset: offset, Reason: fmt.Sprintf(format, args...)}
	if s.listed && s.at < len(s.queues) {
		e.Queue, e.Item = s.queues[s.at].Name, s.item
	}
	return e
}

// failed is the error for a read that failed.
func (s *Reader) failed(err error) error { return &ReadError{s.offset, err} }

func isEnd(err error) bool { return err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) }

// payload reads the payload of an item.
func (s *Reader) payload() ([]byte, error) {
	n, err := s.number()
	if err != nil {
		return nil, err
	}
	switch {
	case n > math.MaxInt:
		return nil, s.Broken("a payload of %d bytes, more than any can have", n)
	case n > uint64(s.max):
		return nil, &TooLongError{Queue: s.queues[s.at].Name, Item: s.item, Size: int(n), Limit: s.max}
	}
	return s.take(int(n))
}

// bytes reads a byte string.
func (s *Reader) bytes(max int) ([]byte, error) {
	n, err := s.number()
	if err != nil {
		return nil, err
	}
	if n > uint64(max) {
		return nil, s.Broken("a text of %d bytes, %d are allowed", n, max)
	}
	return s.take(int(n))
}

// take reads n bytes of the body. It sets aside no more than it has read, or a little.
func (s *Reader) take(n int) ([]byte, error) {
	b := make([]byte, 0, min(n, MaxBlock))
	for len(b) < n {
		if err := s.fill(); err != nil {
			return nil, err
		}
		part := s.block[:min(len(s.block), n-len(b))]
		b = append(b, part...)
		s.block = s.block[len(part):]
	}
	return b, nil
}

func (s *Reader) byte() (byte, error) {
	if err := s.fill(); err != nil {
		return 0, err
	}
	b := s.block[0]
	s.block = s.block[1:]
	return b, nil
}

func (s *Reader) number() (n uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		b, err := s.byte()
		if err != nil {
			return 0, err
		}
		if shift == 63 && b > 1 {
			break
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n, nil
		}
	}
	return 0, s.Broken("a number of more than 64 bits")
}

// fill makes sure that something is left of the block, or reads the next one.
func (s *Reader) fill() error {
	if len(s.block) > 0 {
		return nil
	}
	var length [4]byte
	if err := s.read(length[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n == 0 || n > MaxBlock {
		return s.brokenAt(s.offset, "a block of %d bytes: 1 to %d are allowed", n, MaxBlock)
	}
	if cap(s.buf) < int(n)+4 {
		s.buf = make([]byte, n+4)
	}
	read := s.buf[:n+4]
	if err := s.read(read); err != nil {
		return err
	}
	body := read[:n]
	s.sum = crc32.Update(crc32.Update(s.sum, castagnoli, length[:]), castagnoli, body)
	if check := binary.BigEndian.Uint32(read[n:]); check != s.sum {
		return s.brokenAt(s.offset, "the block that ends here has changed: its check is %08x, not %08x", s.sum, check)
	}
	s.block = body
	return nil
}

// read reads from the stream.
func (s *Reader) read(b []byte) error {
	n, err := io.ReadFull(s.r, b)
	s.offset += int64(n)
	switch {
	case err == nil:
		return nil
	case isEnd(err):
		return s.brokenAt(s.offset, cutOff)
	}
	return s.failed(err)
}
