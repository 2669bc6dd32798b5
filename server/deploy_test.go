package server

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// The metrics that the dashboard for Grafana and the page on monitoring name are there.
func TestMetricsOfDocuments(t *testing.T) {
	url := watched(t)
	status(t, http.MethodGet, url+"/v1/queues", "")
	_, metrics := status(t, http.MethodGet, url+"/metrics", "")
	names := slices.Clone(laterMetrics)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(metrics, -1) {
		names = append(names, m[1])
		if m[2] == "histogram" {
			names = append(names, m[1]+"_bucket", m[1]+"_sum", m[1]+"_count")
		}
	}
	for _, document := range []string{"grafana.json", "monitoring.md"} {
		text, err := os.ReadFile("../docs/" + document)
		testkit.NoError(t, err)
		testkit.Equal(t, document+" is JSON", json.Valid(text), strings.HasSuffix(document, ".json"))
		found := regexp.MustCompile(`\b(?:conq|go|process)_\w+`).FindAllString(string(text), -1)
		if len(found) < 15 {
			t.Errorf("%s names only %d metrics", document, len(found))
		}
		for _, name := range found {
			if !slices.Contains(names, name) {
				t.Errorf("%s: there is no metric %s", document, name)
			}
		}
	}
}

// laterMetrics are only there when something has happened, or the store was looked at. TestMetrics of package watch has them.
var laterMetrics = []string{
	"conq_queue_items", "conq_queue_paused", "conq_queue_oldest_age_seconds", "conq_items_total", "conq_transactions_total", "conq_conflicts_total",
	"conq_batch_calls", "conq_batch_calls_sum", "conq_batch_calls_count", "conq_store_bytes", "conq_store_sync_seconds", "conq_store_sync_seconds_bucket",
}

func watched(t *testing.T) string {
	_, url := served(t, Options{})
	return url
}

// instructions returns those of a Dockerfile, with their lines joined.
func instructions(text string) (all [][2]string) {
	text = strings.ReplaceAll(regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(text, ""), "\\\n", " ")
	for _, line := range strings.Split(text, "\n") {
		if name, rest, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" {
			all = append(all, [2]string{name, strings.TrimSpace(rest)})
		}
	}
	return all
}

var knownInstructions = []string{"FROM", "ARG", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}

// The image has the command that make dist has built, no shell, and runs as a user without rights, who owns the volume.
func TestDockerfile(t *testing.T) {
	b, err := os.ReadFile("../deploy/Dockerfile")
	testkit.NoError(t, err)
	last := make(map[string]string) // of the final stage
	var copied []string
	for _, i := range instructions(string(b)) {
		if !slices.Contains(knownInstructions, i[0]) {
			t.Errorf("there is no instruction %s", i[0])
		}
		if i[0] == "FROM" {
			clear(last)
			copied = nil
		}
		if i[0] == "COPY" {
			copied = append(copied, i[1])
		}
		last[i[0]] = i[1]
	}
	testkit.Equal(t, "final image", last["FROM"], "scratch")
	for _, what := range []string{"dist/bin/linux_${TARGETARCH}/conq /conq", "--from=files --chown=65532:65532 /empty /data"} {
		testkit.Equal(t, "copied: "+what, slices.Contains(copied, what), true)
	}
	testkit.Equal(t, "user", last["USER"], "65532:65532")
	testkit.Equal(t, "something is run in the final image", last["RUN"], "")
	var entry, command []string
	testkit.NoError(t, json.Unmarshal([]byte(last["ENTRYPOINT"]), &entry))
	testkit.NoError(t, json.Unmarshal([]byte(last["CMD"]), &command))
	testkit.EqualSlices(t, "command", append(entry, command...), []string{"/conq", "serve", "--store", "/data"})
}

// systemd takes the units, where there is a systemd to ask.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	for _, unit := range []string{"conq.service", "conq-work@.service"} {
		out, _ := exec.CommandContext(context.WithoutCancel(t.Context()), analyze, "verify", "../deploy/"+unit).CombinedOutput()
		for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
			if line != "" && !strings.Contains(line, "is not executable") { // it is not installed here
				t.Errorf("%s: %s", unit, line)
			}
		}
	}
}

// A worker is stopped before its commands, and has longer to end than they have.
func TestWorkUnit(t *testing.T) {
	b, err := os.ReadFile("../deploy/conq-work@.service")
	testkit.NoError(t, err)
	for _, line := range []string{`KillMode=mixed`, `TimeoutStopSec=90`, `ExecStart=\S+/conq work %I .*--grace 60s -- \S+`} {
		testkit.Equal(t, line, regexp.MustCompile(`(?m)^`+line+`$`).Match(b), true)
	}
}
