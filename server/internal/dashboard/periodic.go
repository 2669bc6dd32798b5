package dashboard

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
	"github.com/conq-go/conq/work"
)

// Bounds of the page of periodic jobs.
const (
	maxPeriodic   = 1000
	periodicShare = 20 // a page that is live looks for queues with some at most one part in so many of the time
)

type periodicPage struct {
	Jobs []periodicJob
	More bool // there are too many to show
	Any  bool // work queues
}

type periodicJob struct {
	Queue    string
	MayAdmin bool
	work.Periodic
}

// Preview is the beginning of its payload.
func (p periodicJob) Preview() string { return preview(p.Payload) }

func (d *Dashboard) periodic(v *visit) (any, error) {
	v.title = "Periodic jobs"
	p := new(periodicPage)
	have, err := d.havePeriodic(v)
	if err != nil {
		return nil, fmt.Errorf("queues with periodic jobs: %w", err)
	}
	for _, s := range d.workQueues(v, access.Consume) {
		p.Any = true
		if !have[s.Name] {
			continue
		}
		err := d.withWork(v, s.Name, func(q *queues.Work) error {
			all, err := q.Periodics(v)
			for _, job := range all {
				p.Jobs = append(p.Jobs, periodicJob{s.Name, v.may(access.Admin, s.Name), job})
			}
			return err
		})
		if err != nil && !gone(err) {
			return nil, fmt.Errorf("periodic jobs of %q: %w", s.Name, err)
		}
		if p.More = len(p.Jobs) >= maxPeriodic; p.More {
			break
		}
	}
	slices.SortStableFunc(p.Jobs, func(a, b periodicJob) int { return a.Next.Compare(b.Next) })
	return p, nil
}

// periodics are which queues have periodic jobs: a page that is live asks again once that is not too much to ask.
type periodics struct {
	mu    sync.Mutex
	have  map[string]bool
	again time.Time
}

// havePeriodic returns the work queues of the store that have periodic jobs.
func (d *Dashboard) havePeriodic(v *visit) (map[string]bool, error) {
	d.periodics.mu.Lock()
	defer d.periodics.mu.Unlock()
	began := time.Now()
	if v.live && began.Before(d.periodics.again) {
		return d.periodics.have, nil
	}
	var names []string
	for _, q := range v.now.Queues {
		if isWork(q) {
			names = append(names, q.Name)
		}
	}
	have, err := watch.HavePeriodic(v, d.Queues.DB(), names)
	if err != nil {
		return nil, err
	}
	d.periodics.have, d.periodics.again = have, time.Now().Add(periodicShare*time.Since(began))
	return have, nil
}
