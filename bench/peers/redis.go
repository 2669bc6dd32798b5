package main

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func redisSystems() (all []system) {
	for _, kind := range []string{"list", "list-pipelined", "zset", "zset-pipelined"} {
		for _, s := range onRedis("redis-"+kind, openRedis(strings.CutSuffix(kind, "-pipelined"))) {
			if s.order = fifo; strings.HasPrefix(kind, "zset") {
				s.order, s.priority = byPriority, true
			}
			s.waits = true
			all = append(all, s)
		}
	}
	return all
}

// redisJobSystems are queues whose items come back.
func redisJobSystems() []system {
	streams := onRedis("redis-stream-pipelined", openRedis("stream", true))
	for i := range streams {
		streams[i].order = fifo
	}
	return append(streams, onRedis("asynq", openAsynq)...)
}

// onRedis returns a system with either way to sync.
func onRedis(name string, open func(ctx context.Context, e env, sync string) (peer, error)) (all []system) {
	for _, sync := range []string{"always", "everysec"} {
		s := system{
			name: name + "/" + sync, class: power, crash: nothing, outage: nothing, missing: debian("redis-server", "redis-server"),
			open: func(ctx context.Context, e env) (peer, error) { return open(ctx, e, sync) },
		}
		if sync == "everysec" {
			s.class, s.crash, s.outage = process, "nothing, or 2 s if a sync is late", "1 to 2 s"
		}
		all = append(all, s)
	}
	return all
}

// startRedis starts a server with an append-only file and no snapshots.
func startRedis(ctx context.Context, e env, sync string) (*server, error) {
	program, _ := lookFor("redis-server")
	return startServer(ctx, e.dir, func(port int) *exec.Cmd {
		return exec.Command(program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", e.dir,
			"--save", "", "--appendonly", "yes", "--appendfsync", sync)
	}, redisReady)
}

// redisPeer is a server, and what its clients share.
type redisPeer struct {
	*server
	c    *redis.Client
	with redis.Cmdable // c, or what sends calls that come at the same time together
	kind string
}

// openRedis opens one whose clients have a connection each, or one whose clients share a
// pipeline, in which their calls go together. Calls that wait have their own then, too.
func openRedis(kind string, pipelined bool) func(context.Context, env, string) (peer, error) {
	return func(ctx context.Context, e env, sync string) (peer, error) {
		s, err := startRedis(ctx, e, sync)
		if err != nil {
			return nil, err
		}
		c := redis.NewClient(redisOptions(s.addr, e.producers+e.consumers))
		r := &redisPeer{server: s, c: c, with: c, kind: kind}
		if pipelined {
			r.with, err = c.AutoPipeline()
		}
		if err == nil && kind == "stream" {
			err = c.XGroupCreateMkStream(ctx, redisKey, redisGroup, "0").Err()
		}
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		return r, nil
	}
}

func redisOptions(addr string, connections int) *redis.Options {
	return &redis.Options{Addr: addr, PoolSize: connections, MaxRetries: -1, ContextTimeoutEnabled: true}
}

// redisReady tells whether the server has loaded its data.
func redisReady(ctx context.Context, addr string) error {
	c := redis.NewClient(redisOptions(addr, 1))
	defer c.Close()
	return c.Ping(ctx).Err()
}

func (r *redisPeer) client(context.Context) (client, error) {
	switch r.kind {
	case "zset":
		return redisSet{c: r.with}, nil
	case "stream":
		return redisStream{c: r.with}, nil
	}
	return redisList{c: r.with}, nil
}

func (r *redisPeer) close() error { return errors.Join(r.c.Close(), r.server.close()) }

const (
	redisKey   = "queue"
	redisGroup = "workers"
)

type redisList struct {
	shared
	c redis.Cmdable
}

func (c redisList) put(ctx context.Context, value []byte, _ int) error {
	return c.c.LPush(ctx, redisKey, value).Err()
}

func (c redisList) take(ctx context.Context, wait bool) ([]byte, error) {
	if !wait {
		value, err := c.c.RPop(ctx, redisKey).Bytes()
		return value, redisError(err)
	}
	pair, err := c.c.BRPop(ctx, time.Second, redisKey).Result()
	if err != nil {
		return nil, redisError(err)
	}
	return []byte(pair[1]), nil
}

func redisError(err error) error {
	if errors.Is(err, redis.Nil) {
		return errEmpty
	}
	return err
}

// redisSet is a sorted set, with priorities as scores. Its members are unique, as
// items are.
type redisSet struct {
	shared
	c redis.Cmdable
}

func (c redisSet) put(ctx context.Context, value []byte, priority int) error {
	return c.c.ZAdd(ctx, redisKey, redis.Z{Score: float64(priority), Member: value}).Err()
}

func (c redisSet) take(ctx context.Context, wait bool) ([]byte, error) {
	if wait {
		z, err := c.c.BZPopMin(ctx, time.Second, redisKey).Result()
		if err != nil {
			return nil, redisError(err)
		}
		return []byte(z.Member.(string)), nil
	}
	all, err := c.c.ZPopMin(ctx, redisKey).Result()
	if err != nil {
		return nil, redisError(err)
	}
	if len(all) == 0 {
		return nil, errEmpty
	}
	return []byte(all[0].Member.(string)), nil
}

// redisStream is a stream that one group of consumers reads.
type redisStream struct {
	shared
	c redis.Cmdable
}

func (c redisStream) put(ctx context.Context, value []byte, _ int) error {
	return c.c.XAdd(ctx, &redis.XAddArgs{Stream: redisKey, Values: []any{"value", value}}).Err()
}

func (c redisStream) take(ctx context.Context, _ bool) ([]byte, error) {
	all, err := c.c.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: redisGroup, Consumer: "worker", Streams: []string{redisKey, ">"}, Count: 1, Block: -1,
	}).Result()
	if err != nil {
		return nil, redisError(err)
	}
	message := all[0].Messages[0]
	value, _ := message.Values["value"].(string)
	return []byte(value), c.c.XAck(ctx, redisKey, redisGroup, message.ID).Err()
}
