package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Debian has them out of the way of PATH.
const postgresPlaces = "/usr/lib/postgresql/*/bin"

func missingPostgres() string {
	for _, program := range []string{"postgres", "initdb"} {
		if said := debian(program, "postgresql", postgresPlaces)(); said != "" {
			return said
		}
	}
	if _, err := postgresUser(); err != nil {
		return err.Error()
	}
	return ""
}

func postgresSystems() []system {
	return []system{{
		name: "postgres-skip-locked", class: power, crash: nothing, outage: nothing,
		missing: missingPostgres, open: openPostgres,
	}}
}

// postgresUser returns whom the server is to run as, which is not root: nil stands
// for who runs this program.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and %w: apt-get install postgresql", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// postgresServer is a server with its default settings, but for the number of
// connections.
type postgresServer struct {
	*server
	pool *pgxpool.Pool
}

func startPostgres(ctx context.Context, e env, connections int) (*postgresServer, error) {
	as, err := postgresUser()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(e.dir, "postgres")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	if as != nil {
		if err := os.Chown(data, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	command := func(program string, args ...string) *exec.Cmd {
		path, _ := lookFor(program, postgresPlaces)
		cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...)
		cmd.Dir, cmd.SysProcAttr = data, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	said, err := command("initdb", "-D", data, "-U", "peers", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("initdb in %s: %w: %s", data, err, said)
	}
	dsn := func(addr string) string {
		return fmt.Sprintf("postgres://peers@%s/postgres?sslmode=disable", addr)
	}
	s, err := startServer(ctx, e.dir, func(port int) *exec.Cmd {
		return command("postgres", "-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "max_connections="+strconv.Itoa(connections+20))
	}, func(ctx context.Context, addr string) error {
		c, err := pgx.Connect(ctx, dsn(addr))
		if err != nil {
			return err
		}
		return c.Close(ctx)
	})
	if err != nil {
		return nil, err
	}
	s.stop = syscall.SIGINT // ends connections too
	config, err := pgxpool.ParseConfig(dsn(s.addr))
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return &postgresServer{s, pool}, nil
}

func (p *postgresServer) close() error {
	p.pool.Close()
	return p.server.close()
}

// postgresPeer is a table from which consumers take the first row that nobody else
// has locked.
type postgresPeer struct{ *postgresServer }

func openPostgres(ctx context.Context, e env) (peer, error) {
	s, err := startPostgres(ctx, e, e.producers+e.consumers)
	if err != nil {
		return nil, err
	}
	if _, err := s.pool.Exec(ctx, "CREATE TABLE queue (id bigserial PRIMARY KEY, value bytea NOT NULL)"); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return &postgresPeer{s}, nil
}

func (p *postgresPeer) client(context.Context) (client, error) {
	return postgresClient{pool: p.pool}, nil
}

type postgresClient struct {
	shared
	pool *pgxpool.Pool
}

func (c postgresClient) put(ctx context.Context, value []byte, _ int) error {
	_, err := c.pool.Exec(ctx, "INSERT INTO queue (value) VALUES ($1)", value)
	return err
}

func (c postgresClient) take(ctx context.Context, _ bool) (value []byte, err error) {
	err = c.pool.QueryRow(ctx, `DELETE FROM queue WHERE id = (
		SELECT id FROM queue ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING value`).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errEmpty
	}
	return value, err
}
