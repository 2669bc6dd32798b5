package dashboard

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/work"
	"golang.org/x/net/html"
)

// void are elements without an end.
var void = map[string]bool{"meta": true, "link": true, "input": true, "br": true, "hr": true, "img": true}

// validate checks that a page is well formed: that elements are closed where they should be, ids are there once, and what
// labels and descriptions name is there.
func validate(t *testing.T, path, page string) {
	t.Helper()
	ids, named := map[string]int{}, map[string]string{}
	var open []string
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		token := z.Token()
		switch kind {
		case html.StartTagToken:
			if !void[token.Data] {
				open = append(open, token.Data)
			}
			attributes(t, path, token, ids, named)
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("%s: </%s> within %v", path, token.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("%s: %v are never closed", path, open)
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("%s: %d elements have the id %q", path, n, id)
		}
	}
	for id, by := range named {
		if ids[id] == 0 {
			t.Errorf("%s: %s names %q, which is not there", path, by, id)
		}
	}
}

func attributes(t *testing.T, path string, token html.Token, ids map[string]int, named map[string]string) {
	t.Helper()
	seen := map[string]bool{}
	for _, a := range token.Attr {
		if seen[a.Key] {
			t.Errorf("%s: <%s> has %s twice", path, token.Data, a.Key)
		}
		seen[a.Key] = true
		switch a.Key {
		case "id":
			ids[a.Val]++
		case "for", "aria-labelledby", "aria-describedby":
			named[a.Val] = a.Key
		}
		if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
			t.Errorf("%s: <%s> has %s=%q", path, token.Data, a.Key, a.Val)
		}
	}
}

// Pages stay within their bounds, whatever is in the store, and others' text is only text.
func TestHostile(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	payloads := [][]byte{
		[]byte(`<script>alert(1)</script>`), []byte("a\x00b\x1b[31m"), []byte("\xff\xfe\x80"), []byte("x\u202ey\u200f\u2066"), []byte(strings.Repeat("y", 1<<20)),
		[]byte(`"><img src=x onerror=alert(1)>`), []byte("data: x\n\nevent: notice\r\n\r\n"), []byte(`{"a":"</script><script>"}`),
	}
	names := []string{"evil", `<script>alert(1)</script>`, `"onload="x`, "..", "a/b?c&d#e", "\u202etxt"}
	for _, name := range names {
		q := s.work(name)
		for _, p := range payloads {
			id, err := q.Put(ctx, p, work.Job{Key: `<b onclick=x>`, Meta: map[string]string{"<i>": "<u>"}})
			testkit.NoError(t, err)
			testkit.NoError(t, q.Bury(ctx, id, string(p)))
		}
		_, err := q.Put(ctx, payloads[0])
		testkit.NoError(t, err)
		testkit.NoError(t, q.Every(ctx, `<script>`, "@daily", payloads[0]))
		paths := []string{"/", "/?find=" + url.QueryEscape(name), link("/queue", "q", name), link("/jobs", "q", name), link("/jobs", "q", name, "state", "dead", "text", "<script>"), link("/do", "do", "purge", "q", name), "/periodic", "/store"}
		for id := range len(payloads) {
			paths = append(paths, link("/job", "q", name, "id", id+1+(len(payloads)+1)*slices.Index(names, name)))
		}
		for _, path := range paths {
			page := s.get(path, 200)
			validate(t, path, page)
			page = regexp.MustCompile(` value="[^"]*"`).ReplaceAllString(page, "") // what forms send back is as it was
			if len(page) > 400_000 {
				t.Errorf("%s has %d bytes", path, len(page))
			}
			if err := invisible(page); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			hasNot(t, page, "<script>alert", "<img src=x", "<b onclick", "<i>", "\x00", "\u202e", `"onload="x`)
		}
	}
}

// invisible returns an error if a text has characters that are not seen, or change what is.
func invisible(s string) error {
	if at := regexp.MustCompile(`[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x{200b}-\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}]`).FindStringIndex(s); at != nil {
		return fmt.Errorf("there is %q", s[max(0, at[0]-50):at[1]])
	}
	return nil
}
