package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/retry"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// conn sends requests to one member of the cluster at a time: the leader, if it
// can be found, and another one as soon as that does not answer. One member, as a
// transaction reads at a revision that the next member may not have reached yet;
// the leader, as others would only pass requests on to it.
type conn struct {
	o      Options
	client *clientv3.Client
	kv     pb.KVClient

	ctx        context.Context // ends with the store
	background sync.WaitGroup
	term       atomic.Uint64 // the latest one seen: a new one has a new leader
	persists   atomic.Bool   // requests are tried for as long as their contexts last

	mu      sync.Mutex
	at      int             // index of the member in use
	uses    int             // how many members were in use so far
	member  context.Context // of what uses that one: ends when another one is used
	leave   func()          // ends it
	picking bool
	closed  bool
}

// callOptions are those of clientv3: requests wait for a connection as long as
// their contexts allow.
var callOptions = []grpc.CallOption{
	grpc.WaitForReady(true),
	grpc.MaxCallSendMsgSize(2 * maxRequest),
	grpc.MaxCallRecvMsgSize(math.MaxInt32),
}

// How soon a connection that has gone quiet is given up by gRPC, which is all that
// tells a watch. Servers refuse clients that ask more often.
const (
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 5 * time.Second
)

// newConn connects to the first member that lets itself be connected to.
func newConn(ctx context.Context, o Options) (c *conn, err error) {
	for i := range o.Endpoints {
		if c, err = dial(ctx, o, i); err == nil {
			c.pick(ctx)
			return c, nil
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		if why := whyNot(ctx, o); why != nil {
			err = fmt.Errorf("%w: %s", err, rpctypes.ErrorDesc(why))
		}
		err = &unavailableError{err}
	}
	return nil, err
}

// whyNot returns why the last member does not let itself be connected to, if it has a
// reason: the client, which has asked it who a user is, says only that time is up.
func whyNot(ctx context.Context, o Options) error {
	o.Username, o.Password = "", ""
	last := len(o.Endpoints) - 1
	c, err := dial(ctx, o, last)
	if err != nil {
		return err
	}
	defer c.client.Close()
	ctx, cancel := context.WithTimeout(ctx, pickTime)
	defer cancel()
	_, err = c.status(ctx, o.Endpoints[last])
	return err
}

// dial returns a connection that uses the i-th member. It waits for that only if a
// password has to be shown.
func dial(ctx context.Context, o Options, i int) (*conn, error) {
	var options []grpc.DialOption
	if o.TLS != nil && o.TLS.ServerName != "" {
		options = append(options, grpc.WithAuthority(o.TLS.ServerName)) // or it would be the address
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            o.Endpoints[i : i+1],
		DialOptions:          options,
		TLS:                  o.TLS,
		Username:             o.Username,
		Password:             o.Password,
		DialTimeout:          min(o.Timeout, o.Patience),
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		Logger:               zap.NewNop(),
		// The client must not send a commit twice: it can't know whether the first
		// one took effect.
		MaxUnaryRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: no connection to %s: %w", o.Endpoints[i], err)
	}
	c := &conn{o: o, client: client, kv: clientv3.RetryKVClient(client), ctx: ctx, at: i}
	c.arrive()
	return c, nil
}

// close ends the connections. The store's context has ended.
func (c *conn) close() error {
	c.mu.Lock()
	c.closed = true
	c.leave()
	c.mu.Unlock()
	c.background.Wait()
	err := c.client.Close()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// inUse returns the context of the member in use.
func (c *conn) inUse() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.member
}

// arrive makes the context of the member in use. The client has one stream for all watches whose
// contexts say the same to the server: what they say tells members apart, so that a watch of
// the next one does not hang on a connection to the last. The lock is held.
func (c *conn) arrive() {
	c.uses++
	ctx := metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(context.Background()), "conq-member", strconv.Itoa(c.uses))
	c.member, c.leave = context.WithCancel(ctx)
}

