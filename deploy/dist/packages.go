package main

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const summary = "Durable, transactional queues: FIFO queues, priority queues and work queues"

// writePackages writes one for Debian and one for RPM. They have no scripts: they make no user, and start nothing.
func (r *release) writePackages(p platform, licenses []byte) error {
	for packager, zsh := range map[string]string{"deb": "vendor-completions", "rpm": "site-functions"} {
		if err := r.writePackage(p, packager, zsh, licenses); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) writePackage(p platform, packager, zsh string, licenses []byte) error {
	binary, err := os.ReadFile(p.binary)
	if err != nil {
		return err
	}
	all, err := r.installed(zsh)
	if err != nil {
		return err
	}
	all = append(all, file{"/usr/bin/conq", binary, true}, file{"/usr/share/doc/conq/THIRD-PARTY-LICENSES", licenses, false})
	dir, err := os.MkdirTemp("", "conq-package")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var contents files.Contents
	for _, f := range all { // nfpm reads files
		source := filepath.Join(dir, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(source, f.content, 0o600); err != nil {
			return err
		}
		contents = append(contents, &files.Content{
			Source: source, Destination: f.name, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode(), MTime: r.date},
		})
	}
	return r.pack(packager, p.arch, contents)
}

func (r *release) pack(packager, arch string, contents files.Contents) error {
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "conq", Platform: "linux", Arch: arch, Section: "database", Priority: "optional", MTime: r.date,
		Version: strings.ReplaceAll(r.version(), "-", "~"), VersionSchema: "none", Release: "1", // what is behind ~ comes before the release
		Maintainer: "The authors of conq <conq@users.noreply.github.com>", Description: summary, Homepage: "https://github.com/conq-go/conq", License: "Apache-2.0",
		DisableGlobbing: true,
		Overridables:    nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{BuildHost: "localhost"}},
	})
	var of nfpm.Packager = deb.Default
	if packager == "rpm" {
		of = rpm.DefaultRPM
	}
	if err := nfpm.PrepareForPackager(info, packager); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := of.Package(info, &b); err != nil {
		return err
	}
	return r.write(of.ConventionalFileName(info), b.Bytes())
}

// installed returns what a package installs beside the command.
func (r *release) installed(zsh string) (all []file, err error) {
	all, err = r.sources(
		"deploy/conq.service", "/usr/lib/systemd/system/conq.service", "deploy/conq-work@.service", "/usr/lib/systemd/system/conq-work@.service",
		"README.md", "/usr/share/doc/conq/README.md", "LICENSE", "/usr/share/doc/conq/copyright")
	for i := range all {
		if path.Ext(all[i].name) == ".service" {
			all[i].content = bytes.ReplaceAll(all[i].content, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
		}
	}
	places := map[string]string{
		"conq.bash": "/usr/share/bash-completion/completions/conq",
		"_conq":     "/usr/share/zsh/" + zsh + "/_conq",
		"conq.fish": "/usr/share/fish/vendor_completions.d/conq.fish",
	}
	for _, f := range r.manuals {
		name := path.Base(f.name)
		if strings.HasPrefix(f.name, "man/") {
			f.name = "/usr/share/" + f.name + ".gz"
			if f.content, err = gzipped(f.content); err != nil {
				return nil, err
			}
		} else {
			f.name = places[name]
		}
		if f.name != "" { // PowerShell has no place of its own
			all = append(all, f)
		}
	}
	return all, err
}
