package main

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

func beanstalkdSystems() []system {
	s := system{
		order: fifo, waits: true, crash: nothing, missing: debian("beanstalkd", "beanstalkd"),
	}
	always, lazy := s, s
	always.name, always.class, always.outage = "beanstalkd/f0", power, nothing
	always.open = openBeanstalkd("-f0")
	lazy.name, lazy.class, lazy.outage = "beanstalkd/default", process, "50 ms and more"
	lazy.open = openBeanstalkd()
	return []system{always, lazy}
}

// conqServeSystems are conq's own server of that protocol.
func conqServeSystems() []system {
	s := system{order: fifo, waits: true, crash: nothing, missing: func() string {
		if _, found := lookFor("conq"); found {
			return ""
		}
		return "conq is missing: go build -o a directory of PATH ./cmd/conq"
	}}
	always, lazy := s, s
	always.name, always.class, always.outage = "conq/serve/always", power, nothing
	always.open = openConqServe("always")
	lazy.name, lazy.class, lazy.outage = "conq/serve/interval", process, any10ms
	lazy.open = openConqServe("interval")
	return []system{always, lazy}
}

func openConqServe(durability string) func(context.Context, env) (peer, error) {
	return func(ctx context.Context, e env) (peer, error) {
		program, _ := lookFor("conq")
		s, err := startServer(ctx, e.dir, func(port int) *exec.Cmd {
			return exec.Command(program, "serve", "--store", filepath.Join(e.dir, "store"), "--durability", durability,
				"--listen", "127.0.0.1:0", "--beanstalk", "127.0.0.1:"+strconv.Itoa(port), "--max-job-size", strconv.Itoa(max(65535, e.payload)))
		}, answers)
		if err != nil {
			return nil, err
		}
		return &beanstalkdPeer{s}, nil
	}
}

type beanstalkdPeer struct{ *server }

func openBeanstalkd(flags ...string) func(context.Context, env) (peer, error) {
	return func(ctx context.Context, e env) (peer, error) {
		program, _ := lookFor("beanstalkd")
		s, err := startServer(ctx, e.dir, func(port int) *exec.Cmd {
			args := []string{"-l", "127.0.0.1", "-p", strconv.Itoa(port), "-b", e.dir, "-z", strconv.Itoa(max(65535, e.payload))}
			return exec.Command(program, append(args, flags...)...)
		}, answers)
		if err != nil {
			return nil, err
		}
		return &beanstalkdPeer{s}, nil
	}
}

func (b *beanstalkdPeer) client(context.Context) (client, error) {
	c, err := beanstalk.Dial("tcp", b.addr)
	if err != nil {
		return nil, err
	}
	return beanstalkdClient{c}, nil
}

// beanstalkdClient has a connection of its own, as reservations belong to one.
type beanstalkdClient struct{ c *beanstalk.Conn }

func (c beanstalkdClient) put(_ context.Context, value []byte, _ int) error {
	_, err := c.c.Put(value, 0, 0, time.Hour)
	return err
}

func (c beanstalkdClient) take(_ context.Context, wait bool) ([]byte, error) {
	timeout := time.Duration(0)
	if wait {
		timeout = time.Second
	}
	id, value, err := c.c.Reserve(timeout)
	if errors.Is(err, beanstalk.ErrTimeout) {
		return nil, errEmpty
	}
	if err != nil {
		return nil, err
	}
	return value, c.c.Delete(id)
}

func (c beanstalkdClient) close() error { return c.c.Close() }
