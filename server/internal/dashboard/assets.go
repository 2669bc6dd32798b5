package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed assets
var assetFiles embed.FS

// asset is a file that pages load, by an address that has its hash in it: it never changes.
type asset struct {
	kind, hash    string
	plain, zipped []byte
}

var assets = sync.OnceValue(func() map[string]*asset {
	all := make(map[string]*asset)
	err := fs.WalkDir(assetFiles, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := assetFiles.ReadFile(name)
		hash := sha256.Sum256(b)
		var zipped bytes.Buffer
		z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
		_, _ = z.Write(b) // to memory
		_ = z.Close()
		kind := mime.TypeByExtension(path.Ext(name))
		if kind == "" {
			kind = "text/plain; charset=utf-8"
		}
		all[path.Base(name)] = &asset{kind, hex.EncodeToString(hash[:6]), b, zipped.Bytes()}
		return err
	})
	if err != nil {
		panic(err) // they are embedded
	}
	return all
})

// assetPath returns the address of a file.
func assetPath(name string) string { return "./assets/" + assets()[name].hash + "/" + name }

func serveAsset(w http.ResponseWriter, r *http.Request) {
	a := assets()[path.Base(r.URL.Path)]
	if a == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.URL.Path, a.hash) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.zipped
	}
	_, _ = w.Write(body) // a client that has gone does not matter
}
