package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sync/errgroup"
)

const payloadBar = 0.7

// payload compares large items with as many bytes written by raw Pebble.
func payload(ctx context.Context, l *limits, progress io.Writer) ([]finding, error) {
	var raw []float64
	var runs []measured
	sys, err := choose(conqSystems(), "^conq-queue/"+l.of.String()+"$", "")
	if err != nil {
		return nil, err
	}
	s := settings{Payload: max(l.payload, headerSize), Items: l.items, Time: 10 * time.Minute, Priorities: 1}
	for round := range l.rounds {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, l.rounds)
		var rate float64
		err := inTemp(l.temp, func(dir string) (err error) {
			rate, err = rawRate(ctx, l, dir)
			return err
		})
		if err != nil {
			return nil, err
		}
		raw = append(raw, rate)
		m, err := measureIn(ctx, l.temp, s, shape{l.clients, l.clients}, sys[0])
		if err != nil {
			return nil, err
		}
		runs = append(runs, m)
	}
	base, bytes := middle(raw)/1e6, float64(s.Payload)/1e6
	of := func(f func(measured) result) float64 {
		return bytes * medianOf(runs, func(m measured) float64 { return f(m).Rate })
	}
	name := fmt.Sprintf("items of %d bytes", s.Payload)
	return []finding{
		against("fill, "+name, "MB/s", base, of(func(m measured) result { return m.Fill })).atLeast(payloadBar),
		against("drain, "+name, "MB/s", base, of(func(m measured) result { return m.Drain })).atLeast(payloadBar),
		against("transfer, "+name, "MB/s", base, of(func(m measured) result { return m.Transfer })).atLeast(payloadBar),
	}, nil
}

// rawRate returns how many bytes a second as many goroutines write through Pebble.
func rawRate(ctx context.Context, l *limits, dir string) (rate float64, err error) {
	db, shut, err := openPebble(dir, l.of)
	if err != nil {
		return 0, err
	}
	values := newItems(newNoise(l.payload), max(l.payload, headerSize), l.items)
	began := time.Now()
	all, ctx := errgroup.WithContext(ctx)
	for c := range l.clients {
		all.Go(func() error {
			return recovered(func() error { return writeRaw(ctx, l, db, values, c) })
		})
	}
	err = all.Wait()
	took := time.Since(began).Seconds()
	if closed := shut(); err == nil {
		err = closed
	}
	return float64(l.items) * float64(values.payload) / took, err
}

// writeRaw writes the items whose numbers are the client's.
func writeRaw(ctx context.Context, l *limits, db *pebble.DB, values *items, client int) error {
	value := make([]byte, values.payload)
	for i := client; i < l.items && ctx.Err() == nil; i += l.clients {
		values.write(value, header{number: i})
		if err := db.Set(fmt.Appendf(nil, "key %020d", i), value, writeOptions(l.of)); err != nil {
			return err
		}
	}
	return ctx.Err()
}
