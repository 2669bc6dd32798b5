package cli

import (
	"bytes"
	"strings"
	"testing"
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
