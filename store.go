package conq

import (
	"iter"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
)

// store is a queue that is read without a handle.
type store struct {
	db       kv.DB
	name     string
	priority bool // it is a priority queue
	span     kv.Range
	space    *layout.Queue
}

func newStore(db kv.DB, info Info) *store {
	items := layout.New(info.Name, info.Kind, db.Limits())
	return &store{db, info.Name, info.Kind == KindPriorityQueue, items.Items, items}
}

func (s *store) prefix() []byte                           { return s.space.Prefix() }
func (s *store) integers() int                            { return s.space.Integers }
func (s *store) integer(key []byte, i int) (int64, error) { return s.space.Integer(key, i) }
func (s *store) place(key []byte) (group, place []byte)   { return s.space.Place(key) }
func (s *store) keys(key []byte) int                      { return s.space.Keys(key) }
func (s *store) decodeError(key []byte, err error) error  { return s.space.DecodeError(key, err) }
func (s *store) payload(r kv.Reader, item kv.KeyValue) ([]byte, error) {
	return s.space.Payload(r, item)
}

// source is a queue whose staging is checked: nothing is taken.
type source struct{ *store }

func (s source) Place(key []byte) (group, place []byte) { return s.space.Place(key) }
func (s source) Keys(key []byte) int                    { return s.space.Keys(key) }

func (s source) Covered(staging.Side, []byte) []kv.Range { return nil }

func (s source) Items(kv.Reader, staging.Side, int) iter.Seq2[kv.KeyValue, error] {
	return func(func(kv.KeyValue, error) bool) {}
}
