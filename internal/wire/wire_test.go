package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/work"
	"github.com/google/go-cmp/cmp"
)

// Of a payload there is one form, and its bytes are what that says.
func TestPayload(t *testing.T) {
	for text, want := range map[string]string{
		`{"text":"a"}`: "a", `{"text":""}`: "", `{"base64":"/w=="}`: "\xff", `{"base64":""}`: "",
		`{"json": { "a" : [ 1, "b c" ] } }`: `{"a":[1,"b c"]}`, `{"json":null}`: "null",
		`{}`: "0 of json, text", `{"text":null}`: "0 of json, text", `{"text":"a","base64":""}`: "2 of json, text",
		`{"json":1,"text":"","base64":""}`: "3 of json, text", `{"base64":"a"}`: "base64", `{"text":1}`: "number",
	} {
		var p Payload
		err := json.Unmarshal([]byte(text), &p)
		if err == nil {
			err = p.Check()
		}
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
			continue
		}
		if got := string(p.Bytes()); got != want || p.Size() < len(got) {
			t.Errorf("%s is %q of up to %d bytes, want %q", text, got, p.Size(), want)
		}
		again := Base64(p.Bytes())
		testkit.Equal(t, text, string(roundTrip(t, again).Bytes()), want)
	}
}

func roundTrip[T any](t *testing.T, v T) (again T) {
	t.Helper()
	b, err := json.Marshal(v)
	testkit.NoError(t, err)
	testkit.NoError(t, json.Unmarshal(b, &again))
	return again
}

func TestTexts(t *testing.T) {
	for text, want := range map[string]string{
		"90s": "1m30s", "1.5ms": "1.5ms", "0": "0s", "2562047h47m16.854775807s": "2562047h47m16.854775807s",
		"": "no duration", "5": "no duration", "-1s": "can't be negative", "1 h": "no duration", "2562048h": "no duration",
	} {
		var d Duration
		err := d.UnmarshalText([]byte(text))
		got, _ := d.MarshalText()
		wantText(t, text, string(got), err, want)
	}
	for text, want := range map[string]string{"AWNvbnE": "AWNvbnE", "": "", "_-8": "_-8", "/w==": "has to be the next of another page", "A": "has to be the next"} {
		var p Place
		err := p.UnmarshalText([]byte(text))
		testkit.Equal(t, text+" is zero", p.IsZero(), len(p.Key) == 0)
		got, _ := p.MarshalText()
		wantText(t, text, string(got), err, want)
	}
}

// wantText checks that a text is read as one that is written, or the error says why not.
func wantText(t *testing.T, text, got string, err error, want string) {
	t.Helper()
	if err != nil {
		got = err.Error()
	}
	if got != want && (err == nil || !strings.Contains(got, want)) {
		t.Errorf("%q is %q, want %q", text, got, want)
	}
}

func same[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("it is not the same (-want +got):\n%s", diff)
	}
}

// What package work has comes over the wire as it is.
func TestWork(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC)
	for _, j := range []work.Job{
		{},
		{Priority: -5, Delay: time.Hour, Key: "k", Unique: "u", UniqueFor: time.Minute, MaxAttempts: -1, Lease: time.Second, Meta: map[string]string{"a": "b"}},
		{At: at},
	} {
		again := roundTrip(t, NewJobOf([]byte("\x00"), j))
		same(t, again.Job(), j)
		testkit.Equal(t, "payload", string(again.Bytes()), "\x00")
	}
	for _, f := range []work.Filter{
		{}, {State: work.Dead, Key: "k", Contains: "c", MinAttempts: 3, Holder: "h", Before: at, Reverse: true},
	} {
		again, err := roundTrip(t, FilterOf(f)).Filter()
		testkit.NoError(t, err)
		same(t, again, f)
	}
	_, err := Filter{State: "asleep"}.Filter()
	if err == nil || !strings.Contains(err.Error(), `no state "asleep"`) {
		t.Errorf("a state that there is not: %v", err)
	}
	info := InfoOf(&work.Info[[]byte]{ID: 7, State: work.Leased, Time: at, History: work.History{Delay: time.Second, Kicks: 2}})
	same(t, roundTrip(t, info), JobInfo{ID: 7, State: "leased", Time: at, History: JobHistory{Delay: Duration{time.Second}, Kicks: 2}})
}
