package foundationdb

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// recipeVectors are items as FoundationDB's Python binding writes those of its
// recipes, in hexadecimal.
type recipeVectors struct {
	Queue, Priority vectorItems
}

type vectorItems struct {
	Items []struct {
		Priority    int64
		Random, Key string
		Value       string `json:"value_bytes"`
		Python      string `json:"python_value"`
		Java        string `json:"java_value"`
	}
	PopMin []string `json:"pop_min_order"`
	PopMax []string `json:"pop_max_order"`
}

func readVectors(t *testing.T) (v recipeVectors) {
	t.Helper()
	text, err := os.ReadFile("testdata/recipes.json")
	testkit.NoError(t, err)
	var named struct {
		Queue    vectorItems
		Priority vectorItems `json:"priority_queue"`
	}
	testkit.NoError(t, json.Unmarshal(text, &named))
	v = recipeVectors{named.Queue, named.Priority}
	if len(v.Queue.Items) < 5 || len(v.Priority.Items) < 8 || len(v.Priority.PopMax) != len(v.Priority.Items) {
		t.Fatal("vectors are missing")
	}
	return v
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	testkit.NoError(t, err)
	return b
}

// pairs are the vectors as they are stored, in order of their keys.
func (v vectorItems) pairs(t *testing.T, java bool) (all []string) {
	t.Helper()
	for _, item := range v.Items {
		value := item.Python
		if java {
			value = item.Java
		}
		all = append(all, item.Key+" "+value)
	}
	slices.Sort(all)
	return all
}

// given reads as the same bytes each time, so that an attempt that is repeated
// makes the same key.
type given struct{ random []byte }

func (g *given) Read(b []byte) (int, error) { return copy(b, g.random), nil }

// stored returns the pairs of the queues Q and P, keys and values in hexadecimal.
func stored(t *testing.T, db kv.DB) (all []string) {
	t.Helper()
	testkit.NoError(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
		for _, prefix := range []string{"\x02P\x00", "\x02Q\x00"} {
			for pair, err := range r.Range(kv.PrefixRange([]byte(prefix)), kv.RangeOptions{}) {
				if err != nil {
					return err
				}
				all = append(all, hex.EncodeToString(pair.Key)+" "+hex.EncodeToString(pair.Value))
			}
		}
		return nil
	}))
	return all
}

// What queues write to the cluster is what FoundationDB's recipes write, byte for
// byte, and they read it.
func testVectors(t *testing.T, w world) {
	v := readVectors(t)
	for name, java := range map[string]bool{"Python": false, "Java": true} {
		codec := conq.Bytes()
		if java {
			codec = conq.Tuple[[]byte]()
		}
		t.Run(name, func(t *testing.T) {
			db := w.store(t)()
			ctx := t.Context()
			var random given
			o := conq.Options{Random: &random}
			q := known(t, func() (*conq.Queue[[]byte], error) {
				return conq.OpenQueue(db, "Q", codec, o)
			})
			p := known(t, func() (*conq.PriorityQueue[[]byte], error) {
				return conq.OpenPriorityQueue(db, "P", codec, o)
			})
			for _, item := range v.Queue.Items {
				random.random = unhex(t, item.Random)
				testkit.NoError(t, q.Enqueue(ctx, unhex(t, item.Value)))
			}
			for _, item := range v.Priority.Items {
				random.random = unhex(t, item.Random)
				testkit.NoError(t, p.Push(ctx, unhex(t, item.Value), item.Priority))
			}
			want := append(v.Priority.pairs(t, java), v.Queue.pairs(t, java)...)
			if got := stored(t, db); !slices.Equal(got, want) {
				t.Fatalf("stored is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for _, item := range v.Queue.Items {
				got, err := q.Dequeue(ctx)
				if testkit.NoError(t, err); hex.EncodeToString(got) != item.Value {
					t.Errorf("dequeued %x, want %s", got, item.Value)
				}
			}
			for _, want := range v.Priority.PopMin {
				got, err := p.PopMin(ctx)
				if testkit.NoError(t, err); hex.EncodeToString(got) != want {
					t.Errorf("popped %x, want %s", got, want)
				}
			}
			if got := stored(t, db); len(got) > 0 {
				t.Errorf("left is %q", got)
			}
			known(t, func() (struct{}, error) {
				return struct{}{}, db.Transact(ctx, func(tx kv.Tx) error {
					for _, pair := range v.Priority.pairs(t, java) {
						key, value, _ := strings.Cut(pair, " ")
						tx.Set(unhex(t, key), unhex(t, value))
					}
					return nil
				})
			})
			for _, want := range v.Priority.PopMax {
				got, err := p.PopMax(ctx)
				if testkit.NoError(t, err); hex.EncodeToString(got) != want {
					t.Errorf("popped %x from the other end, want %s", got, want)
				}
			}
		})
	}
}
