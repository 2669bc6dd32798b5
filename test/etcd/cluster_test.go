package etcd_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// patience is how long something that has to happen may take.
const patience = 2 * time.Minute

// cluster is three members, and a proxy in front of each.
type cluster struct {
	members []*member
	proxies []*proxy
	direct  *clientv3.Client // past the proxies
}

// clusterOptions say what is not as usual about a cluster.
type clusterOptions struct {
	sync  bool   // members sync their logs, as they should: nobody needs it who cuts no power
	certs *certs // have clients use TLS
	quota int64  // bytes that the database may have, if not as many as usual
}

// startCluster starts one that ends with the test.
func startCluster(t testing.TB, o clusterOptions) *cluster {
	t.Helper()
	const size = 3
	dir, err := os.MkdirTemp("", "conq-etcd-")
	testkit.NoError(t, err)
	c := new(cluster)
	addresses := freeAddresses(t, 2*size)
	var all, clients []string
	scheme, security := "http://", (*tls.Config)(nil)
	if o.certs != nil {
		scheme, security = "https://", o.certs.config(t)
	}
	for i := range size {
		all = append(all, fmt.Sprintf("m%d=http://%s", i, addresses[i]))
		clients = append(clients, addresses[size+i])
	}
	for i := range size {
		c.members = append(c.members, &member{config: memberConfig{
			Name: fmt.Sprintf("m%d", i), Dir: filepath.Join(dir, fmt.Sprintf("m%d", i)),
			PeerURL: "http://" + addresses[i], ClientURL: scheme + clients[i],
			Cluster: strings.Join(all, ","), New: true, NoSync: !o.sync, Quota: o.quota,
		}})
		if o.certs != nil {
			m := &c.members[i].config
			m.Cert, m.Key, m.CA = o.certs.cert, o.certs.key, o.certs.ca
		}
		c.proxies = append(c.proxies, newProxy(t, clients[i]))
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			m.kill()
		}
		testkit.Check(t, os.RemoveAll(dir))
	})
	for _, m := range c.members {
		m.start(t)
	}
	c.direct, err = clientv3.New(clientv3.Config{Endpoints: clients, TLS: security, Logger: zap.NewNop()})
	testkit.NoError(t, err)
	t.Cleanup(func() { c.direct.Close() })
	c.leader(t)
	return c
}

// freeAddresses returns addresses that nobody listens at.
func freeAddresses(t testing.TB, n int) (all []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.NoError(t, err)
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}

// leader returns the index of the leader, and waits until there is one.
func (c *cluster) leader(t testing.TB) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ctx.Err() == nil {
		for i, m := range c.members {
			if m.process == nil || m.paused {
				continue
			}
			once, stop := context.WithTimeout(ctx, time.Second)
			s, err := c.direct.Status(once, m.config.ClientURL)
			stop()
			if err == nil && s.Leader == s.Header.MemberId {
				return i
			}
		}
		wait(ctx, 20*time.Millisecond)
	}
	for _, m := range c.members {
		t.Logf("member %s: %s", m.config.Name, m.output())
	}
	t.Fatal("the cluster has no leader")
	return 0
}

// wait lets time pass between two looks at something.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

var stores atomic.Int64

// options are those of a new store, through the proxies.
func (c *cluster) options() etcd.Options {
	o := etcd.Options{Prefix: fmt.Sprintf("store %d", stores.Add(1))}
	for _, p := range c.proxies {
		o.Endpoints = append(o.Endpoints, p.address())
	}
	return o
}

func open(t testing.TB, o etcd.Options) *etcd.DB {
	t.Helper()
	db, err := etcd.Open(t.Context(), o)
	testkit.NoError(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return db
}

// A store tells which members lead, follow, and are down.
func TestHealth(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	db, err := etcd.Open(t.Context(), c.options())
	testkit.NoError(t, err)
	defer db.Close()
	count := func(h kv.Health) (leads, follows, down int) {
		for _, m := range h.Members {
			switch {
			case m.Down:
				down++
			case strings.HasPrefix(m.Detail, "leads"):
				leads++
			case strings.HasPrefix(m.Detail, "follows"):
				follows++
			}
		}
		return leads, follows, down
	}
	h, known, err := kv.HealthOf(t.Context(), db)
	testkit.NoError(t, err)
	if leads, follows, down := count(h); !known || h.Bytes == 0 || leads != 1 || follows != 2 || down != 0 {
		t.Errorf("the cluster is %+v", h)
	}
	c.members[(c.leader(t)+1)%3].kill()
	h, _, err = kv.HealthOf(t.Context(), db)
	testkit.NoError(t, err)
	if _, _, down := count(h); down != 1 {
		t.Errorf("with a member killed the cluster is %+v", h)
	}
}
