// Command dist makes what a release consists of: archives, packages of Debian and RPM, bills of materials and checksums. It
// is a module of its own, so that conq depends on nothing that is needed for this only.
//
//	make dist
//
// The same commit and the same Go give the same bytes, in whichever folder and at whatever time.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/module"
)

const every = "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64"

func main() {
	log.SetFlags(0)
	root := flag.String("root", filepath.Join("..", ".."), "folder of the repository")
	out := flag.String("out", "", "folder for what is made, emptied first (default ROOT/dist)")
	platforms := flag.String("platforms", every, "what to build for, with spaces between")
	version := flag.String("version", "", "version as v1.2.3, if the sources are not in a repository; SOURCE_DATE_EPOCH is the time then")
	flag.Parse()
	for _, v := range os.Environ() { // the help has what these say
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "CONQ_") {
			os.Unsetenv(name)
		}
	}
	r := &release{root: *root, out: cmp.Or(*out, filepath.Join(*root, "dist")), tag: *version}
	err := r.identify()
	if err == nil {
		err = r.make(strings.Fields(*platforms))
	}
	if err != nil {
		log.Fatal("dist: ", err)
	}
}

// release is what is made from one commit.
type release struct {
	root, out string

	tag, revision string    // tag is as v1.2.3, or v1.2.4-0.20261130000000-0123456789ab if the commit has no tag
	date          time.Time // of the commit, which all files have
	manuals       []file    // manual pages and completions: the same on all platforms
}

// file is one that goes into archives and packages.
type file struct {
	name    string // in the archive
	content []byte
	program bool
}

// platform is a system that is built for.
type platform struct {
	system, arch string
	binary       string // its path
	info         *debug.BuildInfo
}

func (p platform) windows() bool { return p.system == "windows" }

// identify learns from the repository what the release is called, unless that is told.
func (r *release) identify() error {
	if r.tag != "" {
		seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH has to tell the time with -version: %w", err)
		}
		r.date = time.Unix(seconds, 0).UTC()
		return nil
	}
	revision, err := r.git("log", "-1", "--format=%H %ct")
	if err != nil {
		return fmt.Errorf("this is no repository: tell it -version: %w", err)
	}
	var seconds int64
	if _, err := fmt.Sscan(revision, &r.revision, &seconds); err != nil {
		return err
	}
	r.date = time.Unix(seconds, 0).UTC()
	if r.tag, err = r.git("describe", "--tags", "--exact-match", "--match", "v[0-9]*"); err != nil { // there is none
		older, _ := r.git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
		r.tag = module.PseudoVersion("v0", older, r.date, r.revision[:12])
	}
	if changes, err := r.git("status", "--porcelain"); err != nil || changes != "" {
		r.tag += "+dirty"
	}
	return nil
}

func (r *release) git(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", r.root}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}

// version is that of files and packages, without the v.
func (r *release) version() string { return strings.TrimPrefix(r.tag, "v") }

func (r *release) make(platforms []string) error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	for _, name := range platforms {
		log.Print(name)
		if err := r.makeFor(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return r.writeSums()
}

func (r *release) makeFor(name string) error {
	p, err := r.build(name)
	if err != nil {
		return err
	}
	if r.manuals == nil {
		if r.manuals, err = manuals(r.version(), r.date); err != nil {
			return err
		}
	}
	licenses, err := r.licenses(p)
	if err != nil {
		return err
	}
	if err := r.writeArchive(p, licenses); err != nil {
		return err
	}
	if p.system == "linux" {
		if err := r.writePackages(p, licenses); err != nil {
			return err
		}
	}
	return r.writeBill(p)
}

// build builds the command for a platform.
func (r *release) build(name string) (p platform, err error) {
	p.system, p.arch, _ = strings.Cut(name, "/")
	suffix := ""
	if p.windows() {
		suffix = ".exe"
	}
	p.binary = filepath.Join(r.out, "bin", p.system+"_"+p.arch, "conq"+suffix)
	target, err := filepath.Abs(p.binary)
	if err != nil {
		return p, err
	}
	flags := "-s -w"
	for _, told := range []string{"told=" + r.tag, "toldRevision=" + r.revision, "toldTime=" + r.date.Format(time.RFC3339)} {
		flags += " -X github.com/conq-go/conq/internal/version." + told
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", target, "./cmd/conq")
	cmd.Dir, cmd.Stderr = r.root, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+p.system, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return p, fmt.Errorf("go build: %w", err)
	}
	p.info, err = buildinfo.ReadFile(p.binary)
	return p, err
}

var isLicense = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)`).MatchString

// licenses returns those of all modules that are linked.
func (r *release) licenses(p platform) ([]byte, error) {
	var all bytes.Buffer
	for _, m := range p.info.Deps {
		cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", m.Path)
		cmd.Dir, cmd.Stderr = r.root, os.Stderr
		dir, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		entries, err := os.ReadDir(strings.TrimSpace(string(dir)))
		if err != nil {
			return nil, err
		}
		none := true
		for _, e := range entries {
			if e.IsDir() || !isLicense(e.Name()) {
				continue
			}
			none = false
			text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), e.Name()))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&all, "==== %s %s: %s\n\n%s\n", m.Path, m.Version, e.Name(), text)
		}
		if none {
			return nil, fmt.Errorf("%s has no license", m.Path)
		}
	}
	return all.Bytes(), nil
}

// writeSums writes the checksums of all files, for sha256sum -c.
func (r *release) writeSums() error {
	entries, err := os.ReadDir(r.out) // by name
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b), e.Name())
	}
	return r.write("SHA256SUMS", sums.Bytes())
}

func (r *release) write(name string, b []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), b, 0o644)
}

// source returns a file of the repository under another name.
func (r *release) source(name, as string) (file, error) {
	b, err := os.ReadFile(filepath.Join(r.root, name))
	return file{name: as, content: b}, err
}

// sources returns files of the repository, given as pairs of a name there and one in the archive.
func (r *release) sources(names ...string) (all []file, err error) {
	for pair := range slices.Chunk(names, 2) {
		f, err := r.source(pair[0], pair[1])
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}
