package api

import (
	"context"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/server/internal/queues"
)

func (a *api) settings(ctx context.Context, q *queues.Work, _ *QueueIn) (wire.Settings, error) {
	s, version, err := q.Settings(ctx)
	return wire.SettingsOf(s, version), err
}

type settingsIn struct {
	QueueIn
	Body wire.Settings
}

// configure answers what is stored now.
func (a *api) configure(ctx context.Context, in *settingsIn) (stored wire.Settings, err error) {
	s, from, err := in.Body.Settings()
	if err != nil {
		return stored, err
	}
	q, release, err := a.Queues.Work(ctx, in.Queue, queues.Create)
	if err != nil {
		return stored, err
	}
	defer release()
	a.audit(ctx, "set", in)
	version, err := q.ConfigureFrom(ctx, s, from)
	return wire.SettingsOf(s, version), err
}
