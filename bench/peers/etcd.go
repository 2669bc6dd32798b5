package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os/exec"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

func etcdSystems() []system {
	s := system{
		class: power, crash: nothing, outage: nothing, waits: true,
		atMost: 1000, whyAtMost: "each of its calls reads the whole queue",
	}
	queue, priority := s, s
	queue.name, queue.open = "etcd-recipe-queue", openEtcd(false)
	priority.name, priority.priority, priority.order, priority.open = "etcd-recipe-priority", true, byPriority, openEtcd(true)
	priority.whyAtMost = "producers of one priority make each other try again"
	return []system{queue, priority}
}

// serveEtcd runs a cluster of one member in this process: arguments are its
// directory and its port.
func serveEtcd(ctx context.Context, args []string) error {
	other, err := freePort()
	if err != nil {
		return err
	}
	at := func(port string) url.URL { return url.URL{Scheme: "http", Host: "127.0.0.1:" + port} }
	config := embed.NewConfig()
	config.Dir, config.LogLevel = args[0]+"/etcd", "error"
	config.ListenClientUrls = []url.URL{at(args[1])}
	config.AdvertiseClientUrls = config.ListenClientUrls
	config.ListenPeerUrls = []url.URL{at(strconv.Itoa(other))}
	config.AdvertisePeerUrls = config.ListenPeerUrls
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	e, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return err
	}
}

// etcdPeer is a queue of the package of recipes that comes with etcd's client.
type etcdPeer struct {
	*server
	priority bool
}

func openEtcd(priority bool) func(context.Context, env) (peer, error) {
	return func(ctx context.Context, e env) (peer, error) {
		if priority && e.priorities > math.MaxUint16+1 {
			return nil, fmt.Errorf("%d priorities: etcd's recipe has at most %d", e.priorities, math.MaxUint16+1)
		}
		s, err := startServer(ctx, e.dir, func(port int) *exec.Cmd {
			return selfCommand(serveArgument, "etcd", e.dir, strconv.Itoa(port))
		}, etcdReady)
		if err != nil {
			return nil, err
		}
		return &etcdPeer{s, priority}, nil
	}
}

func etcdClient(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: starting, Logger: zap.NewNop()})
}

// etcdReady tells whether the member has a leader: itself.
func etcdReady(ctx context.Context, addr string) error {
	if err := answers(ctx, addr); err != nil {
		return err
	}
	c, err := etcdClient(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = c.Get(ctx, "ready")
	return err
}

// client gives each goroutine a connection of its own: the recipes take no
// context, so ending a call means to close it.
func (p *etcdPeer) client(context.Context) (client, error) {
	c, err := etcdClient(p.addr)
	if err != nil {
		return nil, err
	}
	own := &recipeClient{c: c}
	if p.priority {
		q := recipe.NewPriorityQueue(c, "priority")
		own.enqueue, own.dequeue = q.Enqueue, q.Dequeue
		return own, nil
	}
	q := recipe.NewQueue(c, "queue")
	own.enqueue, own.dequeue = func(value string, _ uint16) error { return q.Enqueue(value) }, q.Dequeue
	return own, nil
}

type recipeClient struct {
	c       *clientv3.Client
	enqueue func(value string, priority uint16) error
	dequeue func() (string, error)
}

func (c *recipeClient) put(ctx context.Context, value []byte, priority int) error {
	return c.call(ctx, func() error { return c.enqueue(string(value), uint16(priority)) })
}

func (c *recipeClient) take(ctx context.Context, _ bool) (value []byte, err error) {
	err = c.call(ctx, func() error {
		got, err := c.dequeue()
		value = []byte(got)
		return err
	})
	return value, err
}

// call ends with ctx. The recipes panic if the connection ends while they wait for an item.
func (c *recipeClient) call(ctx context.Context, f func() error) error {
	defer context.AfterFunc(ctx, func() { _ = c.c.Close() })()
	return because(ctx, recovered(f))
}

// because returns why ctx has ended rather than that the connection has.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (c *recipeClient) close() error {
	if err := c.c.Close(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil // it had been closed
}
