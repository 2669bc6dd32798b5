// Package api is the HTTP API: each request is a verb of the library. Descriptions, validation and code are of
// the same Go types.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/conq-go/conq/internal/version"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/answers"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Options are what the API needs of its server. All are needed.
type Options struct {
	Queues     *queues.Set
	Logger     *slog.Logger
	Stopping   context.Context // ends when the server stops: calls that wait return then
	Answers    *answers.Store
	History    *watch.History
	Tasks      *queues.Tasks
	Traces     bool  // of requests go into the metadata of jobs
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
	a.UseMiddleware(a.refuseUnclear)
	a.OpenAPI().Components.Schemas.RegisterTypeAlias(reflect.TypeFor[wire.Duration](), reflect.TypeFor[duration]())
	a.OpenAPI().Components.Schemas.RegisterTypeAlias(reflect.TypeFor[wire.Timeout](), reflect.TypeFor[timeout]())
	a.registerQueues()
	a.registerItems()
	a.registerJobs()
	a.registerOperators()
	a.refuseMethods(mux)
}

// refuseMethods answers other methods at paths as /v1/jobs/{q}/reserve, which would else be those of a job with that id.
func (a *api) refuseMethods(mux *http.ServeMux) {
	paths := a.OpenAPI().Paths
	for path, item := range paths {
		parent, last := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/'):]
		sibling := paths[parent+"/{id}"]
		if sibling == nil || strings.Contains(last, "{") {
			continue
		}
		there, besides := operationsOf(item), operationsOf(sibling)
		allowed := strings.Join(slices.Sorted(maps.Keys(there)), ", ")
		for method := range besides {
			if !there[method] {
				mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Allow", allowed)
					access.NewProblem(http.StatusMethodNotAllowed, "the method is %.20q: it can be %s", r.Method, allowed).Write(w)
				})
			}
		}
	}
}

// operationsOf returns the methods that a path has.
func operationsOf(item *huma.PathItem) map[string]bool {
	methods := make(map[string]bool)
	for method, o := range map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	} {
		if o != nil {
			methods[method] = true
		}
	}
	return methods
}

// refuseUnclear refuses what net/url and net/http pass over: a parameter that does not parse would be taken for none, and so would
// a key that is empty.
func (a *api) refuseUnclear(ctx huma.Context, next func(huma.Context)) {
	r, _ := humago.Unwrap(ctx)
	if err := unclear(r); err != nil {
		huma.WriteErr(a.API, ctx, http.StatusBadRequest, err.Error())
		return
	}
	next(ctx)
}

func unclear(r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	keys := r.Header.Values("Idempotency-Key")
	twice, foreign := "", ""
	for name, values := range query {
		if len(values) > 1 {
			twice = name
		}
		if !utf8.ValidString(name) || !utf8.ValidString(values[0]) {
			foreign = name
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("the query does not parse: %w", err)
	case twice != "":
		return fmt.Errorf("the query has %.40q more than once", twice)
	case foreign != "":
		return fmt.Errorf("the query parameter %.40q is not UTF-8", foreign)
	case len(keys) > 1 || len(keys) == 1 && keys[0] == "":
		return errors.New("the Idempotency-Key has to be given once, and not empty")
	}
	return nil
}

func config() huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "conq", Version: version.Read().Version, Description: "Durable, transactional queues over HTTP.",
				License: &huma.License{Name: "Apache 2.0", Identifier: "Apache-2.0"},
			},
			Servers: []*huma.Server{{URL: "/"}},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {Type: "http", Scheme: "bearer", Description: "As conq token new makes it. On the loopback interface none may be needed."},
				},
			},
			Security: []map[string][]string{{"token": {}}, {}},
		},
		OpenAPIPath:                  "/openapi",
		Formats:                      formats(),
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
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

// describeAdding describes a body that its handler reads: a list, one alone, or bytes.
func (a *api) describeAdding(path string, list, one any) {
	either := &huma.Schema{OneOf: []*huma.Schema{a.mediaOf(list).Schema, a.mediaOf(one).Schema}}
	types := mediaTypes{typeJSON: {Schema: either}, typeNDJSON: a.mediaOf(one), typeBytes: binary()}
	a.OpenAPI().Paths[path].Post.RequestBody = &huma.RequestBody{Required: true, Content: types}
}
