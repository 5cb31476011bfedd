package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill returns the bill of materials of a program: the modules that the linker recorded in it, the standard library,
// and the packages of the UI that it carries. It is read from the program itself, so it cannot differ from what runs.
func (s *source) bill(program string) (*cdx.BOM, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	licences, err := s.licences()
	if err != nil {
		return nil, err
	}
	sum, err := fileSum(program)
	if err != nil {
		return nil, err
	}
	main := cdx.Component{BOMRef: s.Name, Type: cdx.ComponentTypeApplication, Name: s.Name, Version: s.version,
		PackageURL: "pkg:golang/" + info.Main.Path + "@v" + s.version, Licenses: licencesOf(s.Licence),
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}}
	parts := []cdx.Component{library("pkg:golang/std@"+strings.TrimPrefix(info.GoVersion, "go"), "std",
		strings.TrimPrefix(info.GoVersion, "go"), "BSD-3-Clause")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		licence, ok := licences[m.Path]
		if !ok {
			return nil, fmt.Errorf("NOTICE has no licence of %s, which %s carries: add it there", m.Path, s.Name)
		}
		c := library("pkg:golang/"+m.Path+"@"+m.Version, m.Path, m.Version, licence)
		if b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && m.Sum != "" {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(b)}}
		}
		parts = append(parts, c)
	}
	ui, err := s.packagesOfUI()
	if err != nil {
		return nil, err
	}
	parts = append(parts, ui...)
	slices.SortFunc(parts, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.BOMRef
	}
	b := cdx.NewBOM()
	b.SerialNumber = "urn:uuid:" + uuidOf(sum)
	b.Metadata = &cdx.Metadata{Timestamp: s.time.Format("2006-01-02T15:04:05Z"), Component: &main}
	b.Components = &parts
	b.Dependencies = &[]cdx.Dependency{{Ref: s.Name, Dependencies: &refs}}
	b.Compositions = &[]cdx.Composition{{Aggregate: cdx.CompositionAggregateComplete,
		Assemblies: &[]cdx.BOMReference{cdx.BOMReference(s.Name)}}}
	return b, nil
}

func library(purl, name, version, licence string) cdx.Component {
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: purl,
		Licenses: licencesOf(licence)}
}

var (
	noticeEntry = regexp.MustCompile(`(?m)^([\w@./-]+)\n  (\S.*)$`)
	oneLicence  = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)
	between     = regexp.MustCompile(`, | and `)
)

// licences returns the licence of each entry in NOTICE by its name.
func (s *source) licences() (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(s.root, "NOTICE"))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, m := range noticeEntry.FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = m[2]
	}
	return all, nil
}

// licencesOf writes a licence of NOTICE or of a lock file as CycloneDX does: an identifier, an expression, or, where
// the module has no licence of its own, words.
func licencesOf(text string) *cdx.Licenses {
	switch list := between.Split(text, -1); {
	case oneLicence.MatchString(text):
		return &cdx.Licenses{{License: &cdx.License{ID: text}}}
	case len(list) > 1 && !slices.ContainsFunc(list, func(l string) bool { return !oneLicence.MatchString(l) }):
		return &cdx.Licenses{{Expression: strings.Join(list, " AND ")}}
	case strings.HasPrefix(text, "(") && strings.HasSuffix(text, ")"):
		return &cdx.Licenses{{Expression: text}}
	}
	return &cdx.Licenses{{License: &cdx.License{Name: text}}}
}

// packagesOfUI returns the packages of npm that the page of the UI may carry: those of the lock file that are not for
// building and testing alone.
func (s *source) packagesOfUI() (all []cdx.Component, err error) {
	text, err := os.ReadFile(filepath.Join(s.root, "web", "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License, Integrity string
			Dev, DevOptional, Optional  bool
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("web/package-lock.json: %w", err)
	}
	seen := map[string]bool{}
	for where, p := range lock.Packages {
		i := strings.LastIndex(where, "node_modules/")
		if i < 0 || p.Dev || p.DevOptional || p.Optional {
			continue
		}
		name := where[i+len("node_modules/"):]
		purl := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + p.Version
		if seen[purl] {
			continue
		}
		seen[purl] = true
		c := library(purl, name, p.Version, cmp.Or(p.License, "no licence in the lock file"))
		if b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Integrity, "sha512-")); err == nil && len(b) == 64 {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(b)}}
		}
		all = append(all, c)
	}
	return all, nil
}

// writeBill writes the bill of materials of a program in CycloneDX's JSON.
func (s *source) writeBill(program, to string) error {
	b, err := s.bill(program)
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	return cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(b)
}

func fileSum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// uuidOf makes a UUID of version 8 out of a checksum, so that the same program has the same serial number.
func uuidOf(sum string) string {
	b := []byte(sum[:32])
	b[12], b[16] = '8', 'a'
	return fmt.Sprintf("%s-%s-%s-%s-%s", b[:8], b[8:12], b[12:16], b[16:20], b[20:])
}
