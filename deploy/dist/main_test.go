package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var platforms = flag.String("platforms", "linux/amd64", "what is built for, or all")

// Two clones of the last commit, in other folders and at other times, give the same bytes, and in these is what should be.
func TestRelease(t *testing.T) {
	if *platforms == "all" {
		*platforms = every
	}
	var first, second release
	for i, r := range []*release{&first, &second} {
		dir := filepath.Join(t.TempDir(), strings.Repeat("far/", i*3), "conq")
		must(t, os.MkdirAll(dir, 0o755))
		run(t, "git", "clone", "-q", filepath.Join("..", ".."), dir)
		*r = release{root: dir, out: filepath.Join(dir, "dist")}
		must(t, r.identify())
		must(t, r.make(strings.Fields(*platforms)))
	}
	sums := read(t, first.out, "SHA256SUMS")
	if again := read(t, second.out, "SHA256SUMS"); !bytes.Equal(sums, again) {
		t.Errorf("checksums differ:\n%s\n%s", sums, again)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = first.out
	if out, err := check.CombinedOutput(); err != nil || bytes.Count(out, []byte("\n")) < 4 {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	name := "conq_" + first.version() + "_linux_amd64"
	has(t, "archive", archived(t, first, name), name+"/conq", name+"/LICENSE", name+"/THIRD-PARTY-LICENSES", name+"/completions/_conq",
		name+"/completions/conq.ps1", name+"/man/man1/conq-dequeue.1", name+"/systemd/conq.service")
	checkBill(t, first, name)
	checkDebian(t, first)
	binary := filepath.Join(first.out, "bin", "linux_amd64", "conq")
	if said := run(t, binary, "--version"); !strings.HasPrefix(said, "conq "+first.tag+" go1") {
		t.Errorf("the command says %q, want %s", said, first.tag)
	}
}

// archived returns the names in an archive, whose files are sorted, root's and of the time of the commit.
func archived(t *testing.T, r release, name string) (names []string) {
	unzipped, err := gzip.NewReader(bytes.NewReader(read(t, r.out, name+".tar.gz")))
	must(t, err)
	for in := tar.NewReader(unzipped); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		if !h.ModTime.Equal(r.date) || h.Uid != 0 || h.Uname != "root" {
			t.Errorf("%s is of %s, %v", h.Name, h.Uname, h.ModTime)
		}
		names = append(names, h.Name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("not sorted: %q", names)
	}
	return names
}

// checkBill compares the bill of materials with what go version says.
func checkBill(t *testing.T, r release, name string) {
	var b bill
	must(t, json.Unmarshal(read(t, r.out, name+".cdx.json"), &b))
	var listed, linked []string
	for _, c := range b.Components {
		listed = append(listed, c.Name+" "+c.Version)
		if c.Name != "std" && (len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64) {
			t.Errorf("%s has the checksum %v", c.Name, c.Hashes)
		}
	}
	for line := range strings.Lines(run(t, "go", "version", "-m", filepath.Join(r.out, "bin", "linux_amd64", "conq"))) {
		if fields := strings.Fields(line); fields[0] == "dep" {
			linked = append(linked, fields[1]+" "+fields[2])
		}
	}
	if len(linked) < 30 || len(listed) != len(linked)+1 {
		t.Errorf("%d modules are listed, and %d linked", len(listed), len(linked))
	}
	has(t, "bill", listed, linked...)
}

// checkDebian looks into the package, where there is dpkg: it has no scripts, and runs the command that it installs.
func checkDebian(t *testing.T, r release) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Log("NOT CHECKED: there is no dpkg-deb")
		return
	}
	found, err := filepath.Glob(filepath.Join(r.out, "*_amd64.deb"))
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("packages: %q", found)
	}
	dir := t.TempDir()
	run(t, "dpkg-deb", "--extract", found[0], dir)
	run(t, "dpkg-deb", "--control", found[0], filepath.Join(dir, "control"))
	control, err := os.ReadDir(filepath.Join(dir, "control"))
	must(t, err)
	for _, f := range control {
		if f.Name() != "control" && f.Name() != "md5sums" {
			t.Errorf("the package has %s", f.Name())
		}
	}
	for _, unit := range []string{"conq.service", "conq-work@.service"} {
		if text := read(t, dir, "usr/lib/systemd/system/"+unit); !bytes.Contains(text, []byte("\nExecStart=/usr/bin/conq ")) {
			t.Errorf("%s does not run what is installed:\n%s", unit, text)
		}
	}
	for _, name := range []string{
		"usr/share/man/man1/conq.1.gz", "usr/share/bash-completion/completions/conq", "usr/share/zsh/vendor-completions/_conq",
		"usr/share/fish/vendor_completions.d/conq.fish", "usr/share/doc/conq/copyright",
	} {
		read(t, dir, name)
	}
	run(t, filepath.Join(dir, "usr", "bin", "conq"), "--version")
}

func TestZip(t *testing.T) {
	r := release{date: time.Unix(1e9, 0).UTC()}
	packed, err := r.zip("conq/", []file{{"a", []byte("text"), false}, {"conq.exe", nil, true}})
	must(t, err)
	in, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	must(t, err)
	for i, want := range []string{"conq/a", "conq/conq.exe"} {
		if f := in.File[i]; f.Name != want || !f.Modified.Equal(r.date) {
			t.Errorf("%s of %v, want %s of %v", f.Name, f.Modified, want, r.date)
		}
	}
}

func has(t *testing.T, what string, all []string, names ...string) {
	t.Helper()
	for _, name := range names {
		if !slices.Contains(all, name) {
			t.Errorf("%s has no %s", what, name)
		}
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	return b
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
