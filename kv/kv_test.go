package kv_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
)

// fake is a store that only its URL is known of.
type fake struct {
	kv.DB
	url string
}

func TestOpenChoosesTheEngineByScheme(t *testing.T) {
	failed := errors.New("failed")
	kv.Register("fake", func(_ context.Context, url string) (kv.DB, error) { return fake{url: url}, nil })
	kv.Register("failing", func(context.Context, string) (kv.DB, error) { return nil, failed })
	for _, url := range []string{"fake:", "fake://host:1/path?option=1"} {
		if db, err := kv.Open(t.Context(), url); err != nil || db != (fake{url: url}) {
			t.Errorf("Open(%q) = %v, %v; want the engine to get the whole URL", url, db, err)
		}
	}
	if _, err := kv.Open(t.Context(), "failing:x"); err != failed {
		t.Errorf("Open returned %v, want the engine's error", err)
	}
	kv.Register("typed", func(context.Context, string) (kv.DB, error) { return (*fake)(nil), failed })
	if db, err := kv.Open(t.Context(), "typed:x"); db != nil || err != failed {
		t.Errorf("Open returned %v, %v, want no store, and the engine's error", db, err)
	}
	_, err := kv.Open(t.Context(), "missing://user:secret@host")
	if err == nil || !strings.Contains(err.Error(), `"missing:"`) || !strings.Contains(err.Error(), "fake") {
		t.Errorf("Open of an unknown scheme returned %v, want an error with the scheme and those that there are", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error repeats a password: %v", err)
	}
	if got := kv.Schemes(); !slices.IsSorted(got) || !slices.Contains(got, "fake") || !slices.Contains(got, "failing") {
		t.Errorf("Schemes() = %q, want all that were registered, sorted", got)
	}
}

func TestLimitsCheck(t *testing.T) {
	limits := kv.Limits{Key: 3, Value: 4, Transaction: 10, Operations: 5}
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"a key", limits.CheckKey([]byte("abc")), nil},
		{"a key with 0xff inside", limits.CheckKey([]byte("\xfe\xff")), nil},
		{"no key", limits.CheckKey(nil), kv.ErrInvalid},
		{"a reserved key", limits.CheckKey([]byte("\xffab")), kv.ErrInvalid},
		{"a long key", limits.CheckKey([]byte("abcd")), &kv.TooLargeError{What: "key", Size: 4, Limit: 3, Unit: "bytes"}},
		{"a pair", limits.CheckSet([]byte("abc"), []byte("1234")), nil},
		{"a pair without a key", limits.CheckSet(nil, nil), kv.ErrInvalid},
		{"a large value", limits.CheckSet([]byte("a"), []byte("12345")), &kv.TooLargeError{What: "value", Size: 5, Limit: 4, Unit: "bytes"}},
		{"a transaction", limits.CheckTransaction(10, 5), nil},
		{"a large one", limits.CheckTransaction(11, 5), &kv.TooLargeError{What: "transaction", Size: 11, Limit: 10, Unit: "bytes"}},
		{"a long one", limits.CheckTransaction(10, 6), &kv.TooLargeError{What: "transaction", Size: 6, Limit: 5, Unit: "operations"}},
		{"no limits", firstOf(kv.Limits{}.CheckSet(make([]byte, 1e6), make([]byte, 1e6)), kv.Limits{}.CheckTransaction(1e9, 1e9)), nil},
	} {
		var got, want *kv.TooLargeError
		if errors.As(c.want, &want) {
			if !errors.As(c.err, &got) || *got != *want || !errors.Is(c.err, kv.ErrTooLarge) {
				t.Errorf("%s: error %v, want %v", c.name, c.err, c.want)
			}
		} else if !errors.Is(c.err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, c.err, c.want)
		}
	}
}

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestTooLargeErrorSaysAll(t *testing.T) {
	err := fmt.Errorf("push: %w", &kv.TooLargeError{What: "value", Size: 123, Limit: 45, Unit: "bytes"})
	for _, part := range []string{"value", "123 bytes", "45"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if errors.Is(err, kv.ErrInvalid) || errors.Is(err, context.Canceled) {
		t.Errorf("error %q matches others than ErrTooLarge", err)
	}
}

// unread is a reader that can't read, and has no method of its own for last keys.
type unread struct {
	kv.Reader
	err error
}

func (u unread) Range(kv.Range, kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) { yield(kv.KeyValue{}, u.err) }
}

func TestLastKeyErrors(t *testing.T) {
	r := unread{err: errors.New("failed")}
	span := kv.PrefixRange([]byte("a"))
	if _, err := kvext.LastKey(r, span, span); err != r.err {
		t.Errorf("LastKey returned %v", err)
	}
	if _, err := kvext.LastKeys(r, []kv.Range{span}, span, nil); err != r.err {
		t.Errorf("LastKeys returned %v", err)
	}
}
