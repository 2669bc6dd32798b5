package dashboard

import (
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
	"github.com/conq-go/conq/work"
)

// firstItems is how many items the page of a queue shows at once.
const firstItems = 20

type queuePage struct {
	*watch.State
	IsWork           bool
	MayLook          bool // at payloads
	MayAdd, MayAdmin bool
	Items            []item
	From             int64 // the place of the first of them
	ItemsErr         *problem
	Next             string
	Depths           []float64
	Back             bool // these are the first ones of the priority queue from its other end
}

// item is an item of a queue, or a job.
type item struct {
	Priority int64
	Bytes    []byte
	Job      *work.Info[[]byte]
}

func (i item) Size() int { return len(i.Bytes) }

// Preview is the beginning of its payload on one line.
func (i item) Preview() string { return preview(i.Bytes) }

// Payload is its bytes.
func (i item) Payload() payload { return payloadOf(i.Bytes) }

func preview(b []byte) string {
	if len(b) == 0 {
		return "(nothing)"
	}
	return oneLine(b, 140)
}

func (d *Dashboard) queue(v *visit) (any, error) {
	s, err := d.state(v, access.Watch)
	if err != nil {
		return nil, err
	}
	v.title = visible(s.Name)
	p := &queuePage{State: s, IsWork: isWork(s), Back: v.query.Get("end") == "max"}
	p.MayLook, p.MayAdd, p.MayAdmin = v.may(access.Consume, s.Name), v.may(access.Produce, s.Name), v.may(access.Admin, s.Name)
	if !v.live {
		p.Depths = d.History.Queue(s.Name).Series(watch.Minutes, watch.Depth).Values[0]
	}
	if !p.MayLook {
		return p, nil
	}
	after, err := base64.RawURLEncoding.DecodeString(v.query.Get("after"))
	if err != nil {
		return nil, fail(http.StatusBadRequest, "Not a page", "The address has an after that no page of this server has.", "Begin with the first page.")
	}
	if len(after) == 0 {
		after = nil
	}
	p.From, _ = strconv.ParseInt(v.query.Get("from"), 10, 64)
	next, err := d.firstOf(v, p, after)
	if err != nil {
		p.ItemsErr = problemOf(err)
	}
	if next != nil {
		end := ""
		if p.Back {
			end = "max"
		}
		p.Next = link("/queue", "q", s.Name, "end", end, "from", p.From+int64(len(p.Items)), "after", base64.RawURLEncoding.EncodeToString(next))
	}
	return p, nil
}

// firstOf reads items, from where next of another page says on.
func (d *Dashboard) firstOf(v *visit, p *queuePage, after []byte) (next []byte, err error) {
	if p.Kind == conq.KindWorkQueue {
		err = d.withWork(v, p.Name, func(q *queues.Work) (err error) {
			var jobs []*work.Info[[]byte]
			jobs, next, err = q.Page(v, work.Filter{State: work.Ready}, after, firstItems)
			for _, j := range jobs {
				p.Items = append(p.Items, item{j.Priority, j.Payload, j})
			}
			return err
		})
		return next, err
	}
	q, release, err := d.Queues.Items(v, p.Name, p.Kind, queues.Existing)
	if err != nil {
		return nil, err
	}
	defer release()
	items, next, err := q.Page(v, wire.EndOf(v.query.Get("end")), after, firstItems)
	for _, i := range items {
		p.Items = append(p.Items, item{Priority: i.Priority, Bytes: i.Payload})
	}
	return next, err
}
