package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"time"

	"maragu.dev/goqite"
	_ "modernc.org/sqlite" // SQLite without cgo
)

func goqiteSystems() []system {
	full := system{name: "goqite/full", class: power, crash: nothing, outage: nothing, open: openGoqite("full")}
	normal := system{
		name: "goqite/normal", class: process, crash: nothing, outage: "all since the last checkpoint", open: openGoqite("normal"),
	}
	return []system{full, normal}
}

// goqitePeer is a queue in a SQLite database with a write-ahead log and one
// connection, as goqite's examples have it.
type goqitePeer struct {
	inProcess
	db *sql.DB
	q  *goqite.Queue
}

func openGoqite(sync string) func(context.Context, env) (peer, error) {
	return func(ctx context.Context, e env) (peer, error) {
		dsn := "file:" + filepath.Join(e.dir, "queue.db") +
			"?_pragma=journal_mode(wal)&_pragma=busy_timeout(5000)&_pragma=synchronous(" + sync + ")"
		db, err := sql.Open("sqlite", dsn)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		db.SetMaxIdleConns(1)
		if err := goqite.Setup(ctx, db); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		q := goqite.New(goqite.NewOpts{DB: db, Name: "queue", Timeout: time.Hour})
		return &goqitePeer{db: db, q: q}, nil
	}
}

func (g *goqitePeer) client(context.Context) (client, error) { return goqiteClient{q: g.q}, nil }
func (g *goqitePeer) close() error                           { return g.db.Close() }

type goqiteClient struct {
	shared
	q *goqite.Queue
}

func (c goqiteClient) put(ctx context.Context, value []byte, _ int) error {
	return c.q.Send(ctx, goqite.Message{Body: value})
}

func (c goqiteClient) take(ctx context.Context, _ bool) ([]byte, error) {
	m, err := c.q.Receive(ctx)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errEmpty
	}
	return m.Body, c.q.Delete(ctx, m.ID)
}
