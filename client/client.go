// Package client has the queues of a conq server for programs in Go, with the methods that they have in packages conq and
// work. It links no store.
//
//	c, err := client.Dial(ctx, "http://127.0.0.1:7711")
//	q, err := client.OpenQueue(ctx, c, "emails", queue.JSON[Email]())
//	err = q.Enqueue(ctx, Email{To: "a@b"})
//	e, err := q.DequeueWait(ctx)
//
// # Several calls at once
//
// Calls on one handle that come while its last request is under way share the next request, as they share transactions on a
// store. Calls that wait have a connection each.
//
// # When the server does not answer
//
// The client retries a request that did not arrive, or that the server asks to send again, with growing pauses, for
// Options.Patience. Calls that wait retry until their context ends, so they survive a restart of the server. Requests that
// add have an idempotency key, so nothing is added twice. If the client gives up before it knows whether a request
// was carried out, the error matches kv.ErrCommitUnknown.
//
// Dequeue and pop are at most once over a network: if the connection breaks while the answer is on its way, its items are
// lost. Dequeue and the like return kv.ErrCommitUnknown then, and those that wait go on waiting. When the context
// of a call that takes ends, the call waits up to 100 ms for an answer that is on its way, and returns what that has. The
// server waits no longer than until the deadline of the context: when that has come, a call that waits waits for the answer up to 2 s
// more, and then returns kv.ErrCommitUnknown. A client
// that is killed while it waits takes nothing, unless an item comes at the same moment. Use a work queue where that
// matters: its jobs come back when their lease is over.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// Options configure a Client. The zero value is the default.
type Options struct {
	// Token is what the server knows the client by. Default: none, for servers on the loopback interface.
	Token string

	// TLS is for https URLs. Default: the system's certificates.
	TLS *tls.Config

	// Insecure allows a Token to go over the network without TLS. Default: it is refused.
	Insecure bool

	// Patience is how long a call tries again while the server does not answer. Default: 30 s.
	Patience time.Duration

	// Timeout is how long the server may take for an answer, beside the time that a call waits for items. Default: 30 s.
	Timeout time.Duration

	// Transport sends requests. Default: one that keeps up to 1000 connections.
	Transport http.RoundTripper
}

// Client is a server, or several of one store. It is safe for concurrent use.
type Client struct {
	options Options
	servers []string // without a slash at the end
	http    http.Client
}