// use changes to another member. The lock is held.
func (c *conn) use(i int) {
	if i == c.at {
		return
	}
	c.at = i
	c.client.SetEndpoints(c.o.Endpoints[i])
	c.leave()
	c.arrive()
}

// failed changes to the next member if the one that was in use when a request
// failed still is, and looks for the leader.
func (c *conn) failed(member context.Context, err error) {
	if len(c.o.Endpoints) == 1 {
		return
	}
	c.mu.Lock()
	if member == c.member {
		from := c.o.Endpoints[c.at]
		c.use((c.at + 1) % len(c.o.Endpoints))
		c.o.Logger.Warn("etcd member does not answer: trying another one",
			"member", from, "next", c.o.Endpoints[c.at], "error", err)
	}
	c.mu.Unlock()
	c.look()
}

// seen looks for a new leader when a response tells that there is one.
func (c *conn) seen(h *pb.ResponseHeader) {
	term := h.GetRaftTerm()
	if known := c.term.Load(); term <= known || !c.term.CompareAndSwap(known, term) {
		return
	}
	if len(c.o.Endpoints) > 1 {
		c.look()
	}
}

// look picks a member in the background, unless somebody does already.
func (c *conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.picking || c.closed {
		return
	}
	c.picking = true
	c.background.Go(func() {
		defer func() {
			c.mu.Lock()
			c.picking = false
			c.mu.Unlock()
		}()
		c.pick(c.ctx)
	})
}

// pickTime is how long members may take to tell which one leads.
const pickTime = time.Second

// pick asks all members which one leads, and uses the one that says it does, of the
// latest term. If none does, the one in use stays.
func (c *conn) pick(ctx context.Context) {
	if len(c.o.Endpoints) == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pickTime)
	defer cancel()
	type answer struct {
		index int
		term  uint64
		leads bool
	}
	answers := make(chan answer, len(c.o.Endpoints))
	for i, endpoint := range c.o.Endpoints {
		go func() {
			s, err := c.status(ctx, endpoint)
			if err != nil {
				answers <- answer{}
				return
			}
			answers <- answer{i, s.Header.GetRaftTerm(), s.Header.GetMemberId() == s.Leader}
		}()
	}
	best := answer{index: -1}
	for range c.o.Endpoints {
		a := <-answers
		if a.leads && a.term > best.term {
			if best = a; a.term >= c.term.Load() {
				cancel() // the others need not answer
			}
		}
	}
	if best.index >= 0 {
		c.term.Store(max(c.term.Load(), best.term))
		c.mu.Lock()
		c.use(best.index)
		c.mu.Unlock()
	}
}

// status asks one member for its status. The client's own Status looks at the
// endpoints without a lock when it connects, while use may be changing them.
func (c *conn) status(ctx context.Context, endpoint string) (*pb.StatusResponse, error) {
	c.mu.Lock()
	member, err := c.client.Dial(endpoint) // does not wait
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	defer member.Close()
	return clientv3.RetryMaintenanceClient(c.client, member).Status(ctx, &pb.StatusRequest{})
}

// firstAttempt is how long the first attempt to read may take; each further one
// may take twice as long, up to Options.Timeout.
const firstAttempt = time.Second

// read sends a request that changes nothing, and again if it gets no answer,
// until ctx ends or the patience is over. Why it got none so far is part of the error.
func read[T interface{ GetHeader() *pb.ResponseHeader }](ctx context.Context, c *conn, send func(context.Context) (T, error)) (T, error) {
	began := time.Now()
	var why error
	for attempt := 0; ; attempt++ {
		member := c.inUse()
		limited, cancel := context.WithTimeout(ctx, min(firstAttempt<<min(attempt, 10), c.o.Timeout))
		response, err := send(limited)
		cancel()
		if err == nil {
			c.seen(response.GetHeader())
			return response, nil
		}
		var none T
		sent := !neverSent(err)
		err = c.explain(err)
		switch {
		case ctx.Err() != nil && why == nil && sent:
			return none, context.Cause(ctx)
		case ctx.Err() != nil:
			return none, fmt.Errorf("%w: %w", context.Cause(ctx), cmp.Or(why, err))
		case errors.Is(err, errLost):
			c.failed(member, err)
		case !passes(err):
			return none, err
		}
		if c.isOver(began) {
			return none, c.unavailable(err)
		}
		why = err
		pause(ctx, attempt)
	}
}

