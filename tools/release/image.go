package main

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	programDir = "usr/bin"
	roots      = "etc/ssl/certs/ca-certificates.crt"
	zones      = "usr/share/zoneinfo.zip"
	nobodyID   = 65532
)

// programLayer returns the only layer of the image of a platform: the program, the authorities of TLS, the time zones,
// and the directories that a process may change.
func (s *source) programLayer(program string) (v1.Layer, error) {
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find the time zones of Go: %w", err)
	}
	zoneFile := filepath.Join(strings.TrimSpace(string(goRoot)), "lib", "time", "zoneinfo.zip")
	user := fmt.Sprintf("%s:x:%d:%d:%s:/%s:/sbin/nologin\n", s.Name, nobodyID, nobodyID, s.Name, s.directory())
	entries := []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\n%s:x:%d:\n", s.Name, nobodyID)},
		{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/:/sbin/nologin\n" + user)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: roots, mode: 0o644, content: rootCertificates()},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: programDir + "/", mode: 0o755},
		{name: programDir + "/" + s.Name, mode: 0o755, file: program},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/doc/", mode: 0o755},
		{name: "usr/share/doc/" + s.Name + "/", mode: 0o755},
	}
	for _, f := range s.Files {
		entries = append(entries, entry{name: "usr/share/doc/" + s.Name + "/" + filepath.Base(f), mode: 0o644,
			file: filepath.Join(s.root, f)})
	}
	entries = append(entries, entry{name: zones, mode: 0o644, file: zoneFile})
	for i, c := range s.directory() {
		if c == '/' {
			entries = append(entries, entry{name: s.directory()[:i+1], mode: 0o755})
		}
	}
	entries = append(entries, entry{name: s.directory() + "/", mode: 0o750, uid: nobodyID})
	return s.layer(entries)
}

// directory returns the working directory without a leading slash, as names in layers are.
func (s *source) directory() string { return strings.Trim(s.Image.Directory, "/") }

// layer compresses entries once and keeps the result in memory.
func (s *source) layer(entries []entry) (v1.Layer, error) {
	open := func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(s.writeTar(w, entries)) }()
		return r, nil
	}
	return tarball.LayerFromOpener(open, tarball.WithCompressionLevel(gzip.DefaultCompression),
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// rootCertificates returns the authorities of Mozilla without those that have further conditions, which the format of
// the file cannot express.
func rootCertificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer refuses nothing
		}
	}
	return b.Bytes()
}

// labels returns the labels of OCI that say where an image comes from.
func (s *source) labels(title, description string) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":       title,
		prefix + "description": description,
		prefix + "source":      s.Source,
		prefix + "url":         s.Source,
		prefix + "licenses":    s.Licence,
		prefix + "version":     s.version,
		prefix + "revision":    s.revision,
		prefix + "created":     s.time.Format("2006-01-02T15:04:05Z"),
	}
}

// imageOf returns the image of a platform with the given layers.
func (s *source) imageOf(p platform, labels, env map[string]string, layers ...v1.Layer) (v1.Image, error) {
	c := &v1.ConfigFile{OS: p.os, Architecture: p.arch, Created: v1.Time{Time: s.time},
		RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{User: s.Image.User, WorkingDir: "/" + s.directory(),
			Entrypoint: []string{"/" + programDir + "/" + s.Name}, Labels: labels}}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		c.Config.Env = append(c.Config.Env, name+"="+env[name])
	}
	img, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON), c)
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		add := mutate.Addendum{Layer: l, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: s.time},
			CreatedBy: "make image"}}
		if img, err = mutate.Append(img, add); err != nil {
			return nil, err
		}
	}
	size, err := layersSize(img)
	if err != nil {
		return nil, err
	}
	if limit := s.Image.MaxMegabyte * 1_000_000; len(layers) == 1 && size > limit {
		return nil, fmt.Errorf("the image for %s has %d bytes, more than the %d that %s allows", p, size, limit, configFile)
	}
	return img, nil
}

func layersSize(img v1.Image) (sum int64, err error) {
	m, err := img.Manifest()
	if err != nil {
		return 0, err
	}
	for _, l := range m.Layers {
		sum += l.Size
	}
	return sum, nil
}

// writeLayout writes the images of all platforms as one index into a directory in the layout of OCI, and returns the
// digest by which people pull the image. It replaces the directory.
func (s *source) writeLayout(dir string, images map[platform]v1.Image) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	byName := func(a, b platform) int { return strings.Compare(a.String(), b.String()) }
	for _, p := range slices.SortedFunc(maps.Keys(images), byName) {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: images[p],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
	}
	if err := os.RemoveAll(dir); err != nil {
		return v1.Hash{}, err
	}
	to, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return v1.Hash{}, err
	}
	name := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": s.version})
	if err := to.AppendIndex(index, name); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// buildImage writes the layout of the image that has the given programs, by platform.
func (s *source) buildImage(dir string, programs map[platform]string) (v1.Hash, error) {
	images := map[platform]v1.Image{}
	for p, program := range programs {
		l, err := s.programLayer(program)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("layer for %s: %w", p, err)
		}
		if images[p], err = s.imageOf(p, s.labels(s.Image.Title, s.Image.Description), s.Image.Env, l); err != nil {
			return v1.Hash{}, err
		}
	}
	return s.writeLayout(dir, images)
}