// Dial returns a client of a server, when it has answered. A URL is as http://host:7711; for several servers of one store it has
// their hosts, with commas between, and each request goes to one of them at random. A server that is mounted under a path has that
// at the end: http://host/path. At most one Options may be given.
func Dial(ctx context.Context, url string, opts ...Options) (*Client, error) {
	o, err := options.Only(opts)
	if err == nil {
		err = options.Context(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if o.Patience < 0 || o.Timeout < 0 {
		return nil, fmt.Errorf("client: %w: Options.Patience is %v, and Timeout %v: they can be from 0 on, which is the default", kv.ErrInvalid, o.Patience, o.Timeout)
	}
	c := &Client{options: o}
	c.options.Patience = cmp.Or(o.Patience, 30*time.Second)
	c.options.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	if err := c.parse(url); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if c.http.Transport = o.Transport; o.Transport == nil {
		c.http.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, TLSClientConfig: o.TLS.Clone(),
			TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true, MaxIdleConns: 1000, MaxIdleConnsPerHost: 1000, IdleConnTimeout: 90 * time.Second,
		}
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a token goes nowhere else
	var said string
	err = c.do(ctx, call{method: http.MethodGet, path: "/readyz", again: true}, &said)
	if err == nil && said != "ready\n" {
		err = fmt.Errorf("client: %.200q is not the URL of a conq server: its /readyz answers %.40q", url, said)
	}
	return c, err
}

func (c *Client) parse(s string) error {
	scheme, rest, _ := strings.Cut(s, "://")
	hosts, path, _ := strings.Cut(rest, "/")
	base, err := url.Parse("/" + strings.TrimSuffix(path, "/"))
	if err != nil || base.RawQuery != "" || base.Fragment != "" || strings.HasSuffix(base.Path, "/v1") {
		return errors.New("URL of a server can't be read: it is as http://host:7711, or http://host/path if the server is mounted there")
	}
	if strings.Contains(scheme+hosts, "@") { // what it says may have a secret
		return errors.New("URL of a server can't be read: it is as http://host:7711, and Options.Token says who you are")
	}
	for _, host := range strings.Split(hosts, ",") {
		u, err := url.Parse(scheme + "://" + host)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Host != host:
			return fmt.Errorf("URL %.200q: that of a server is as http://host:7711", s)
		case u.Scheme == "http" && c.options.Token != "" && !c.options.Insecure && !isLoopback(u.Hostname()):
			return fmt.Errorf("the token would go to %.200q without TLS: use https, or Options.Insecure on a private network", host)
		}
		c.servers = append(c.servers, u.Scheme+"://"+host+strings.TrimSuffix(base.EscapedPath(), "/"))
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close closes idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

func (c *Client) server() string { return c.servers[rand.IntN(len(c.servers))] }

// queuePath is the path of a queue of items, and jobPath that of a work queue.
func queuePath(name string) string { return "/v1/queues/" + escape(name) }
func jobPath(name string) string   { return "/v1/jobs/" + escape(name) }

// escape returns a name as it stands in a path. Names of dots would be taken for directories.
func escape(name string) string {
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// Info is a queue of the server: its kind is queue, priority queue or work queue.
type Info struct {
	Name     string
	Kind     string
	Deleting bool   // its deletion has begun, and was perhaps broken off
	State    *State // as the server has seen it a second ago at most; nil if it has not looked yet
}

// State is how a queue looks.
type State struct {
	Depth           int64     // items, or jobs that are neither dead nor done
	In, Out, Failed float64   // a second
	Oldest          time.Time // since when the oldest is there that could be taken; zero if that is not known
	Jobs            *work.Stats
}

// Queues returns the queues that the client may see, by name.
func (c *Client) Queues(ctx context.Context) ([]Info, error) {
	var all []Info
	for query := (url.Values{"limit": {"1000"}}); ; {
		var page struct {
			Queues []Info
			Next   string
		}
		if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/queues", query: query, again: true}, &page); err != nil {
			return nil, err
		}
		if all = append(all, page.Queues...); page.Next == "" {
			return all, nil
		}
		query.Set("after", page.Next)
	}
}

// Lookup returns a queue. The error is a queue.ErrNoQueue if there is none.
func (c *Client) Lookup(ctx context.Context, name string) (info Info, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: queuePath(name), again: true}, &info)
	return info, err
}

// Count is Lookup with a State of now. Of a queue and a priority queue that reads all items.
func (c *Client) Count(ctx context.Context, name string) (info Info, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: queuePath(name), query: url.Values{"count": {"true"}}, again: true}, &info)
	return info, err
}

// Len counts the items of a queue, or the jobs in all states.
func (c *Client) Len(ctx context.Context, name string) (int, error) {
	info, err := c.Count(ctx, name)
	if err != nil || info.State == nil {
		return 0, err
	}
	n := info.State.Depth
	if j := info.State.Jobs; j != nil {
		n += j.Dead + j.Done
	}
	return int(n), nil
}

// Move moves up to n items, at most 1000, from one queue to another of the same kind, in one transaction, and returns how many. If
// there were none, the error is a queue.ErrEmpty. The other queue is made if there is none. At most one queue.MoveOptions may be given.
func (c *Client) Move(ctx context.Context, from, to string, n int, opts ...queue.MoveOptions) (int, error) {
	o, err := options.Only(opts)
	if err != nil {
		return 0, fmt.Errorf("client: move: %w", err)
	}
	body := wire.Move{From: from, To: to, N: n}
	if o.From != queue.Min {
		body.End = o.From.String()
	}
	var answer wire.Moved
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/move", body: body, once: true}, &answer)
	if err == nil && answer.Moved == 0 {
		err = fmt.Errorf("%w: %q", queue.ErrEmpty, from)
	}
	return answer.Moved, err
}
