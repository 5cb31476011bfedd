// Command release builds, signs and verifies the files of a release of dvt, without a container engine and without a
// network:
//
//	release check                   checks the configuration, the changelog and the licences, and lists the files
//	release image DIR               the image of dvt, in the layout of OCI
//	release build DIR               archives, images, bills of materials, checksums, notes and the provenance
//	release sign -key FILE DIR      signs the provenance, with a private key of ECDSA on P-256
//	release verify -key FILE DIR    verifies a release with the public key, without a network
//	release worker-image DIR        the image of data workers with dbt, for the platform of this machine
//	release bundle LAYOUT DIR       unpacks an image into a bundle for runc
//	release bill PROGRAM            prints the bill of materials of a program of dvt
//
// deploy/release.yaml says what is built. The same commit, version and toolchain give the same bytes in any directory:
// times are those of the commit, or SOURCE_DATE_EPOCH.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: release check | image DIR | build DIR | sign -key FILE DIR | " +
	"verify -key FILE DIR | worker-image DIR | bundle LAYOUT DIR | bill PROGRAM, with -version, -platform and -root")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	command := args[0]
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	root := flags.String("root", ".", "root of the repository")
	version := flags.String("version", "", "version of the release; default: that of the tag of the commit")
	only := flags.String("platform", "", "platforms to build, separated by commas; default: those of "+configFile)
	program := flags.String("program", "", "a program that was built before, for one platform")
	key := flags.String("key", "", "file of the key that signs or verifies, in PEM")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	arg := flags.Arg(0)
	switch {
	case command == "check" && flags.NArg() == 0:
	case command == "bundle" && flags.NArg() == 2:
		return makeBundle(arg, flags.Arg(1))
	case flags.NArg() != 1:
		return errUsage
	case command == "sign":
		return sign(ctx, arg, *key)
	case command == "verify":
		st, err := verify(ctx, arg, *key)
		if err == nil {
			fmt.Print(st.summary(arg))
		}
		return err
	}
	s, err := readSource(*root, *version)
	if err != nil {
		return err
	}
	if *only != "" {
		chosen := strings.Split(*only, ",")
		keep := func(p string) bool { return !slices.Contains(chosen, p) }
		s.Platforms, s.Image.Platforms = slices.DeleteFunc(s.Platforms, keep), slices.DeleteFunc(s.Image.Platforms, keep)
		if err := s.check(); err != nil {
			return err
		}
	}
	switch command {
	case "check":
		if err := s.dryRun(ctx); err != nil {
			return err
		}
		fmt.Printf("release %s of %s, %s:\n  %s\n", s.version, s.revision, s.time.Format(time.RFC3339),
			strings.Join(s.fileNames(), "\n  "))
		return nil
	case "image":
		return s.image(ctx, arg, *program)
	case "worker-image":
		return s.workerImage(ctx, arg, *program)
	case "build":
		return s.build(ctx, arg)
	case "bill":
		return s.writeBill(arg, os.Stdout.Name())
	}
	return errUsage
}

// image builds the image of the product. A program that was built before stands for the only platform.
func (s *source) image(ctx context.Context, dir, program string) error {
	work, err := os.MkdirTemp("", "dvt-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	programs, err := s.programs(ctx, platforms(s.Image.Platforms), work, program)
	if err != nil {
		return err
	}
	digest, err := s.buildImage(dir, programs)
	if err != nil {
		return err
	}
	fmt.Printf("%s:%s@%s in %s\n", s.Name, s.version, digest, dir)
	return nil
}

// programs compiles the program for each platform, or takes the one that was built before for the only one.
func (s *source) programs(ctx context.Context, all []platform, work, before string) (map[platform]string, error) {
	if before == "" {
		if err := s.built(); err != nil {
			return nil, err
		}
		return s.compileAll(ctx, all, work)
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("-program is for one platform, but there are %d: choose it with -platform", len(all))
	}
	return map[platform]string{all[0]: before}, nil
}

// compileAll compiles the program for each platform into a directory and returns the files.
func (s *source) compileAll(ctx context.Context, all []platform, dir string) (map[platform]string, error) {
	programs := map[platform]string{}
	for _, p := range all {
		programs[p] = filepath.Join(dir, fmt.Sprintf("%s_%s_%s", s.Name, p.os, p.arch))
		if err := s.compile(ctx, p, programs[p]); err != nil {
			return nil, err
		}
	}
	return programs, nil
}
