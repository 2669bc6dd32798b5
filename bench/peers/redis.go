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
		for _, sync := range []string{"always", "everysec"} {
			usual, pipelined := strings.CutSuffix(kind, "-pipelined")
			s := system{
				name: "redis-" + kind + "/" + sync, order: fifo, waits: true, crash: nothing,
				missing: debian("redis-server", "redis-server"), open: openRedis(usual, sync, pipelined),
			}
			if s.class, s.outage = power, nothing; sync == "everysec" {
				s.class, s.crash, s.outage = process, "nothing, or 2 s if a sync is late", "1 to 2 s"
			}
			if usual == "zset" {
				s.order, s.priority = byPriority, true
			}
			all = append(all, s)
		}
	}
	return all
}

// redisPeer is a server with an append-only file and no snapshots.
type redisPeer struct {
	*server
	c    *redis.Client
	with redis.Cmdable // c, or what sends calls that come at the same time together
	kind string
}

// openRedis opens one whose clients have a connection each, or one whose clients share a
// pipeline, in which their calls go together. Calls that wait have their own then, too.
func openRedis(kind, sync string, pipelined bool) func(context.Context, env) (peer, error) {
	return func(ctx context.Context, e env) (peer, error) {
		program, _ := lookFor("redis-server")
		s, err := startServer(ctx, e.dir, func(port int) *exec.Cmd {
			return exec.Command(program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", e.dir,
				"--save", "", "--appendonly", "yes", "--appendfsync", sync)
		}, redisReady)
		if err != nil {
			return nil, err
		}
		c := redis.NewClient(redisOptions(s.addr, e.producers+e.consumers))
		r := &redisPeer{server: s, c: c, with: c, kind: kind}
		if pipelined {
			if r.with, err = c.AutoPipeline(); err != nil {
				return nil, errors.Join(err, r.close())
			}
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
	if r.kind == "zset" {
		return redisSet{c: r.with}, nil
	}
	return redisList{c: r.with}, nil
}

func (r *redisPeer) close() error { return errors.Join(r.c.Close(), r.server.close()) }

const redisKey = "queue"

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
