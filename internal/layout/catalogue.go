package layout

import (
	"context"
	"errors"
	"fmt"

	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/subspace"
)

// List is conq.Queues.
func List(ctx context.Context, db kv.DB) ([]Info, error) {
	if err := checkStore(ctx, db); err != nil {
		return nil, err
	}
	var infos []Info
	var corrupt error
	err := reads.Scan(ctx, db, Entries().Range(), func(_ kv.Reader, entry kv.KeyValue) error {
		info, err := ParseEntry(entry)
		if err == nil {
			infos = append(infos, info)
		} else if corrupt == nil {
			corrupt = err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return infos, corrupt
}

// Lookup is conq.Lookup.
func Lookup(ctx context.Context, db kv.DB, name string) (info Info, found bool, err error) {
	if err := CheckName(name); err != nil {
		return info, false, err
	}
	if err := checkStore(ctx, db); err != nil {
		return info, false, err
	}
	err = reads.View(ctx, db, func(r kv.Reader) (err error) {
		info, found, err = ReadEntry(r, name)
		return err
	})
	return info, found, err
}

// checkStore returns an error if this version can't read the store.
func checkStore(ctx context.Context, db kv.DB) error {
	return reads.View(ctx, db, func(r kv.Reader) error {
		_, err := ReadFormat(r)
		return err
	})
}

// CheckQueue returns why a queue can't be opened as kind, if it can't. It need not be there.
func CheckQueue(ctx context.Context, db kv.DB, name string, kind queue.Kind) error {
	return reads.View(ctx, db, func(r kv.Reader) error {
		_, err := CheckEntry(r, name, kind)
		return err
	})
}

// Register makes sure that the catalogue has the queue as kind.
func Register(ctx context.Context, db kv.DB, name string, kind queue.Kind) error {
	var known bool
	err := reads.View(ctx, db, func(r kv.Reader) (err error) {
		known, err = CheckEntry(r, name, kind)
		return err
	})
	if err != nil || known {
		return err
	}
	enter := func(tx kv.Tx) error {
		known, err := CheckEntry(tx, name, kind)
		if err != nil || known {
			return err
		}
		Enter(tx, name, kind)
		return nil
	}
	for { // it looks before it writes, so it may run again after an unknown commit
		if err := db.Transact(ctx, enter); !errors.Is(err, kv.ErrCommitUnknown) || ctx.Err() != nil {
			return err
		}
	}
}

// Find returns what a name stands for, by its entry or else by the items that another program has
// written. The error is a queue.ErrNoQueue if there is neither, or a queue.ErrFormat if the store was written by a newer version.
func Find(r kv.Reader, name string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	if _, err := ReadFormat(r); err != nil {
		return Info{}, err
	}
	info, found, err := ReadEntry(r, name)
	if err != nil || found {
		return info, err
	}
	info.Name = name
	items := subspace.Named(name)
	for item, err := range r.Range(items.Range(), kv.RangeOptions{Limit: 1, KeysOnly: true}) {
		if err != nil {
			return info, err
		}
		_, integers, err := ParseAny(item.Key[len(items.Bytes()):])
		if err != nil {
			return info, fmt.Errorf("%w: queue %q, key %x: %w", queue.ErrDecode, name, item.Key, err)
		}
		info.Kind = queue.KindQueue
		if integers == 2 {
			info.Kind = queue.KindPriorityQueue
		}
		return info, nil
	}
	return info, fmt.Errorf("%w: %q", queue.ErrNoQueue, name)
}
