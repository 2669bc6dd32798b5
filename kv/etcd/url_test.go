package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

func TestParseURL(t *testing.T) {
	t.Setenv(PasswordVariable, "from the environment")
	for url, want := range map[string]Options{
		"etcd://h":                         {Endpoints: []string{"h:2379"}},
		"etcd://h1:2379,h2:1/jobs":         {Endpoints: []string{"h1:2379", "h2:1"}, Prefix: "jobs"},
		"etcd://h/a/b":                     {Endpoints: []string{"h:2379"}, Prefix: "a/b"},
		"etcd://h/":                        {Endpoints: []string{"h:2379"}},
		"etcd://[::1]:5,[fe80::1]/%61%20b": {Endpoints: []string{"[::1]:5", "[fe80::1]:2379"}, Prefix: "a b"},
		"etcd://h?timeout=2s&patience=1m":  {Endpoints: []string{"h:2379"}, Timeout: 2 * time.Second, Patience: time.Minute},
		"etcd://me:p%40ss@h/x":             {Endpoints: []string{"h:2379"}, Prefix: "x", Username: "me", Password: "p@ss"},
		"etcd://me@h":                      {Endpoints: []string{"h:2379"}, Username: "me", Password: "from the environment"},
		"etcd://h/a%40b":                   {Endpoints: []string{"h:2379"}, Prefix: "a@b"},
		"etcd://h?user=me%40example.org":   {Endpoints: []string{"h:2379"}, Username: "me@example.org", Password: "from the environment"},
		"etcd://h?user=me":                 {Endpoints: []string{"h:2379"}, Username: "me", Password: "from the environment"},
		"etcd://h?compact=1000":            {Endpoints: []string{"h:2379"}, Compact: 1000},
		"etcd://h?tls=false":               {Endpoints: []string{"h:2379"}},
	} {
		got, err := ParseURL(url)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ParseURL(%q) = %+v, %v; want %+v", url, got, err, want)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	t.Setenv(PasswordVariable, "")
	noCertificate := filepath.Join(t.TempDir(), "empty.pem")
	testkit.NoError(t, os.WriteFile(noCertificate, nil, 0o600))
	for url, want := range map[string]string{
		"etcd:":                          "begins with etcd://",
		"etcd:h:2379":                    "begins with etcd://",
		"etcd://":                        "no host",
		"etcd:///jobs":                   "no host",
		"etcd://h,":                      `"" is not host`,
		"etcd://:2379":                   `":2379" is not host`,
		"etcd://h:0":                     `"h:0" is not host`,
		"etcd://h:port":                  `"h:port" is not host`,
		"etcd://h:65536":                 `"h:65536" is not host`,
		"etcd://a:1:2":                   `"a:1:2" is not host`,
		"etcd://::1":                     `"::1" is not host`,
		"etcd://h o":                     `"h o" is not host`,
		"etcd://[::1":                    `"[::1" is not host`,
		"etcd://h]":                      `"h]" is not host`,
		"etcd://h1;h2":                   `"h1;h2" is not host`,
		"etcd://h#jobs":                  `"h#jobs" is not host`,
		"etcd://h\n":                     `"h\n" is not host`,
		"etcd://@h":                      "the user before the @ is empty",
		"etcd://me:%@h":                  "the password before the @ is badly escaped",
		"etcd://me:secret/x@h":           "must be escaped, as %2F or %3F",
		"etcd://me:secret?x@h":           "must be escaped, as %2F or %3F",
		"etcd://me:12?secret@h":          "must be escaped, as %2F or %3F", // a host with a port, so far
		"etcd://me:12/secret@h":          "must be escaped, as %2F or %3F",
		"etcd://me:12/%zzsecret@h":       "must be escaped, as %2F or %3F",
		"etcd://me:12?%zzsecret@h":       "must be escaped, as %2F or %3F",
		"etcd://me:12/a?secret=1@h":      "must be escaped, as %2F or %3F",
		"etcd://me:p@12/%zzsecret@h":     "must be escaped, as %2F or %3F",
		"etcd://h?ca=a@b":                "as %40",
		"etcd://h/a@b":                   "as %40",
		"etcd://h?user=me:secret":        PasswordVariable,
		"etcd://me@h":                    PasswordVariable,
		"etcd://me:secret@h?user=you":    "two users",
		"etcd://h/%zz":                   `prefix "%zz"`,
		"etcd://h?x=%zz":                 "options",
		"etcd://h?retries=3":             `unknown option "retries": there are ca, cert, compact, key,`,
		"etcd://h?ca=":                   `option "ca" is empty`,
		"etcd://h?ca=1&ca=2":             `option "ca" is given 2 times`,
		"etcd://h?timeout=5":             `option "timeout" is "5"`,
		"etcd://h?patience=-1s":          `option "patience" is "-1s"`,
		"etcd://h?compact=0":             `option "compact" is "0"`,
		"etcd://h?compact=all":           `option "compact" is "all"`,
		"etcd://h?tls=yes":               `option "tls" is "yes"`,
		"etcd://h?tls=false&ca=x":        `option "tls" is false`,
		"etcd://h?cert=x":                "go together",
		"etcd://h?key=x":                 "go together",
		"etcd://h?ca=/does/not/exist":    `option "ca": open /does/not/exist`,
		"etcd://h?cert=/no&key=/no":      `options "cert" and "key": open /no`,
		"etcd://h?ca=" + noCertificate:   "no certificate",
		"etcd://h?servername=n&cert=/no": "go together",
	} {
		_, err := ParseURL(url)
		if !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseURL(%q): error %v, want ErrInvalid with %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseURL(%q): error %v shows the password", url, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for want, o := range map[string]Options{
		"no endpoint":             {},
		"endpoint 2 of 2":         {Endpoints: []string{"h:1", ""}},
		"at most 128":             {Endpoints: []string{"h:1"}, Prefix: strings.Repeat("p", 129)},
		"holds a NUL":             {Endpoints: []string{"h:1"}, Prefix: "a\x00b"},
		"may be negative":         {Endpoints: []string{"h:1"}, Timeout: -1},
		"compact -1":              {Endpoints: []string{"h:1"}, Compact: -1},
		"a password without a us": {Endpoints: []string{"h:1"}, Password: "p"},
	} {
		db, err := Open(t.Context(), o)
		if db != nil || !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%+v): error %v, want ErrInvalid with %q", o, err, want)
		}
	}
}

