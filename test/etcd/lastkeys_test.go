package etcd_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
)

// requests is how many reads and transactions the members have answered.
func (c *cluster) requests(t testing.TB) (n int) {
	t.Helper()
	for _, m := range c.members {
		response, err := http.Get(m.config.ClientURL + "/metrics")
		must(t, err)
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			name, count, _ := strings.Cut(lines.Text(), "} ")
			if strings.HasPrefix(name, "grpc_server_handled_total{") && strings.Contains(name, `"etcdserverpb.KV"`) {
				handled, err := strconv.Atoi(count)
				must(t, err)
				n += handled
			}
		}
	}
	return n
}

// The last keys of many ranges are those that loops find, with few requests.
func testLastKeys(t *testing.T, c *cluster) {
	db := open(t, c.options())
	var spans []kv.Range
	var want []string
	for i := range 70 {
		begin := fmt.Sprintf("last%04d", i)
		last := begin + fmt.Sprintf(" %04d", i) // of so many keys, and the first has none
		var keys []string
		for j := range i + 1 {
			keys = append(keys, begin+fmt.Sprintf(" %04d", j))
		}
		if i == 0 {
			keys, last = nil, ""
		}
		set(t, db, keys...)
		spans = append(spans, kv.PrefixRange([]byte(begin)))
		want = append(want, last)
	}
	spans, want = append(spans, kv.Range{Begin: []byte("m"), End: []byte("m")}), append(want, "")
	for _, x := range []struct {
		name     string
		read     bool // something before
		own      bool // a last key was set, and another one cleared
		from, to int  // of the ranges
		requests int  // at most
	}{
		{"one range", false, false, 7, 8, 1},
		{"those that have few", false, false, 0, 60, 1},
		{"the same after another read", true, false, 0, 60, 2},
		{"with own changes", false, true, 0, 60, 2},
		{"with a range without room for keys", false, false, 70, 71, 0},
		{"some that have more than are asked for at first", false, false, 60, 70, 1 + 6},
		{"these again", false, false, 60, 70, 1},
		{"more than go into one request", false, false, 0, 70, 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			var got []string
			var requests int
			err := db.Transact(t.Context(), func(tx kv.Tx) error {
				if x.read {
					if _, err := tx.Get([]byte("before")); err != nil {
						return err
					}
				}
				if x.own {
					tx.Set([]byte("last0003 0003"), nil)
					tx.Clear([]byte("last0004 0004"))
				}
				before := c.requests(t)
				keys, err := kv.LastKeys(tx, spans[x.from:x.to], kv.Range{}, nil)
				requests = c.requests(t) - before
				got = nil
				for _, key := range keys {
					got = append(got, string(key))
				}
				return cmp.Or(err, errCause)
			})
			if !errors.Is(err, errCause) {
				t.Fatal(err)
			}
			if len(got) != x.to-x.from {
				t.Fatalf("%d keys of %d ranges", len(got), x.to-x.from)
			}
			for i, key := range got {
				wanted := want[x.from+i]
				if x.own && x.from+i == 4 {
					wanted = "last0004 0003"
				}
				if key != wanted {
					t.Errorf("last key of %q: %q, want %q", spans[x.from+i], key, wanted)
				}
			}
			if requests > x.requests {
				t.Errorf("%d requests, want at most %d", requests, x.requests)
			}
		})
	}
	testPushMany(t, c)
}

// Items of many priorities go in with one read and one commit.
func testPushMany(t *testing.T, c *cluster) {
	p, err := conq.OpenPriorityQueue(open(t, c.options()), "many", conq.String())
	must(t, err)
	push := func(from int) {
		var all []conq.Prioritized[string]
		for i := range 40 {
			all = append(all, conq.Prioritized[string]{Value: "x", Priority: int64(from + i)})
		}
		must(t, p.PushAll(t.Context(), all))
	}
	push(0)
	push(20) // what else they read is known from here on
	before := c.requests(t)
	push(40)
	if requests := c.requests(t) - before; requests > 2 {
		t.Errorf("40 items of 40 priorities took %d requests, want 2", requests)
	}
}
