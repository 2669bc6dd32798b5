package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/version"
)

var update = flag.Bool("update", false, "write docs/reference/openapi.yaml")

const description = "../../../docs/reference/openapi.yaml"

// The description in docs is what is served.
func TestOpenAPI(t *testing.T) {
	served := newFixture(t).call("GET /openapi.yaml", "").Body.Bytes()
	build := []byte("\n  version: " + version.Read().Version + "\n")
	testkit.Equal(t, "the build is its version", bytes.Count(served, build), 1)
	served = bytes.Replace(served, build, []byte("\n  version: v1\n"), 1)
	if *update {
		testkit.NoError(t, os.WriteFile(description, served, 0o644))
	}
	written, err := os.ReadFile(description)
	testkit.NoError(t, err)
	if string(written) != string(served) {
		t.Error("docs/reference/openapi.yaml is not what is served: go test ./server/internal/api -run OpenAPI -update writes it")
	}
}

type operationInfo struct{ OperationID, Summary string }

// operations calls do with each request that there is, with a body that it takes.
func operations(t *testing.T, f *fixture, do func(op operationInfo, request, body string)) {
	bodies := map[string]string{
		"add-items": `{"items":[{"text":"a"}]}`, "put-jobs": `{"jobs":[{"text":"a"}]}`, "make-queue": `{"kind":"queue"}`,
		"move-items": `{"from":"q","to":"r"}`, "ack-jobs": `{"jobs":[]}`, "change-job": `{"priority":1}`,
		"put-periodic": `{"text":"a","cron":"@hourly"}`, "bury-job": `{}`, "put-settings": `{"concurrency":2}`, "start-bulk": `{"do":"kick","all":true}`,
	}
	for _, id := range []string{"ack-job", "extend-job", "release-job", "fail-job"} {
		bodies[id] = `{"token":"1-1-gmd3-0"}`
	}
	var api struct {
		Paths map[string]map[string]operationInfo
	}
	testkit.NoError(t, json.Unmarshal(f.call("GET /openapi.json", "").Body.Bytes(), &api))
	n := 0
	for path, methods := range api.Paths {
		path = strings.NewReplacer("{q}", "q", "{id}", "1", "{name}", "p").Replace(path)
		for method, op := range methods {
			n++
			do(op, strings.ToUpper(method)+" "+path, bodies[op.OperationID])
		}
	}
	if n < 25 {
		t.Fatalf("only %d operations", n)
	}
}

// A caller without a grant can do nothing.
func TestForbidden(t *testing.T) {
	f := newFixture(t)
	f.want(200, `{"added":1}`, "POST /v1/queues/q/items", `{"items":[{"text":"a"}]}`)
	f.stop() // streams of events end
	operations(t, f, func(op operationInfo, request, body string) {
		w := httptest.NewRecorder()
		f.mux.ServeHTTP(w, newRequest(t.Context(), request, body))
		switch {
		case op.OperationID == "list-queues" && w.Body.String() == `{"queues":[]}`+"\n":
		case op.OperationID == "watch-queues" && w.Body.Len() == 0:
		case w.Code != http.StatusForbidden:
			t.Errorf("%s %s: %d %s", op.OperationID, request, w.Code, w.Body)
		}
	})
	f.want(200, `{"items":[{"text":"a"}]}`, "POST /v1/queues/q/take", "")
}

var sentence = regexp.MustCompile(`^[A-Z][^.]*$`)

// Each request says what it does, in one line without a full stop.
func TestSummaries(t *testing.T) {
	operations(t, newFixture(t), func(op operationInfo, request, _ string) {
		if !sentence.MatchString(op.Summary) || op.OperationID == "" {
			t.Errorf("%s: %q", request, op.Summary)
		}
	})
}
