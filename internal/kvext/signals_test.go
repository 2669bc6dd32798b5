package kvext

import (
	"testing"

	"github.com/conq-go/conq/kv"
)

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

// Others tells of those who have begun to wait since the last news, and of nobody else.
func TestOthers(t *testing.T) {
	var s Signals
	a, b := new(int), new(int)
	check := func(when string, others ...bool) {
		t.Helper()
		for i, who := range []any{a, b, nil} {
			if got := s.Others("x", who); got != others[i] {
				t.Errorf("%s: there are others than %d: %v", when, i, got)
			}
		}
	}
	check("nobody waits", false, false, false)
	s.WaitAs("y", b)
	check("somebody waits for something else", false, false, false)
	s.WaitAs("x", a)
	s.WaitAs("x", a)
	check("a waits", false, true, true)
	if s.WaitAs("x", b) != s.WaitAs("x", a) {
		t.Error("two who wait for a topic have two channels")
	}
	check("both wait", true, true, true)
	s.Notify("x")
	check("there was news", false, false, false)
	s.Wait("x")
	check("somebody waits", true, true, false)
	s.Close()
	check("closed", false, false, false)
	s.WaitAs("x", a)
	check("nobody waits any more", false, false, false)
}

// Of who has called Forget nothing is left, and others wait on.
func TestForget(t *testing.T) {
	var s Signals
	a, b, c := new(int), new(int), new(int)
	s.Forget("x", a) // nobody waits
	for _, order := range [][]*int{{a, b, c}, {a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a}} {
		s.WaitAs("x", a)
		s.WaitAs("x", b)
		news := s.WaitAs("x", c)
		last := order[2]
		s.Forget("x", order[0])
		if !s.Others("x", last) {
			t.Error("two wait, and one has no other")
		}
		s.Forget("x", order[1])
		s.Forget("x", order[1])
		if s.Others("x", last) || !s.Others("x", a) && last != a {
			t.Error("one waits, and has another, or others have none")
		}
		if s.WaitAs("x", last) != news || isClosed(news) {
			t.Error("who waits on has lost his channel")
		}
		s.Forget("x", last)
		if len(s.topics) != 0 || s.waiting.Load() != 0 {
			t.Errorf("%d topics are there, and %d are waited for", len(s.topics), s.waiting.Load())
		}
	}
}

// localDB and localTx have signals.
type localDB struct {
	kv.DB
	signals *Signals
}

func (db localDB) Limits() kv.Limits { return kv.Limits{} }

// sharedDB has signals for those who use it in this process.
type sharedDB struct{ localDB }

func (db sharedDB) Limits() kv.Limits { return kv.Limits{Shared: true} }

func (db localDB) Signals() *Signals { return db.signals }

type localTx struct {
	kv.Tx
	signals *Signals
}

func (tx localTx) Signals() *Signals { return tx.signals }

func TestForeign(t *testing.T) {
	var one, other Signals
	for name, c := range map[string]struct {
		db   kv.DB
		tx   kv.Tx
		want bool
	}{
		"its own":                         {localDB{nil, &one}, localTx{nil, &one}, false},
		"another":                         {localDB{nil, &one}, localTx{nil, &other}, true},
		"of a shared store":               {localDB{nil, &one}, localTx{nil, nil}, true},
		"shared":                          {localDB{nil, nil}, localTx{nil, &one}, false},
		"shared, with signals of its own": {sharedDB{localDB{nil, &one}}, localTx{nil, &other}, false},
		"both shared":                     {localDB{nil, nil}, localTx{nil, nil}, false},
		"a store that does not say":       {struct{ kv.DB }{}, localTx{nil, &one}, false},
		"a transaction that does not say": {localDB{nil, &one}, struct{ kv.Tx }{}, false},
	} {
		if got := Foreign(c.db, c.tx); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
