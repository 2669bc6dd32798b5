package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

// An item is a header and random bytes:
//
//	0   8  number of the item in its phase, big-endian
//	8   2  number of its producer
//	10  4  priority
//	14  2  0
//	16     noise, which depends on the number
const headerSize = 16

const noiseSize = 1 << 20

// noise does not compress. Items take windows of it that do not overlap, until
// after so many that no system looks for repetitions that far.
func newNoise(payload int) []byte {
	noise := make([]byte, noiseSize+payload)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise) // never fails
	return noise
}

// header is what an item tells of itself.
type header struct {
	number   int
	producer int
	priority int
}

// items makes the items of a phase and checks that each comes out once, and in
// order.
type items struct {
	noise   []byte
	payload int
	seen    []atomic.Uint64 // a bit an item
	taken   atomic.Int64
}

func newItems(noise []byte, payload, most int) *items {
	return &items{noise: noise, payload: payload, seen: make([]atomic.Uint64, most/64+1)}
}

func (s *items) window(number int) []byte {
	n := s.payload - headerSize
	at := 0
	if n > 0 {
		at = number % (noiseSize/n + 1) * n % noiseSize
	}
	return s.noise[at : at+n]
}

// write makes an item in b, which is as long as a payload.
func (s *items) write(b []byte, h header) {
	binary.BigEndian.PutUint64(b, uint64(h.number))
	binary.BigEndian.PutUint16(b[8:], uint16(h.producer))
	binary.BigEndian.PutUint32(b[10:], uint32(h.priority))
	binary.BigEndian.PutUint16(b[14:], 0)
	copy(b[headerSize:], s.window(h.number))
}

// read returns the header of an item that has not been read before, or says what
// is wrong with it.
func (s *items) read(b []byte) (header, error) {
	if len(b) != s.payload {
		return header{}, fmt.Errorf("an item of %d bytes came out; they went in with %d", len(b), s.payload)
	}
	number := binary.BigEndian.Uint64(b)
	if number/64 >= uint64(len(s.seen)) || !bytes.Equal(b[headerSize:], s.window(int(number))) {
		return header{}, fmt.Errorf("an item came out that did not go in: %x", b[:headerSize])
	}
	if bit := uint64(1) << (number % 64); s.seen[number/64].Or(bit)&bit != 0 {
		return header{}, fmt.Errorf("item %d came out twice", number)
	}
	s.taken.Add(1)
	return header{
		number: int(number), producer: int(binary.BigEndian.Uint16(b[8:])), priority: int(binary.BigEndian.Uint32(b[10:])),
	}, nil
}

// complete returns an error unless the items 0 to n-1 have come out.
func (s *items) complete(n int) error {
	if got := s.taken.Load(); got != int64(n) {
		return fmt.Errorf("%d items came out; %d went in", got, n)
	}
	for i := range n { // as many, but are they the same?
		if s.seen[i/64].Load()&(1<<(i%64)) == 0 {
			return fmt.Errorf("item %d did not come out, another did that never went in", i)
		}
	}
	return nil
}

// sequence checks the order in which one consumer gets items. Whatever the others
// do, those of one producer come to it in the order in which they were put, and
// while nobody puts any, priorities do not fall.
type sequence struct {
	order    order
	draining bool
	last     map[[2]int]int // number of the last item by producer and priority
	priority int
}

func newSequence(o order, draining bool) *sequence {
	return &sequence{order: o, draining: draining, last: map[[2]int]int{}}
}

func (s *sequence) check(h header) error {
	if (s.order == byPriority || s.order == byPriorityFIFO) && s.draining {
		if h.priority < s.priority {
			return fmt.Errorf("an item of priority %d came out after one of %d", h.priority, s.priority)
		}
		s.priority = h.priority
	}
	if s.order != fifo && s.order != byPriorityFIFO {
		return nil
	}
	key := [2]int{h.producer, h.priority}
	if last, some := s.last[key]; some && h.number < last {
		return fmt.Errorf("item %d came out after item %d, which its producer put later", h.number, last)
	}
	s.last[key] = h.number
	return nil
}
