package client_test

import (
	"reflect"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/queue"
)

var (
	_ queue.FIFO[string]     = (*conq.Queue[string])(nil)
	_ queue.FIFO[string]     = (*client.Queue[string])(nil)
	_ queue.Priority[string] = (*conq.PriorityQueue[string])(nil)
	_ queue.Priority[string] = (*client.PriorityQueue[string])(nil)
)

// A client's queue has the methods of the library's, but for those of a transaction and of staging; and no others.
func TestSameMethods(t *testing.T) {
	only := map[string]bool{"In": true, "Reclaim": true}
	for _, pair := range [][3]reflect.Type{
		{reflect.TypeFor[*conq.Queue[string]](), reflect.TypeFor[*client.Queue[string]](), reflect.TypeFor[queue.FIFO[string]]()},
		{reflect.TypeFor[*conq.PriorityQueue[string]](), reflect.TypeFor[*client.PriorityQueue[string]](), reflect.TypeFor[queue.Priority[string]]()},
	} {
		in := methods(pair[2])
		for _, of := range pair[:2] {
			for name := range methods(of) {
				if !in[name] && !only[name] {
					t.Errorf("%v has %s, which %v has not", of, name, pair[2])
				}
			}
		}
	}
}

func methods(of reflect.Type) map[string]bool {
	all := make(map[string]bool)
	for i := range of.NumMethod() {
		all[of.Method(i).Name] = true
	}
	return all
}