// Where there is no member Open ends, and says where it looked, and what it met there.
func TestOpenWithoutACluster(t *testing.T) {
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.EnableHTTP2, other.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	other.StartTLS()
	t.Cleanup(other.Close)
	address := other.Listener.Addr().String()
	for url, want := range map[string][2]string{
		"etcd://127.0.0.1:1,127.0.0.1:2?timeout=100ms": {"no answer from 127.0.0.1:1, 127.0.0.1:2 in PATIENCE: ", "connection refused"},
		"etcd://127.0.0.1:1?timeout=1h":                {"no answer from 127.0.0.1:1 in PATIENCE: ", "connection refused"},
		"etcd://127.0.0.1:1?":                          {"no answer from 127.0.0.1:1 in PATIENCE: ", "connection refused"},
		"etcd://ada:secret@127.0.0.1:1,127.0.0.1:2?":   {"no connection to 127.0.0.1:2: ", "connection refused"},
		"etcd://" + address + "?tls=true":              {"no answer from " + address, "certificate signed by unknown authority"},
		"etcd://ada:secret@" + address + "?tls=true":   {"no connection to " + address, "certificate signed by unknown authority"},
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			text, patience := "", 500*time.Millisecond
			for ; ; patience *= 4 { // on a busy machine half a second may be too short to meet anything
				_, err := kv.Open(t.Context(), fmt.Sprint(url, "&patience=", patience))
				if err == nil {
					t.Fatal("it was opened")
				}
				if text = strings.TrimSuffix(err.Error(), `"`); !strings.HasSuffix(text, context.DeadlineExceeded.Error()) || patience > time.Minute {
					break
				}
			}
			said := strings.ReplaceAll(want[0], "PATIENCE", patience.String())
			if !strings.Contains(text, said) || !strings.HasSuffix(text, want[1]) || strings.Contains(text, "secret") {
				t.Errorf("error %v, want one with %q", text, want)
			}
		})
	}
}
