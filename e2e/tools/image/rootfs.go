package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/compression"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the number that the program runs under: nobody's on any usual system.
const user = "65532"

// programPath is where the program is in the image.
const programPath = "usr/bin/pilotage"

// documents is where licences and the list of components are in the image.
const documents = "usr/share/doc/pilotage"

// file is one entry of a layer; its directories follow from its path.
type file struct {
	path    string
	mode    int64
	content []byte
}

// commonFiles is all that the image holds beside the program: who runs it, how names are resolved, whom it trusts.
func commonFiles(extra string) ([]file, error) {
	files := []file{
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/nologin\npilotage:x:" + user + ":" + user + ":pilotage:/:/nologin\n")},
		{"etc/group", 0o644, []byte("root:x:0:\npilotage:x:" + user + ":\n")},
		// The C library in the program knows these two by itself; any other one it would look for as a file.
		{"etc/nsswitch.conf", 0o644, []byte("passwd: files\ngroup: files\nhosts: files dns\n")},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots()},
	}
	if extra == "" {
		return files, nil
	}
	entries, err := os.ReadDir(extra)
	if err != nil {
		return nil, fmt.Errorf("--files: %w", err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(extra, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("--files: %w", err)
		}
		files = append(files, file{path.Join(documents, entry.Name()), 0o644, content})
	}
	return files, nil
}

// roots are the authorities that Mozilla trusts, without those that it trusts under conditions: a file of certificates
// can't say these. They serve kubeconfigs that name no authority of their own.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		block := pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}
		// A buffer takes everything.
		_ = pem.Encode(&out, &block)
	}
	return out.Bytes()
}

// archive writes files and their directories, ordered by name, all of one time and of root.
func archive(files []file, at time.Time) ([]byte, error) {
	sort.Slice(files, func(a, b int) bool { return files[a].path < files[b].path })
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	made := map[string]bool{}
	header := func(name string, mode int64, kind byte, size int) error {
		return writer.WriteHeader(&tar.Header{
			Name: name, Mode: mode, Typeflag: kind, Size: int64(size), ModTime: at, Format: tar.FormatUSTAR,
		})
	}
	for _, f := range files {
		parts := strings.Split(path.Dir(f.path), "/")
		for i := range parts {
			directory := strings.Join(parts[:i+1], "/")
			if directory == "." || made[directory] {
				continue
			}
			made[directory] = true
			if err := header(directory+"/", 0o755, tar.TypeDir, 0); err != nil {
				return nil, err
			}
		}
		if err := header(f.path, f.mode, tar.TypeReg, len(f.content)); err != nil {
			return nil, err
		}
		if _, err := writer.Write(f.content); err != nil {
			return nil, err
		}
	}
	// Only then the end of the archive is written.
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// best is zstd's number of a level of which this encoder has no better one.
const best = 19

// layer makes a layer of files, compressed by zstd: a fifth smaller than by gzip, and every runtime that a supported
// Kubernetes runs on reads it.
func layer(files []file, at time.Time) (v1.Layer, error) {
	content, err := archive(files, at)
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	return tarball.LayerFromOpener(opener,
		tarball.WithCompression(compression.ZStd),
		tarball.WithCompressionLevel(best),
		tarball.WithMediaType(types.OCILayerZStd))
}

// unpack writes files below a directory, for who builds with the Dockerfile.
func unpack(directory string, files []file) error {
	for _, f := range files {
		if err := write(filepath.Join(directory, filepath.FromSlash(f.path)), f.content); err != nil {
			return err
		}
	}
	return nil
}
