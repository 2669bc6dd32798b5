package queues

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// vectors are items as FoundationDB's recipes write them, made with its Python
// binding.
type vectors struct {
	Queue    vectorQueue `json:"queue"`
	Priority struct {
		vectorQueue
		PopMin []string `json:"pop_min_order"`
		PopMax []string `json:"pop_max_order"`
	} `json:"priority_queue"`
}

type vectorQueue struct {
	Subspace []string     `json:"subspace"`
	Items    []vectorItem `json:"items"`
}

type vectorItem struct {
	Index    int64  `json:"index"`
	Priority int64  `json:"priority"`
	Random   string `json:"random"`
	Value    string `json:"value_bytes"`
	Key      string `json:"key"`
	Python   string `json:"python_value"`
	Java     string `json:"java_value"`
}

func loadVectors(t *testing.T) (v vectors) {
	t.Helper()
	b, err := os.ReadFile("testdata/recipes.json")
	testkit.NoError(t, err)
	testkit.NoError(t, json.Unmarshal(b, &v))
	testkit.Equal(t, "there are items", len(v.Queue.Items) > 0 && len(v.Priority.Items) > 0, true)
	return v
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	testkit.NoError(t, err)
	return b
}

// forms are the two forms of values: the codec, and how the vectors have it.
var forms = map[string]struct {
	codec  conq.Codec[[]byte]
	stored func(vectorItem) string
}{
	"Bytes": {conq.Bytes(), func(i vectorItem) string { return i.Python }},
	"Tuple": {conq.Tuple[[]byte](), func(i vectorItem) string { return i.Java }},
}

// raw returns the items as pairs, in the order of the vectors.
func (q vectorQueue) raw(t *testing.T, stored func(vectorItem) string) (pairs []kv.KeyValue) {
	for _, item := range q.Items {
		pairs = append(pairs, kv.KeyValue{Key: unhex(t, item.Key), Value: unhex(t, stored(item))})
	}
	return pairs
}

// random returns the random elements of the keys, one after another.
func (q vectorQueue) random(t *testing.T) io.Reader {
	var all []byte
	for _, item := range q.Items {
		all = append(all, unhex(t, item.Random)...)
	}
	return bytes.NewReader(all)
}

// A queue reads what others have written.
func TestReadVectors(t *testing.T) {
	v := loadVectors(t)
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{})
			testkit.Write(t, db, v.Queue.raw(t, form.stored)...)
			testkit.Write(t, db, v.Priority.raw(t, form.stored)...)
			q, err := conq.OpenQueue(t.Context(), db, v.Queue.Subspace[0], form.codec)
			testkit.NoError(t, err)
			for _, item := range v.Queue.Items {
				b, err := q.Dequeue(t.Context())
				testkit.NoError(t, err)
				testkit.Equal(t, "item", hex.EncodeToString(b), item.Value)
			}
			p, err := conq.OpenPriorityQueue(t.Context(), db, v.Priority.Subspace[0], form.codec)
			testkit.NoError(t, err)
			for _, want := range v.Priority.PopMin {
				b, err := p.PopMin(t.Context())
				testkit.NoError(t, err)
				testkit.Equal(t, "lowest", hex.EncodeToString(b), want)
			}
			testkit.Write(t, db, v.Priority.raw(t, form.stored)...)
			for _, want := range v.Priority.PopMax {
				b, err := p.PopMax(t.Context())
				testkit.NoError(t, err)
				testkit.Equal(t, "highest", hex.EncodeToString(b), want)
			}
			testkit.Equal(t, "pairs left", len(testkit.Stored(t, db)), 0)
		})
	}
}

// A queue writes what others would, one by one and in a batch.
func TestWriteVectors(t *testing.T) {
	v := loadVectors(t)
	for name, form := range forms {
		for _, batch := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				db := testkit.NewMemory(t, kv.Limits{})
				q, err := conq.OpenQueue(t.Context(), db, v.Queue.Subspace[0], form.codec, conq.Options{Random: v.Queue.random(t)})
				testkit.NoError(t, err)
				p, err := conq.OpenPriorityQueue(t.Context(), db, v.Priority.Subspace[0], form.codec, conq.Options{Random: v.Priority.random(t)})
				testkit.NoError(t, err)
				var values [][]byte
				var prioritized []conq.Prioritized[[]byte]
				for _, item := range v.Queue.Items {
					values = append(values, unhex(t, item.Value))
				}
				for _, item := range v.Priority.Items {
					prioritized = append(prioritized, conq.Prioritized[[]byte]{Value: unhex(t, item.Value), Priority: item.Priority})
				}
				if batch {
					testkit.NoError(t, q.EnqueueAll(t.Context(), values))
					testkit.NoError(t, p.PushAll(t.Context(), prioritized))
				} else {
					for _, v := range values {
						testkit.NoError(t, q.Enqueue(t.Context(), v))
					}
					for _, v := range prioritized {
						testkit.NoError(t, p.Push(t.Context(), v.Value, v.Priority))
					}
				}
				samePairs(t, testkit.Stored(t, db), append(v.Priority.raw(t, form.stored), v.Queue.raw(t, form.stored)...))
			})
		}
	}
}

// samePairs compares pairs whatever their order.
func samePairs(t *testing.T, got, want []kv.KeyValue) {
	t.Helper()
	testkit.Equal(t, "number of pairs", len(got), len(want))
	have := make(map[string]string)
	for _, pair := range got {
		have[string(pair.Key)] = string(pair.Value)
	}
	for _, pair := range want {
		value, ok := have[string(pair.Key)]
		if !ok {
			t.Fatalf("key %x was not written", pair.Key)
		}
		testkit.Equal(t, "value", hex.EncodeToString([]byte(value)), hex.EncodeToString(pair.Value))
	}
}

// The catalogue and a split payload lie where the format says, byte for byte.
func TestKeySpace(t *testing.T) {
	db := &testkit.Hooked{DB: testkit.NewMemory(t, kv.Limits{}), Bounds: kv.Limits{Value: 4}}
	p, err := conq.OpenPriorityQueue(t.Context(), db, "P", conq.Bytes(), conq.Options{Random: bytes.NewReader(make([]byte, 20))})
	testkit.NoError(t, err)
	testkit.NoError(t, p.Push(t.Context(), []byte("0123456789"), -2))
	const system = "01636f6e7100"                                               // ("conq"), as bytes
	fields := "13fd" + "14" + "01" + strings.Repeat("00ff", 20) + "00" + "1503" // -2, 0, random, 3
	piece := system + "02706965636500" + "025000" + fields                      // "piece", "P"
	want := map[string]string{
		"025000" + fields:           hex.EncodeToString([]byte("0123")),
		piece + "1501":              hex.EncodeToString([]byte("4567")),
		piece + "1502":              hex.EncodeToString([]byte("89")),
		system + "02666f726d617400": "1501", // "format" -> (1)
		// "queue", "P" -> ("priority queue", 1)
		system + "02717565756500" + "025000": "02" + hex.EncodeToString([]byte("priority queue")) + "00" + "1501",
	}
	var pairs []kv.KeyValue
	for key, value := range want {
		pairs = append(pairs, kv.KeyValue{Key: unhex(t, key), Value: unhex(t, value)})
	}
	samePairs(t, testkit.Everything(t, db), pairs)
	b, err := p.PopMin(t.Context())
	testkit.NoError(t, err)
	testkit.Equal(t, "payload", string(b), "0123456789")
	testkit.Equal(t, "pairs left", len(testkit.Stored(t, db)), 0)
}
