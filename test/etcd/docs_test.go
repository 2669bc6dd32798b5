package etcd_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/etcd"
	"github.com/conq-go/conq/kv/foundationdb"
	"github.com/conq-go/conq/kv/memory"
)

// The pages that say what engines take.
const (
	enginesPage = "../../docs/engines.md"
	limitsPage  = "../../docs/reference/limits.md"
)

// section returns a part of a page.
func section(t *testing.T, file, title string) string {
	t.Helper()
	page, err := os.ReadFile(file)
	testkit.NoError(t, err)
	_, part, found := strings.Cut(string(page), "\n## "+title+"\n")
	if !found {
		t.Fatalf("%s has no section %q", file, title)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	return part
}

// The limits that the page on limits tells are those of open stores.
func TestEnginesPageLimits(t *testing.T) {
	store, err := embedded.Open(t.Context(), t.TempDir(), embedded.Options{})
	testkit.NoError(t, err)
	defer store.Close()
	inMemory := memory.New(memory.Options{})
	defer inMemory.Close()
	cluster := open(t, startCluster(t, clusterOptions{}).options())
	rows := map[string][]string{}
	for line := range strings.Lines(section(t, limitsPage, "Limits")) {
		if cells := strings.Split(strings.Trim(line, "|\n "), " | "); len(cells) == 5 {
			rows[cells[0]] = cells[1:]
		}
	}
	number := func(n int) string {
		text := strconv.Itoa(n)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	}
	or := func(is bool, yes, no string) string {
		if is {
			return yes
		}
		return no
	}
	for column, db := range []kv.DB{store, inMemory, cluster} {
		l := db.Limits()
		for name, want := range map[string]string{
			"key": number(l.Key), "value": number(l.Value), "transaction": number(l.Transaction),
			"largest item":                number(l.Transaction / 2),
			"operations a transaction":    or(l.Operations == 0, "any", number(l.Operations)),
			"age of a transaction":        or(l.Age == 0, "any", fmt.Sprintf("%.0f s", l.Age.Seconds())),
			"shared with other processes": or(l.Shared, "yes", "no"), "commits of unknown outcome": or(l.UnknownCommits, "yes", "no"),
		} {
			if row := rows[name]; row == nil || row[column] != want {
				t.Errorf("%s, row %q, column %d: %q, want %q", limitsPage, name, column+1, row, want)
			}
		}
	}
	testLargestBatches(t, cluster, rows)
}

// testLargestBatches looks how many items one transaction takes on etcd.
func testLargestBatches(t *testing.T, cluster kv.DB, rows map[string][]string) {
	cell := func(row string) int {
		text, _, _ := strings.Cut(rows[row][2], ",")
		n, err := strconv.Atoi(text)
		testkit.NoError(t, err)
		return n
	}
	q, err := conq.OpenQueue(t.Context(), cluster, "q", conq.String())
	testkit.NoError(t, err)
	most := cell("items in one `EnqueueAll` or `PushAll`, at most")
	testkit.NoError(t, q.EnqueueAll(t.Context(), make([]string, most)))
	if err := q.EnqueueAll(t.Context(), make([]string, most+1)); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("EnqueueAll of %d items: error %v, want ErrTooLarge", most+1, err)
	}
	got, err := q.DequeueN(t.Context(), most)
	if want := cell("items in one `DequeueN` or `PopN`, at most"); err != nil || len(got) != want {
		t.Errorf("DequeueN has returned %d items and error %v, want %d", len(got), err, want)
	}
}

// The URLs of the page are URLs that the engines take.
func TestEnginesPageURLs(t *testing.T) {
	part, files := section(t, enginesPage, "URLs"), newCerts(t)
	t.Chdir(t.TempDir())
	t.Setenv(etcd.PasswordVariable, "secret")
	for name, file := range map[string]string{"ca.pem": files.ca, "me.pem": files.cert, "me.key": files.key} {
		bytes, err := os.ReadFile(file)
		testkit.NoError(t, err)
		testkit.NoError(t, os.WriteFile(name, bytes, 0o600))
	}
	counts := map[string]int{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(part, -1) {
		url := match[1]
		scheme, _, _ := strings.Cut(url, ":")
		counts[scheme]++
		switch scheme {
		case "etcd":
			if _, err := etcd.ParseURL(url); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		case "foundationdb": // which looks at the options first
			if _, err := conq.Open(t.Context(), url); !errors.Is(err, foundationdb.ErrNotBuilt) {
				t.Errorf("%s: error %v, want ErrNotBuilt", url, err)
			}
		default:
			db, err := conq.Open(t.Context(), url)
			if err != nil {
				t.Errorf("%s: %v", url, err)
				continue
			}
			testkit.NoError(t, db.Close())
		}
	}
	for scheme, least := range map[string]int{"data": 1, "embedded": 3, "memory": 1, "etcd": 10, "foundationdb": 4} {
		if counts[scheme] < least {
			t.Errorf("%d URLs of %s, want %d or more", counts[scheme], scheme, least)
		}
	}
}
