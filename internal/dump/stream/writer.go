package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// blockSize is how many bytes of the body the writer puts in a block.
const blockSize = 64 << 10

// Writer writes a stream. After an error each call returns it again.
type Writer struct {
	w     io.Writer
	block []byte // length, not known yet, and what there is of the body
	sum   uint32 // of what was written, checks left out
	err   error

	left  int // queues that have not ended
	items int // of the queue under way
	total totals
}

type totals struct{ items, bytes uint64 }

// NewWriter returns the writer of a stream with the given queues. Nothing is written
// before there is a block of it.
func NewWriter(w io.Writer, queues []Queue) *Writer {
	s := &Writer{w: w, left: len(queues)}
	header := binary.BigEndian.AppendUint32([]byte(magic), Version)
	s.sum = crc32.Update(0, castagnoli, header)
	s.block = make([]byte, 4, 4+blockSize+4)
	s.write(header)
	s.number(uint64(len(queues)))
	for _, q := range queues {
		if s.err == nil && (q.Kind == "" || q.Name == "" || max(len(q.Kind), len(q.Name)) > MaxText) {
			s.err = fmt.Errorf("stream: queue %.200q of kind %.200q: both must have 1 to %d bytes", q.Name, q.Kind, MaxText)
		}
		s.bytes([]byte(q.Kind))
		s.bytes([]byte(q.Name))
	}
	return s
}

var (
	errNoQueue    = errors.New("stream: all queues have ended")
	errUnfinished = errors.New("stream: not all queues have ended")
	errEnded      = errors.New("stream: it has ended")
)

// Item adds an item to the queue under way, at first the first one.
func (s *Writer) Item(it Item) error {
	if s.err == nil && s.left == 0 {
		s.err = errNoQueue
	}
	if s.err == nil && len(it.Priority) > MaxText {
		s.err = fmt.Errorf("stream: priority of %d bytes, %d are allowed", len(it.Priority), MaxText)
	}
	s.add([]byte{itemRecord})
	s.bytes(it.Priority)
	s.bytes(it.Payload)
	s.items++
	s.total.items++
	s.total.bytes += uint64(len(it.Payload))
	return s.err
}

// EndQueue ends the queue under way, and goes on to the next.
func (s *Writer) EndQueue() error {
	if s.err == nil && s.left == 0 {
		s.err = errNoQueue
	}
	s.add([]byte{endRecord})
	s.number(uint64(s.items))
	s.items = 0
	s.left--
	return s.err
}

// End ends the stream, when all queues have ended. Without it the stream is not whole.
func (s *Writer) End() error {
	if s.err == nil && s.left > 0 {
		s.err = errUnfinished
	}
	s.number(s.total.items)
	s.number(s.total.bytes)
	s.flush()
	if s.err != nil {
		return s.err
	}
	s.err = errEnded
	return nil
}

func (s *Writer) number(n uint64) { s.add(binary.AppendUvarint(nil, n)) }

func (s *Writer) bytes(b []byte) {
	s.number(uint64(len(b)))
	s.add(b)
}

// add appends to the body.
func (s *Writer) add(b []byte) {
	for len(b) > 0 && s.err == nil {
		n := min(len(b), 4+blockSize-len(s.block))
		s.block = append(s.block, b[:n]...)
		if b = b[n:]; len(s.block) == 4+blockSize {
			s.flush()
		}
	}
}

// flush writes the block that is there, if there is anything in it.
func (s *Writer) flush() {
	if s.err != nil || len(s.block) == 4 {
		return
	}
	binary.BigEndian.PutUint32(s.block, uint32(len(s.block)-4))
	s.sum = crc32.Update(s.sum, castagnoli, s.block)
	s.write(binary.BigEndian.AppendUint32(s.block, s.sum))
	s.block = s.block[:4]
}

// write does not trust a writer that has written less than it should, and says nothing.
func (s *Writer) write(b []byte) {
	n, err := s.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	s.err = err
}
