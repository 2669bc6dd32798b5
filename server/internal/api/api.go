// Package api is the HTTP API: each request is a verb of the library. Descriptions, validation and code are of
// the same Go types.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"sync/atomic"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/once"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Options are what the API needs of its server. All are needed.
type Options struct {
	Queues     *queues.Set
	Logger     *slog.Logger
	Stopping   context.Context // ends when the server stops: calls that wait return then
	Answers    *once.Answers
	MaxBody    int64 // bytes
	MaxWaiters int64 // requests that wait
}

type api struct {
	Options
	huma.API
	waiters atomic.Int64
}

// Register adds the API to a mux.
func Register(mux *http.ServeMux, o Options) {
	a := &api{Options: o, API: humago.New(mux, config())}
	a.registerQueues()
	a.registerItems()
}

func config() huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI:    "3.1.0",
			Info:       &huma.Info{Title: "conq", Version: "1", Description: "Durable, transactional queues over HTTP."},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)},
		},
		OpenAPIPath:                  "/openapi",
		Formats:                      huma.DefaultFormats,
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
}

// add registers an operation, of which each error is told as RFC 9457 has it.
func add[I, O any](a *api, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	op.MaxBodyBytes = a.MaxBody
	huma.Register(a.API, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, problem(err)
		}
		return out, nil
	})
}

type mediaTypes map[string]*huma.MediaType

// mediaOf describes JSON of the type of v.
func (a *api) mediaOf(v any) *huma.MediaType {
	return &huma.MediaType{Schema: a.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")}
}

// binary describes bytes.
func binary() *huma.MediaType {
	return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
}

func responses(description string, types mediaTypes) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {Description: description, Content: types}}
}

// describeBody describes a body that its handler reads.
func (a *api) describeBody(path string, types mediaTypes) {
	a.OpenAPI().Paths[path].Post.RequestBody = &huma.RequestBody{Required: true, Content: types}
}

type queueInfo struct {
	Name string    `json:"name"`
	Kind conq.Kind `json:"kind" enum:"queue,priority queue,work queue"`
}

type queueList struct {
	Body struct {
		Queues []queueInfo `json:"queues" nullable:"false"`
	}
}

func (a *api) registerQueues() {
	add(a, huma.Operation{OperationID: "list-queues", Method: http.MethodGet, Path: "/v1/queues", Summary: "List the queues that the caller may see"}, a.list)
}

func (a *api) list(ctx context.Context, _ *struct{}) (*queueList, error) {
	all, err := a.Queues.All(ctx)
	if err != nil {
		return nil, err
	}
	out := new(queueList)
	for _, info := range all {
		if access.Check(ctx, access.Watch, info.Name) == nil {
			out.Body.Queues = append(out.Body.Queues, queueInfo{info.Name, info.Kind})
		}
	}
	return out, nil
}

func (a *api) registerItems() {
	added, items := a.mediaOf(added{}), a.mediaOf(ItemList{})
	add(a, huma.Operation{
		OperationID: "add-items", Method: http.MethodPost, Path: "/v1/queues/{q}/items", Summary: "Enqueue or push one item or many",
		Description: `A JSON body, and one of bytes, is one transaction. NDJSON is stored in batches, of 1000 items or 1 MiB at most, each of which
is one; an error in the middle says in added how many are durable. The queue is made if there is none: a priority queue, if the
first item has a priority.`,
		Responses: responses("What was added", mediaTypes{typeJSON: added}),
	}, a.addItems)
	a.describeBody("/v1/queues/{q}/items", mediaTypes{typeJSON: items, typeNDJSON: a.mediaOf(item{}), typeBytes: binary()})
	add(a, huma.Operation{
		OperationID: "take-items", Method: http.MethodPost, Path: "/v1/queues/{q}/take", Summary: "Dequeue or pop",
		Description: `Takes the first items, and waits for one if told to. A client that goes away while it waits takes nothing. When
the answer gets lost, the items are lost: what must not be lost belongs into a work queue.`,
		Responses: responses("The items that were taken, perhaps none", mediaTypes{typeJSON: items, typeNDJSON: a.mediaOf(item{}), typeBytes: binary()}),
	}, a.take)
	add(a, huma.Operation{
		OperationID: "peek-items", Method: http.MethodGet, Path: "/v1/queues/{q}/items", Summary: "Look at items, a page at a time",
	}, a.peek)
}
