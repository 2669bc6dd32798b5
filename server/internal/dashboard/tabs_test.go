package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// A hundred tabs get news of the same page, and leave nothing behind when they close: neither a goroutine, which TestMain sees, nor
// what was made for them.
func TestTabsLeaveNothing(t *testing.T) {
	s := newSite(t)
	s.fill()
	server := httptest.NewServer(s.handler)
	defer server.Close() // when all streams have ended
	ctx, closeTabs := context.WithCancel(t.Context())
	defer closeTabs()
	var tabs, read sync.WaitGroup
	for range 100 {
		read.Add(1)
		tabs.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/live/overview", nil)
			testkit.NoError(t, err)
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				_, err = resp.Body.Read(make([]byte, 1000))
				defer resp.Body.Close()
			}
			if read.Done(); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
		})
	}
	read.Wait()
	testkit.Equal(t, "streams", s.pages.streams.Load(), 100)
	testkit.Equal(t, "views", len(s.pages.views.all), 1)
	closeTabs()
	tabs.Wait()
	http.DefaultClient.CloseIdleConnections()
	server.Close()
	testkit.Equal(t, "streams", s.pages.streams.Load(), 0)
	testkit.Equal(t, "views", len(s.pages.views.all), 0)
}
