// Package api is the HTTP API: each request is a verb of the library. Descriptions, validation and code are of
// the same Go types.
package api

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Options are what the API needs of its server. All are needed.
type Options struct {
	Queues   *queues.Set
	Logger   *slog.Logger
	Stopping context.Context // ends when the server stops: calls that wait return then
	MaxBody  int64           // bytes
}

type api struct {
	Options
	huma.API
}

// Register adds the API to a mux.
func Register(mux *http.ServeMux, o Options) {
	a := &api{o, humago.New(mux, config())}
	a.registerQueues()
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
