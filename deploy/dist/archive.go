package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
)

// writeArchive writes what is unpacked anywhere: a zip for Windows, else a tar.gz.
func (r *release) writeArchive(p platform, licenses []byte) error {
	files, err := r.sources("LICENSE", "LICENSE", "README.md", "README.md", "CHANGELOG.md", "CHANGELOG.md")
	if err != nil {
		return err
	}
	if p.system == "linux" {
		units, err := r.sources("deploy/conq.service", "systemd/conq.service", "deploy/conq-work@.service", "systemd/conq-work@.service")
		if err != nil {
			return err
		}
		files = append(files, units...)
	}
	binary, err := os.ReadFile(p.binary)
	if err != nil {
		return err
	}
	files = append(files, file{filepath.Base(p.binary), binary, true}, file{"THIRD-PARTY-LICENSES", licenses, false})
	files = append(files, r.manuals...)
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	name, pack, suffix := "conq_"+r.version()+"_"+p.system+"_"+p.arch, r.tar, ".tar.gz"
	if p.windows() {
		pack, suffix = r.zip, ".zip"
	}
	packed, err := pack(name+"/", files)
	if err != nil {
		return err
	}
	return r.write(name+suffix, packed)
}

func (f file) mode() os.FileMode {
	if f.program {
		return 0o755
	}
	return 0o644
}

func (r *release) tar(dir string, files []file) ([]byte, error) {
	var b bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zipped)
	for _, f := range files {
		h := &tar.Header{Name: dir + f.name, Size: int64(len(f.content)), Mode: int64(f.mode()), ModTime: r.date, Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err = zipped.Close()
	return b.Bytes(), err
}

func (r *release) zip(dir string, files []file) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: dir + f.name, Method: zip.Deflate, Modified: r.date}
		h.SetMode(f.mode())
		to, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// gzipped is a file as manual pages are installed.
func gzipped(b []byte) ([]byte, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	err = w.Close()
	return packed.Bytes(), err
}
