package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/conq-go/conq/kv"
)

func TestPasswordsAreNotShown(t *testing.T) {
	for store, want := range map[string]string{
		"etcd://ann:s3cret@h1:2379,h2:2379/jobs": "etcd://ann:***@h1:2379,h2:2379/jobs",
		"etcd://ann:%40%2F@h1/jobs":              "etcd://ann:***@h1/jobs",
		"etcd://ann:se@cr:et@h1:2379/jobs":       "etcd://ann:***@h1:2379/jobs",
		"etcd://ann:se/cr@et@h1/jobs":            "etcd://ann:***@h1/jobs",
		"etcd://ann:se\ncr?et#@h1/jobs":          "etcd://ann:***@h1/jobs",
		"etcd://a@b/c:s3cret@h1/jobs":            "etcd://a@b/c:***@h1/jobs",
		"etcd://:s3cret@h1":                      "etcd://:***@h1",
		"etcd:ann:s3cret@h1":                     "etcd:ann:***@h1",
		"ETCD:/ann:s3cret@h1":                    "ETCD:/ann:***@h1",
		"etcd://h1:2379/jobs@home":               "etcd://h1:***@home",
		"etcd://ann@h1:2379":                     "etcd://ann@h1:2379",
		"etcd://h1:2379,h2:2379":                 "etcd://h1:2379,h2:2379",
		"embedded:/data/a:b@c":                   "embedded:/data/a:b@c",
		"./a:b@c":                                "./a:b@c",
	} {
		if got := (&app{store: store}).shownStore(); got != want {
			t.Errorf("%q is shown as %q, want %q", store, got, want)
		}
	}
}

// Nor is one in the environment, by the help, which shows what is taken without --store.
func TestHelpShowsNoPassword(t *testing.T) {
	t.Setenv("CONQ_STORE", "etcd://ann:s3cret@h1:2379/jobs")
	var out bytes.Buffer
	code := (&app{stdout: &out, stderr: &out}).run(t.Context(), []string{"ls", "--help"})
	if text := out.String(); code != exitDone || strings.Contains(text, "s3cret") || !strings.Contains(text, "etcd://ann:***@h1:2379/jobs") {
		t.Errorf("exit code %d, %s", code, text)
	}
}

// unclosable is a store that fails when it is closed.
type unclosable struct {
	kv.DB
	err error
}

func (u unclosable) Close() error { return u.err }

// A store that does not close hides no other error, and the command that was done says so.
func TestCloseFails(t *testing.T) {
	broken, other := errors.New("broken"), errors.New("other")
	open := func() (kv.DB, error) { return unclosable{err: broken}, nil }
	if err := withStore(open, func(kv.DB) error { return other }); err != other {
		t.Errorf("after another error: %v", err)
	}
	err := withStore(open, func(kv.DB) error { return nil })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "closing the store: broken; all was done before that") {
		t.Errorf("%v does not tell what was done", err)
	}
}
