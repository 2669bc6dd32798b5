package main

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func natsSystems() []system {
	lazy := system{
		name: "nats-jetstream/default", class: process, crash: nothing, outage: "2 min", waits: true, open: openNATS("2m"),
	}
	always := system{
		name: "nats-jetstream/always", class: power, crash: nothing, outage: nothing, waits: true, open: openNATS("always"),
	}
	return []system{always, lazy}
}

// serveNATS runs NATS in this process: arguments are its directory, its port, and
// when it syncs.
func serveNATS(ctx context.Context, args []string) error {
	port, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: args[0], SyncAlways: args[2] == "always", NoSigs: true,
		MaxPayload: 8 << 20,
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(starting) {
		return errors.New("NATS does not get ready")
	}
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// natsPeer is a stream whose messages go when they are acknowledged.
type natsPeer struct {
	*server
	conn *nats.Conn
	js   jetstream.JetStream
	take jetstream.Consumer
}

func openNATS(sync string) func(context.Context, env) (peer, error) {
	return func(ctx context.Context, e env) (peer, error) {
		s, err := startServer(ctx, e.dir, func(port int) *exec.Cmd {
			return selfCommand(serveArgument, "nats", e.dir, strconv.Itoa(port), sync)
		}, answers)
		if err != nil {
			return nil, err
		}
		n := &natsPeer{server: s}
		if err := n.connect(ctx); err != nil {
			return nil, errors.Join(err, n.close())
		}
		return n, nil
	}
}

const natsSubject = "queue.items"

func (n *natsPeer) connect(ctx context.Context) (err error) {
	if n.conn, err = nats.Connect("nats://" + n.addr); err != nil {
		return err
	}
	if n.js, err = jetstream.New(n.conn); err != nil {
		return err
	}
	stream, err := n.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "queue", Subjects: []string{natsSubject}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return err
	}
	n.take, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "consumer", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour,
	})
	return err
}

func (n *natsPeer) close() error {
	if n.conn != nil {
		n.conn.Close()
	}
	return n.server.close()
}

// client gives each goroutine a connection of its own.
func (n *natsPeer) client(ctx context.Context) (client, error) {
	own := &natsPeer{server: n.server}
	var err error
	if own.conn, err = nats.Connect("nats://" + n.addr); err != nil {
		return nil, err
	}
	if own.js, err = jetstream.New(own.conn); err == nil {
		own.take, err = own.js.Consumer(ctx, "queue", "consumer")
	}
	if err != nil {
		own.conn.Close()
		return nil, err
	}
	messages, err := own.take.Messages(jetstream.PullMaxMessages(1)) // one by one, as its guide says for work queues
	if err != nil {
		own.conn.Close()
		return nil, err
	}
	return natsClient{own, messages}, nil
}

type natsClient struct {
	n        *natsPeer
	messages jetstream.MessagesContext
}

func (c natsClient) put(ctx context.Context, value []byte, _ int) error {
	_, err := c.n.js.Publish(ctx, natsSubject, value)
	return err
}

// take acknowledges and waits for the answer: only then it is sure that the item
// does not come again.
func (c natsClient) take(ctx context.Context, _ bool) ([]byte, error) {
	m, err := c.messages.Next(jetstream.NextMaxWait(time.Second))
	if errors.Is(err, nats.ErrTimeout) {
		return nil, errEmpty
	}
	if err != nil {
		return nil, err
	}
	return m.Data(), m.DoubleAck(ctx)
}

func (c natsClient) close() error {
	c.messages.Stop()
	c.n.conn.Close()
	return nil
}
