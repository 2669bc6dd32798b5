package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/conq-go/conq/server/internal/access"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// event is the queues at one moment.
type event struct {
	At     time.Time   `json:"at"`
	Queues []queueInfo `json:"queues" nullable:"false"`
	Error  string      `json:"error,omitempty" doc:"Why the store could not be read."`
}

// events sends what the queues are like, once a second, until the client or the server goes.
func (a *api) events(ctx context.Context, _ *noQueue) (reply, error) {
	leave, err := a.enterWaiting()
	if err != nil {
		return nil, err
	}
	return func(c huma.Context) {
		defer leave()
		_, w := humago.Unwrap(c)
		c.SetHeader("Content-Type", "text/event-stream")
		c.SetHeader("Cache-Control", "no-store")
		flush := http.NewResponseController(w).Flush
		for now := a.History.Latest(); ; now = a.History.Latest() {
			if !now.Time.IsZero() {
				if sendEvent(c, a.eventNow(ctx)) != nil || flush() != nil {
					return
				}
			}
			select {
			case <-now.Next():
			case <-ctx.Done():
				return
			case <-a.Stopping.Done():
				return
			}
		}
	}, nil
}

func (a *api) eventNow(ctx context.Context) event {
	now := a.History.Latest()
	e := event{At: now.Time, Queues: []queueInfo{}}
	for _, s := range now.Queues {
		if access.Check(ctx, access.Watch, s.Name) == nil {
			e.Queues = append(e.Queues, queueInfo{Name: s.Name, Kind: s.Kind, At: now.Time, Live: stateOf(s)})
		}
	}
	if now.Err != nil {
		e.Error = now.Err.Error()
	}
	return e
}

func sendEvent(c huma.Context, e event) error {
	data, err := json.Marshal(e)
	if err == nil {
		_, err = c.BodyWriter().Write(append(append([]byte("event: queues\ndata: "), data...), "\n\n"...))
	}
	return err
}
