package beanstalk

import (
	"slices"
	"sync"
	"testing"
)

// Each command is observed once, with the first word of its reply.
func TestObserve(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	o := Options{Observe: func(command string) func(string) {
		return func(reply string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, command+" "+reply)
		}
	}}
	inWorld(t, o, func(w *world) {
		c := w.dial()
		c.ask("use mail", "USING mail")
		c.ask("put 0 0 60 2\nhi", "INSERTED 1")
		c.ask("delete 7", "NOT_FOUND")
		c.ask("reserve-with-timeout 0", "TIMED_OUT")
		c.ask("nonsense", "UNKNOWN_COMMAND")
		mu.Lock()
		defer mu.Unlock()
		want := []string{"use USING", "put INSERTED", "delete NOT_FOUND", "reserve-with-timeout TIMED_OUT"}
		if !slices.Equal(seen, want) {
			t.Errorf("commands: %q, want %q", seen, want)
		}
	})
}
