// Package web carries the built user interface inside the binary.
//
// The files under dist come from `npm run build` and are not in version control; a committed
// placeholder keeps the package building without Node. Dist tells the two cases apart, so that a
// server without the interface can say so instead of answering with an empty page.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var files embed.FS

// Dist returns the built interface, rooted where index.html lies, and whether it was built at all.
// Files under assets/ have a hash of their content in their names and may be cached for ever;
// index.html may not. The file system is read-only and safe for concurrent use.
func Dist() (fs.FS, bool) {
	dist, err := fs.Sub(files, "dist")
	if err != nil {
		return nil, false
	}
	if _, err := fs.Stat(dist, "index.html"); err != nil {
		return nil, false
	}
	return dist, true
}