// isOver tells whether a request that has begun then is to be given up.
func (c *conn) isOver(began time.Time) bool {
	return !c.persists.Load() && time.Since(began) > c.o.Patience
}

// Range reads.
func (c *conn) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	return read(ctx, c, func(ctx context.Context) (*pb.RangeResponse, error) {
		return c.kv.Range(ctx, r, callOptions...)
	})
}

// ReadAll reads several ranges at the same revision.
func (c *conn) ReadAll(ctx context.Context, rs ...*pb.RangeRequest) (*pb.TxnResponse, error) {
	request := &pb.TxnRequest{Success: gets(rs)}
	response, err := read(ctx, c, func(ctx context.Context) (*pb.TxnResponse, error) {
		return c.kv.Txn(ctx, request, callOptions...)
	})
	return response, sized(err, request)
}

// gets makes reads operations of a transaction.
func gets(rs []*pb.RangeRequest) []*pb.RequestOp {
	ops := make([]*pb.RequestOp, len(rs))
	for i, r := range rs {
		ops[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
	}
	return ops
}

// grace is how long a commit may go on after its context has ended. It nearly
// always takes less, and then the outcome is known.
const grace = 250 * time.Millisecond

// Commit sends a transaction that writes, once: again only if it is certain that it
// was not sent, or that it was refused for a token that is no longer valid, users that
// have changed, or too many requests, before it did anything. Another refusal is its error. It does not look at
// ctx for as long as the outcome would be unknown. since is a revision that the cluster is
// known to have reached before, or 0.
func (c *conn) Commit(ctx context.Context, request *pb.TxnRequest, since int64) (*pb.TxnResponse, error) {
	began := time.Now()
	for attempt := 0; ; attempt++ {
		member := c.inUse()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.Timeout)
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
		response, err := c.kv.Txn(limited, request, callOptions...)
		stop()
		cancel()
		if err == nil {
			c.seen(response.Header)
			return response, nil
		}
		sent := !neverSent(err)
		err = c.explain(err)
		lost := errors.Is(err, errLost)
		if lost {
			c.failed(member, err)
		}
		switch {
		case errors.Is(err, errFull) && c.stillAt(ctx, since):
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		case errors.Is(err, errFull):
			return nil, fmt.Errorf("%w: %w", kv.ErrCommitUnknown, err)
		case lost && sent && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w: %w", kv.ErrCommitUnknown, err, context.Cause(ctx))
		case lost && sent:
			return nil, fmt.Errorf("%w: %w", kv.ErrCommitUnknown, err)
		case !lost && !passes(err):
			return nil, sized(err, request)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case c.ctx.Err() != nil:
			return nil, context.Cause(c.ctx)
		case c.isOver(began):
			return nil, c.unavailable(err)
		}
		pause(ctx, attempt)
	}
}

// stillAt tells whether it is certain that nobody has committed anything since a
// revision. In a database that is full that is so as soon as all commits that were
// under way have their answers.
func (c *conn) stillAt(ctx context.Context, revision int64) bool {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	l := newLayout(c.o.Prefix)
	response, err := c.Range(ctx, &pb.RangeRequest{Key: []byte(l.format), KeysOnly: true}) // which a user may read
	return err == nil && response.Header.Revision == revision
}

// pause waits before another attempt, or until ctx ends.
func pause(ctx context.Context, attempt int) {
	const first, last = 5 * time.Millisecond, 250 * time.Millisecond
	retry.Sleep(ctx, rand.N(min(first<<min(attempt, 10), last)))
}
