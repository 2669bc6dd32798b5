package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/conq-go/conq/server/internal/access"
)

// ServeBeanstalk answers a listener, which it closes, by beanstalkd's protocol, until ctx ends or the server stops. Then commands
// under way are finished within Options.Grace, jobs that connections hold are given back, and it returns nil.
// At the first call jobs are given back that connections to an earlier server held, unless other processes share the store: of the
// servers of an embedded one only one can have this. The protocol has neither passwords nor TLS, so an address that others can reach is refused unless Options.Insecure is set.
func (s *Server) ServeBeanstalk(ctx context.Context, l net.Listener) error {
	if access.CheckAddress(l.Addr(), false, false, false) != nil && !s.options.Insecure {
		return errors.Join(fmt.Errorf("%v can be reached by others, and beanstalkd's protocol has neither passwords nor TLS: listen on 127.0.0.1, or allow it with --insecure", l.Addr()), l.Close())
	}
	s.options.Logger.Info("serving", "protocol", "beanstalk", "address", l.Addr().String(), "pid", os.Getpid())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.stopping, cancel)
	defer stop()
	return s.beanstalk.Serve(ctx, l)
}

// DrainBeanstalk has ServeBeanstalk refuse new jobs from now on; jobs that are there are given out.
func (s *Server) DrainBeanstalk() { s.beanstalk.Drain() }
