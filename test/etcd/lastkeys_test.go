package etcd_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// requests is how many reads and transactions the members have answered.
func (c *cluster) requests(t testing.TB) (n int) {
	t.Helper()
	for _, m := range c.members {
		response, err := http.Get(m.config.ClientURL + "/metrics")
		testkit.NoError(t, err)
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			name, count, _ := strings.Cut(lines.Text(), "} ")
			if strings.HasPrefix(name, "grpc_server_handled_total{") && strings.Contains(name, `"etcdserverpb.KV"`) {
				handled, err := strconv.Atoi(count)
				testkit.NoError(t, err)
				n += handled
			}
		}
	}
	return n
}

// sampleRanges fills ranges, of which the i-th has i keys, and returns them with their last keys.
// The one behind them has no room for keys.
func sampleRanges(t *testing.T, db kv.DB) (spans []kv.Range, last []string) {
	for i := range 70 {
		begin := fmt.Sprintf("last%04d", i)
		keys := []string{""}
		for j := range i {
			keys = append(keys, fmt.Sprintf("%s %04d", begin, j))
		}
		set(t, db, keys[1:]...)
		spans = append(spans, kv.PrefixRange([]byte(begin)))
		last = append(last, keys[i])
	}
	return append(spans, kv.Range{Begin: []byte("m"), End: []byte("m")}), append(last, "")
}

// The last keys of many ranges are those that loops find, with few requests.
func TestLastKeys(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	db := open(t, c.options())
	spans, want := sampleRanges(t, db)
	for _, x := range []struct {
		name     string
		before   func(kv.Tx) error
		from, to int // of the ranges
		last     map[int]string
		requests int // at most
	}{
		{"one range", nil, 7, 8, nil, 1},
		{"those that have few", nil, 0, 60, nil, 1},
		{"the same after another read", func(tx kv.Tx) error { _, err := tx.Get([]byte("x")); return err }, 0, 60, nil, 1},
		{"with own changes", func(tx kv.Tx) error {
			tx.Set([]byte("last0003 x"), nil)
			tx.Clear([]byte("last0004 0003"))
			return nil
		}, 0, 60, map[int]string{3: "last0003 x", 4: "last0004 0002"}, 2},
		{"a range without room for keys", nil, 70, 71, nil, 0},
		{"some that have more than are asked for at first", nil, 60, 70, nil, 1 + 5},
		{"these again", nil, 60, 70, nil, 1},
		{"more than go into one request", nil, 0, 71, nil, 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			var got []string
			var requests int
			err := db.Transact(t.Context(), func(tx kv.Tx) error {
				if x.before != nil {
					testkit.NoError(t, x.before(tx))
				}
				before := c.requests(t)
				keys, err := kvext.LastKeys(tx, spans[x.from:x.to], kv.Range{}, nil)
				requests = c.requests(t) - before
				for _, key := range keys {
					got = append(got, string(key))
				}
				return cmp.Or(err, errCause)
			})
			if !errors.Is(err, errCause) {
				t.Fatal(err)
			}
			wanted := slices.Clone(want)
			for i, key := range x.last {
				wanted[i] = key
			}
			if wanted = wanted[x.from:x.to]; !slices.Equal(got, wanted) {
				t.Errorf("last keys %q, want %q", got, wanted)
			}
			if requests > x.requests {
				t.Errorf("%d requests, want at most %d", requests, x.requests)
			}
		})
	}
}

// Items of many priorities go in with one read and one commit.
func TestPushMany(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	p, err := conq.OpenPriorityQueue(t.Context(), open(t, c.options()), "many", conq.String())
	testkit.NoError(t, err)
	push := func(from, n int) {
		var all []conq.Prioritized[string]
		for i := range n {
			all = append(all, conq.Prioritized[string]{Value: "x", Priority: int64(from + i)})
		}
		testkit.NoError(t, p.PushAll(t.Context(), all))
	}
	push(0, 40)
	for _, n := range []int{40, 2, 64} {
		before := c.requests(t)
		push(40, n)
		if requests := c.requests(t) - before; requests > 2 {
			t.Errorf("%d items of as many priorities took %d requests, want 2", n, requests)
		}
	}
	before := c.requests(t)
	testkit.NoError(t, p.Push(t.Context(), "x", 1000))
	if requests := c.requests(t) - before; requests > 2 {
		t.Errorf("the first item of a priority took %d requests, want 2", requests)
	}
}
