package config

import (
	"errors"
	"io"
	"os"

	"github.com/dvt-engine/dvt/destination"
)

// ReadDestinations reads a file of destinations.
func ReadDestinations(path string) ([]destination.Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.New("the file cannot be opened: check that it exists and that this process may read it")
	}
	defer func() { _ = f.Close() }()
	doc, err := io.ReadAll(io.LimitReader(f, destination.MaxFile+1))
	if err != nil {
		return nil, errors.New("the file cannot be read")
	}
	return destination.Parse(doc)
}

// destinationSecrets returns the files of secrets that the file of destinations names. A file that is wrong has none:
// the server does not start with it, and says why.
func (c *Config) destinationSecrets() (paths []string) {
	if c.Destinations == "" {
		return nil
	}
	all, err := ReadDestinations(c.Destinations)
	if err != nil {
		return nil
	}
	for _, d := range all {
		for _, s := range d.Secrets {
			paths = append(paths, s.File)
		}
	}
	return paths
}
