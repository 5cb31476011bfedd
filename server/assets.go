package server

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"sync"

	"github.com/dvt-engine/dvt/graph"
)

// assets are the files of the UI whose names say their content: browsers keep them
// for ever. Each is compressed once, when it is first asked for, as well as can be.
type assets struct {
	files fs.FS
	// gzipped has a file for each name that gains by it, nothing else.
	gzipped map[string]func() []byte
}

func newAssets(files fs.FS) *assets {
	a := &assets{files: files, gzipped: map[string]func() []byte{}}
	entries, _ := fs.ReadDir(files, "assets") // a build without any has nothing to serve
	for _, e := range entries {
		name := "assets/" + e.Name()
		switch path.Ext(name) {
		case ".js", ".css", ".svg", ".json":
			a.gzipped[name] = sync.OnceValue(func() []byte { return gzippedFile(files, name) })
		}
	}
	return a
}

// gzippedFile is nil for a file that is not smaller in gzip.
func gzippedFile(files fs.FS, name string) []byte {
	plain, err := fs.ReadFile(files, name)
	if err != nil {
		return nil
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is one of gzip's
	}
	_, _ = z.Write(plain) // a buffer takes everything
	_ = z.Close()
	if b.Len() >= len(plain) {
		return nil
	}
	return b.Bytes()
}

// serve answers with a file below assets/, which is there.
func (a *assets) serve(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	gzipped := a.gzipped[name]
	if gzipped == nil {
		http.ServeFileFS(w, r, a.files, name)
		return
	}
	h.Add("Vary", "Accept-Encoding")
	data := []byte(nil)
	if graph.AcceptsGzip(r) {
		data = gzipped()
	}
	if data == nil {
		http.ServeFileFS(w, r, a.files, name)
		return
	}
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Content-Encoding", "gzip")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(data)
	}
}
