package cli

import (
	"context"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/work"
	"golang.org/x/sync/errgroup"
)

const (
	mostCounted = 10_000 // items of a queue
	mostAsked   = 100    // queues of a server that are counted anew
	looksAtOnce = 16
)

// look is how a queue looks.
type look struct {
	conq.Info
	items           int64 // or jobs in all states
	more            bool  // there are more items
	jobs            *work.Stats
	oldest          time.Time // since when the oldest is there that could be taken; zero if it is not known
	in, out, failed float64   // a second
	known           bool      // in, out and failed are
}

// depth is how many there are, jobs that are dead or done left out.
func (l *look) depth() int64 {
	if l.jobs == nil {
		return l.items
	}
	return l.items - l.jobs.Dead - l.jobs.Done
}

func (l *look) setJobs(s work.Stats) {
	counts := jobCounts(s)
	l.jobs, l.items = &s, int64(counts.sum())
}

// looks returns how queues look, each of one moment.
func (l local) looks(ctx context.Context, fresh bool) ([]look, error) {
	infos, err := l.queues(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]look, len(infos))
	return all, eachAtOnce(ctx, len(infos), func(ctx context.Context, i int) error {
		all[i].Info = infos[i]
		if infos[i].Deleting {
			return nil
		}
		return reads.View(ctx, l.db, func(r kv.Reader) error {
			if infos[i].Kind == conq.KindWorkQueue {
				return all[i].readJobs(r, l.db.Limits())
			}
			return all[i].readItems(r)
		})
	})
}

func (l *look) readItems(r kv.Reader) error {
	l.items = 0
	for _, err := range r.Snapshot().Range(subspace.Named(l.Name).Range(), kv.RangeOptions{Limit: mostCounted + 1, KeysOnly: true}) {
		if err != nil {
			return err
		}
		l.items++
	}
	if l.more = l.items > mostCounted; l.more {
		l.items = mostCounted
	}
	return nil
}

func (l *look) readJobs(r kv.Reader, limits kv.Limits) error {
	of, err := jobs.NewQueue(l.Name, limits, jobs.Config{}).Look(r)
	n := of.Counts
	l.setJobs(work.Stats{
		Ready: n[jobs.Ready], Scheduled: n[jobs.Scheduled], Leased: n[jobs.Leased], Blocked: n[jobs.Blocked],
		Dead: n[jobs.Dead], Done: n[jobs.Done], Paused: of.Paused,
	})
	if of.Oldest != 0 {
		l.oldest = time.UnixMicro(of.Oldest)
	}
	return err
}

// looks returns how the server has seen queues, a second ago at most. If few of them are fresh they are counted now, but for long ones.
func (r remote) looks(ctx context.Context, fresh bool) ([]look, error) {
	infos, err := r.c.Queues(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]look, len(infos))
	return all, eachAtOnce(ctx, len(infos), func(ctx context.Context, i int) error {
		info := infos[i]
		all[i].Info = conq.Info{Name: info.Name, Kind: conq.Kind(info.Kind), Deleting: info.Deleting}
		short := info.State == nil || info.State.Depth < mostCounted || info.State.Jobs != nil
		if fresh && !info.Deleting && short && len(infos) <= mostAsked {
			if now, err := r.c.Count(ctx, info.Name); err == nil { // else it was deleted, or may not be looked at
				info = now
			}
		}
		if s := info.State; s != nil {
			all[i].items, all[i].oldest, all[i].known = s.Depth, s.Oldest, true
			all[i].in, all[i].out, all[i].failed = s.In, s.Out, s.Failed
			if s.Jobs != nil {
				all[i].setJobs(*s.Jobs)
			}
		}
		return ctx.Err()
	})
}

// eachAtOnce calls f with the numbers below n, several at the same time.
func eachAtOnce(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(looksAtOnce)
	for i := range n {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}
