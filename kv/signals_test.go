package kv

import "testing"

func isClosed(news <-chan error) bool {
	select {
	case <-news:
		return true
	default:
		return false
	}
}

func TestSignals(t *testing.T) {
	var s Signals
	s.Notify("a") // nobody waits
	a, again, b := s.Wait("a"), s.Wait("a"), s.Wait("b")
	if isClosed(a) || isClosed(b) {
		t.Fatal("there is news before anybody told any")
	}
	s.Notify("a")
	if !isClosed(a) || !isClosed(again) || isClosed(b) {
		t.Error("Notify wakes all who wait for its topic, and nobody else")
	}
	if isClosed(s.Wait("a")) {
		t.Error("old news is told to those who come later")
	}
	s.Close()
	if !isClosed(b) || !isClosed(s.Wait("c")) {
		t.Error("after Close somebody still waits")
	}
	s.Close()
	if s.waiting.Load() != 0 {
		t.Errorf("%d topics are waited for", s.waiting.Load())
	}
}
