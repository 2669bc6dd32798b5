package main

import (
	"strings"
	"testing"
)

func TestItems(t *testing.T) {
	for _, payload := range []int{16, 17, 128, 1 << 20} {
		s := newItems(newNoise(payload), payload, 5)
		for number := range 5 {
			b := make([]byte, payload)
			want := header{number: number, producer: 300 + number, priority: 70_000 * number}
			s.write(b, want)
			if got, err := s.read(b); err != nil || got != want {
				t.Errorf("%d bytes: %+v, %v; want %+v", payload, got, err, want)
			}
		}
		if err := s.complete(5); err != nil {
			t.Error(err)
		}
		if err := s.complete(6); err == nil || err.Error() != "5 items came out; 6 went in" {
			t.Errorf("got %v", err)
		}
	}
}

func TestWrongItems(t *testing.T) {
	const payload = 64
	s := newItems(newNoise(payload), payload, 3)
	item := func(number int) []byte {
		b := make([]byte, payload)
		s.write(b, header{number: number})
		return b
	}
	changed := item(1)
	changed[payload-1]++
	if _, err := s.read(item(0)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		value []byte
		want  string
	}{
		{item(0), "item 0 came out twice"},
		{changed, "that did not go in"},
		{item(1000), "that did not go in"},
		{item(1)[:payload-1], "an item of 63 bytes came out; they went in with 64"},
		{nil, "an item of 0 bytes"},
	} {
		if _, err := s.read(c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if _, err := s.read(item(2)); err != nil {
		t.Fatal(err)
	}
	if err := s.complete(2); err == nil || !strings.Contains(err.Error(), "item 1 did not come out") {
		t.Errorf("got %v", err)
	}
}

func TestSequence(t *testing.T) {
	type h = header
	for _, c := range []struct {
		order    order
		draining bool
		seen     []header
		ok       bool
	}{
		{fifo, true, []h{{1, 0, 0}, {3, 1, 0}, {2, 0, 0}, {4, 1, 0}}, true}, // of two producers
		{fifo, false, []h{{2, 0, 0}, {1, 0, 0}}, false},
		{unordered, true, []h{{2, 0, 5}, {1, 0, 1}}, true},
		{byPriority, true, []h{{2, 0, 1}, {1, 0, 1}, {3, 0, 2}}, true},
		{byPriority, true, []h{{2, 0, 2}, {3, 0, 1}}, false},
		{byPriority, false, []h{{2, 0, 2}, {3, 0, 1}}, true}, // which was put later
		{byPriorityFIFO, true, []h{{5, 0, 1}, {1, 0, 2}, {6, 0, 2}}, true},
		{byPriorityFIFO, true, []h{{2, 0, 1}, {1, 0, 1}}, false},
		{byPriorityFIFO, false, []h{{2, 0, 1}, {1, 0, 1}}, false},
	} {
		s := newSequence(c.order, c.draining)
		var err error
		for _, one := range c.seen {
			if err == nil {
				err = s.check(one)
			}
		}
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
