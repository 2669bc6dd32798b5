package server

import (
	"context"
	"errors"
	"net"
)

// ServeBeanstalk is not built yet.
func (s *Server) ServeBeanstalk(ctx context.Context, l net.Listener) error {
	return errors.Join(errors.ErrUnsupported, l.Close())
}
