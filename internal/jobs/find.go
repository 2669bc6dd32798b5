package jobs

import (
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// FindKey is the key of the name of the queue that has a findable job.
func FindKey(id int64) []byte { return withInts(findSpace(), id) }

func findSpace() []byte { return tuple.AppendString(tuple.AppendBytes(nil, []byte("conq")), "job") }

// Find returns the queue of a findable job, or ErrNotFound.
func Find(r kv.Reader, id int64) (queue string, err error) {
	key := FindKey(id)
	value, err := r.Get(key)
	switch {
	case err != nil:
		return "", err
	case value == nil:
		return "", ErrNotFound
	}
	return foundIn(key, value)
}

// together is how many reads are asked for at once.
const together = 100

// Among returns which of some queues has a job, or ErrNotFound.
func Among(r kv.Reader, id int64, queues []string) (queue string, err error) {
	for part := range slices.Chunk(queues, together) {
		reads := make([]kv.Read, len(part))
		for i, name := range part {
			reads[i].Key = tuple.AppendInt(tuple.AppendString(Space(name).Bytes(), headersName), id)
		}
		kv.Prefetch(r, reads...)
		for i, read := range reads {
			if value, err := r.Get(read.Key); err != nil || value != nil {
				return part[i], err
			}
		}
	}
	return "", ErrNotFound
}

func foundIn(key, value []byte) (queue string, err error) {
	elems, err := tuple.Unpack(value)
	if err != nil || len(elems) != 1 || !texts(elems, &queue) {
		return "", corrupt(key, "it is not the name of a queue")
	}
	return queue, nil
}

// CheckFindable looks at a key that is FindKey of some job: the job is there. queue is "" if it is not known.
func CheckFindable(r kv.Reader, pair kv.KeyValue) (queue string, p *Problem, err error) {
	id, rest, ok := tuple.NextInt(pair.Key[len(findSpace()):])
	if !ok || len(rest) > 0 {
		return "", &Problem{Key: pair.Key, What: "it is not the id of a job"}, nil
	}
	if queue, err = foundIn(pair.Key, pair.Value); err != nil {
		p, err := problem(pair.Key, err, nil)
		return "", p, err
	}
	j, err := NewQueue(queue, kv.Limits{}, Config{}).Load(r, id)
	switch {
	case err == ErrNotFound || err == nil && !j.Findable:
		return queue, &Problem{pair.Key, "it is of a job that is gone", removing(pair.Key)}, nil
	default:
		return queue, nil, nonCorrupt(err)
	}
}

// Headers is the range of the headers of all jobs.
func (q *Queue) Headers() kv.Range { return rangeOf(q.headers) }

// FindKeyOf returns FindKey of the job of a header, or nil if there is none, or the header does not decode.
func (q *Queue) FindKeyOf(header kv.KeyValue) []byte {
	id, rest, ok := tuple.NextInt(header.Key[len(q.headers):])
	if !ok || len(rest) > 0 {
		return nil
	}
	if j, err := decode(header.Key, id, header.Value); err != nil || !j.Findable {
		return nil
	}
	return FindKey(id)
}
