package client

import (
	"context"
	"net/http"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/work"
)

// Settings returns the settings of the queue, and their version; see work.Queue.Settings.
func (q *jobs) Settings(ctx context.Context) (work.Settings, int64, error) {
	var stored wire.Settings
	if err := q.do(ctx, call{method: http.MethodGet, path: q.settings(), again: true}, &stored); err != nil {
		return work.Settings{}, 0, err
	}
	if stored.Version == nil { // the queue was deleted
		s, err := work.Settings{}.Complete()
		return s, 0, err
	}
	return stored.Settings()
}

// Configure stores settings in place of those that there are; see work.Queue.Configure.
func (q *jobs) Configure(ctx context.Context, s work.Settings) error {
	_, err := q.ConfigureFrom(ctx, s, -1)
	return err
}

// ConfigureFrom is Configure if the version of the settings is the one given; see work.Queue.ConfigureFrom.
func (q *jobs) ConfigureFrom(ctx context.Context, s work.Settings, version int64) (int64, error) {
	s, err := s.Complete()
	if err != nil {
		return 0, err
	}
	body, stored := wire.SettingsOf(s, version), wire.Settings{}
	if version < 0 {
		body.Version = nil
	}
	// To store the same settings again changes nothing, unless they are those of a version.
	if err := q.do(ctx, call{method: http.MethodPut, path: q.settings(), body: body, again: version < 0}, &stored); err != nil {
		return 0, err
	}
	_, version, err = stored.Settings()
	return version, err
}

func (q *jobs) settings() string { return jobPath(q.name) + "/settings" }
