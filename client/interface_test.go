package client_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
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

// The same of work queues. What the library has besides is for transactions, servers, and who holds the store.
func TestSameMethodsOfJobs(t *testing.T) {
	only := map[string]bool{"In": true, "Sweep": true, "Recalls": true, "Search": true, "Held": true}
	library, remote := reflect.TypeFor[*work.Queue[string]](), reflect.TypeFor[*client.WorkQueue[string]]()
	for i := range library.NumMethod() {
		m := library.Method(i)
		if only[m.Name] {
			continue
		}
		r, ok := remote.MethodByName(m.Name)
		switch {
		case !ok:
			t.Errorf("a client's work queue has no %s", m.Name)
		case signature(m) != signature(r):
			t.Errorf("%s of a client is %s, and of the library %s", m.Name, signature(r), signature(m))
		}
	}
	all := methods(library)
	for name := range methods(remote) {
		if !all[name] {
			t.Errorf("the library's work queue has no %s", name)
		}
	}
}

// signature is that of a method, without its receiver.
func signature(m reflect.Method) string {
	_, rest, _ := strings.Cut(m.Type.String(), "(")
	_, rest, _ = strings.Cut(strings.Replace(rest, ")", ",)", 1), ",")
	return rest
}

func methods(of reflect.Type) map[string]bool {
	all := make(map[string]bool)
	for i := range of.NumMethod() {
		all[of.Method(i).Name] = true
	}
	return all
}
