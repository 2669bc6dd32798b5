package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/conq-go/conq/internal/version"
	"github.com/conq-go/conq/kv"
)

// call is a request.
type call struct {
	method, path string
	query        url.Values
	body         any
	wait         time.Duration // how long the server waits before it answers

	once  bool // the server carries it out once, however often it comes
	again bool // it may be carried out twice
	takes bool // its answer has what nobody else gets then
	loses bool // and what does not come back by itself

	missing error // what it is that the queue of a handle was deleted; nil is that there is nothing

	sent *time.Time // set to when the last try began, unless it is nil
}

// Pauses between tries.
const (
	firstPause = 20 * time.Millisecond
	longPause  = 2 * time.Second
)

// A call that takes something waits for the answer when its context has ended, as what the server has taken by then is on its way:
// for lateAnswer where the server knew the deadline, so that it answers, and else for lastAnswer.
const (
	lastAnswer = 100 * time.Millisecond
	lateAnswer = 2 * time.Second
)

// isLate tells whether the time of a call is over that waits: the server answers at that time, too.
func isLate(ctx context.Context, q call) bool {
	return q.wait > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// do sends a request until it is answered, and reads the answer into out unless that is nil.
func (c *Client) do(ctx context.Context, q call, out any) error {
	if ctx == nil {
		return errors.New("client: ctx is nil")
	}
	body, err := marshal(q.body)
	if err != nil {
		return err
	}
	key := ""
	if q.once {
		key = rand.Text()
	}
	began, unknown := time.Now(), false
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		sent, after, err := c.try(ctx, q, body, key, out)
		unknown = unknown || sent
		if q.loses && errors.Is(err, kv.ErrCommitUnknown) {
			q.again = false // what the server may have taken is lost, and the caller is to know
		}
		switch {
		case err == nil:
			return nil
		case after < 0, sent && !q.once && !q.again: // the last word, or one that can't be asked for again
		case ctx.Err() == nil && (q.wait > 0 || time.Since(began) < c.options.Patience):
			if rest(ctx, max(after, pause/2+mathrand.N(pause))) {
				continue
			}
		}
		if sent && q.takes && isLate(ctx, q) {
			q.again = false // what it has taken is lost
		}
		if _, answered := errors.AsType[*Error](err); !answered && after >= 0 {
			err = fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
		}
		return c.failed(ctx, q, err, unknown)
	}
}

// marshal is json.Marshal, but refuses what is not UTF-8, which that replaces: different texts would become the same.
func marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	replaced := []byte(`\ufffd`)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if !bytes.Contains(b, replaced) {
		return b, nil
	}
	texts := bytes.ReplaceAll(b, []byte(`\\`), nil)
	if i := bytes.Index(texts, replaced); i >= 0 {
		return nil, fmt.Errorf("client: %w: a text is not UTF-8, which JSON has to be, behind %q", kv.ErrInvalid, texts[max(0, i-40):i])
	}
	return b, nil
}

// failed is the error of a call that was given up. Whether it was carried out is unknown if a try may have been, unless the server has
// told since: by a refusal that is its last word.
func (c *Client) failed(ctx context.Context, q call, err error, unknown bool) error {
	told, answered := errors.AsType[*Error](err)
	if ctx.Err() != nil && !answered {
		err = context.Cause(ctx)
	}
	if unknown && !q.again && !(answered && told.after < 0 && !told.mayBeDone()) {
		return fmt.Errorf("client: %w: %w", kv.ErrCommitUnknown, err)
	}
	return fmt.Errorf("client: %w", err)
}

func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try sends a request once. sent tells whether the server may have carried it out although there is an error; after is how
// long to wait before the next try, and negative if there should be none.
func (c *Client) try(ctx context.Context, q call, body []byte, key string, out any) (sent bool, after time.Duration, err error) {
	if ctx.Err() != nil {
		return false, 0, context.Cause(ctx)
	}
	if q.sent != nil {
		*q.sent = time.Now()
	}
	if q.takes {
		var end context.CancelFunc
		ctx, end = longer(ctx, q)
		defer end()
	}
	limited, cancel := context.WithTimeout(ctx, q.wait+c.options.Timeout)
	defer cancel()
	var sends io.Reader
	if q.body != nil {
		sends = bytes.NewReader(body) // which net/http can send again on another connection, if the server has not begun
	}
	r, err := http.NewRequestWithContext(limited, q.method, c.server()+q.path, sends)
	if err != nil {
		return false, -1, err
	}
	r.URL.RawQuery = q.query.Encode()
	r.Header.Set("User-Agent", version.Read().Product())
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	if c.options.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		if isOther(err) {
			return false, -1, hidden(err)
		}
		return mayHaveArrived(err), 0, hidden(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		told := readError(answer)
		return told.mayBeDone(), told.after, told
	}
	if err := read(answer.Body, out); err != nil {
		return true, 0, fmt.Errorf("answer of the server can't be read: %w", err)
	}
	return false, 0, nil
}

// read reads a body to its end, so that the connection can be used again: JSON, or up to 64 kB of text into a *string.
func read(body io.Reader, out any) (err error) {
	switch out := out.(type) {
	case nil:
		_, err = io.Copy(io.Discard, body)
	case *string:
		var b []byte
		b, err = io.ReadAll(io.LimitReader(body, 64<<10))
		*out = string(b)
	default:
		err = json.NewDecoder(body).Decode(out)
		_, _ = io.Copy(io.Discard, body) // what was answered is known
	}
	return err
}

// longer returns a context that ends some time after that of a call that takes something.
func longer(ctx context.Context, q call) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		d := lastAnswer
		if isLate(ctx, q) {
			d = lateAnswer
		}
		time.AfterFunc(d, cancel)
	})
	return later, func() {
		stop()
		cancel()
	}
}

// isOther tells whether the server can't be the one that is meant: trying again would not help.
func isOther(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted || errors.Is(err, http.ErrSchemeMismatch)
}

// mayHaveArrived tells whether a request that has failed may have come to the server.
func mayHaveArrived(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return !ok || dial.Op != "dial"
}

// hidden is an error of net/http without the URL, which has the name of the queue.
func hidden(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
