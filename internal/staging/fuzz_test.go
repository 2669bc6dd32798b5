package staging

import (
	"bytes"
	"testing"

	"github.com/conq-go/conq/kv"
)

// FuzzKeys reads anything as each kind of key: without a panic, and what is read is what would be
// written of it.
func FuzzKeys(f *testing.F) {
	k := keys{[]byte("prefix")}
	op := bytes.Repeat([]byte{7}, opSize)
	for _, key := range [][]byte{
		k.request(3, 1, op), k.result(99, op), k.item(99, op, 2, []byte("item")), k.waiter(-1, op), k.place([]byte("p"), 99, op),
	} {
		f.Add(key[len(k.prefix):], state(2, 99))
	}
	f.Fuzz(func(t *testing.T, rest, value []byte) {
		pair := kv.KeyValue{Key: append(k.kind(0)[:len(k.prefix):len(k.prefix)], rest...), Value: value}
		if r, err := k.parseRequest(pair); err == nil {
			key := k.request(r.ticket, r.side, r.op)
			again, err := k.parseRequest(kv.KeyValue{Key: key, Value: state(r.items, r.deadline)})
			again.key = r.key
			if err != nil || again.ticket != r.ticket || again.side != r.side || !bytes.Equal(again.op, r.op) ||
				again.items != r.items || again.deadline != r.deadline {
				t.Errorf("request %+v is then %+v, %v", r, again, err)
			}
		}
		if deadline, op, item, err := k.parseResult(pair); err == nil {
			key := k.result(deadline, op)
			if item.Key != nil {
				key = k.item(deadline, op, 0, item.Key)
			}
			at, by, again, err := k.parseResult(kv.KeyValue{Key: key, Value: value})
			if err != nil || at != deadline || !bytes.Equal(by, op) || !bytes.Equal(again.Key, item.Key) || !bytes.Equal(again.Value, item.Value) {
				t.Errorf("result %d, %x with %x is then %d, %x with %x, %v", deadline, op, item.Key, at, by, again.Key, err)
			}
		}
		if id, err := k.parseWaiter(pair.Key); err == nil {
			if again, err := k.parseWaiter(k.waiter(0, id)); !bytes.Equal(again, id) || err != nil {
				t.Errorf("id %x is then %x, %v", id, again, err)
			}
		}
	})
}
