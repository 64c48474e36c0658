package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// ociArchive is the OCI layout of an index as one archive. It also has the one file that `docker load` asks for, which
// names the first architecture's image.
func ociArchive(index v1.ImageIndex, reference string, at time.Time) ([]byte, error) {
	directory, err := os.MkdirTemp("", "image-tool")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	// containerd takes the name from the first annotation, other programs take it from the second.
	outer := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			"io.containerd.image.name":          reference,
			"org.opencontainers.image.ref.name": reference[strings.LastIndex(reference, ":")+1:],
		}},
	})
	if _, err := layout.Write(directory, outer); err != nil {
		return nil, err
	}
	forDocker, err := dockerManifest(index, reference)
	if err != nil {
		return nil, err
	}
	files := []file{{"manifest.json", 0o644, forDocker}}
	err = filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(directory, path)
		if err != nil {
			return err
		}
		files = append(files, file{filepath.ToSlash(relative), 0o644, content})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return archive(files, at)
}

// dockerManifest is `manifest.json` of `docker save`.
func dockerManifest(index v1.ImageIndex, reference string) ([]byte, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	of, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	blob := func(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }
	entry := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{blob(of.Config.Digest), []string{reference}, nil}
	for _, layer := range of.Layers {
		entry.Layers = append(entry.Layers, blob(layer.Digest))
	}
	return json.Marshal([]any{entry})
}

func verifyCommand(args []string) error {
	flags := flag.NewFlagSet("verify", flag.ExitOnError)
	layers := flags.String("layers", "", "where the layers of the first image go, as plain archives 0.tar, 1.tar, …")
	if err := parse(flags, args, 1); err != nil {
		return err
	}
	err := readArchive(flags.Arg(0), func(index v1.ImageIndex) error {
		if *layers != "" {
			if err := writeLayers(*layers, index); err != nil {
				return err
			}
		}
		return report(os.Stdout, index)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", flags.Arg(0), err)
	}
	return nil
}

// writeLayers writes the layers of the first image as they are without compression.
func writeLayers(directory string, index v1.ImageIndex) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for number, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			return err
		}
		plain, err := io.ReadAll(content)
		if err := errors.Join(err, content.Close()); err != nil {
			return err
		}
		if err := write(filepath.Join(directory, fmt.Sprintf("%d.tar", number)), plain); err != nil {
			return err
		}
	}
	return nil
}

// readArchive hands over the index of an archive, after every digest, size and layer in it was found true.
func readArchive(path string, use func(v1.ImageIndex) error) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "image-tool")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	reader := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if header.Typeflag != tar.TypeReg || !below(header.Name) {
			return fmt.Errorf("%q has no place in an archive of an image", header.Name)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(directory, filepath.FromSlash(header.Name)), content); err != nil {
			return err
		}
	}
	outer, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		return err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("there are %d images in it, and not one", len(manifest.Manifests))
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	// Of layers it knows those alone that gzip has made.
	if err := validate.Index(index, validate.Fast); err != nil {
		return err
	}
	if err := validateLayers(index); err != nil {
		return err
	}
	return use(index)
}

// validateLayers tells of a layer of any image that isn't what manifest and configuration say.
func validateLayers(index v1.ImageIndex) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, image := range manifest.Manifests {
		image, err := index.Image(image.Digest)
		if err != nil {
			return err
		}
		layers, err := image.Layers()
		if err != nil {
			return err
		}
		for _, layer := range layers {
			if err := validateLayer(layer); err != nil {
				return err
			}
		}
	}
	return nil
}

func validateLayer(layer v1.Layer) error {
	for _, form := range []struct {
		said func() (v1.Hash, error)
		read func() (io.ReadCloser, error)
	}{{layer.Digest, layer.Compressed}, {layer.DiffID, layer.Uncompressed}} {
		said, err := form.said()
		if err != nil {
			return err
		}
		content, err := form.read()
		if err != nil {
			return err
		}
		is, _, err := v1.SHA256(content)
		if err := errors.Join(err, content.Close()); err != nil {
			return fmt.Errorf("layer %s: %w", said, err)
		}
		if is != said {
			return fmt.Errorf("layer %s has the digest %s", said, is)
		}
	}
	return nil
}

// report says in a line each what the index and its images are called, and how large these are.
func report(to io.Writer, index v1.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(to, "index", digest); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	sort.Slice(manifest.Manifests, func(a, b int) bool {
		return manifest.Manifests[a].Platform.String() < manifest.Manifests[b].Platform.String()
	})
	for _, descriptor := range manifest.Manifests {
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			return err
		}
		size, err := layersSize(image)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(to, "%s %s %.1f MiB\n", descriptor.Platform, descriptor.Digest, float64(size)/mebibyte)
		if err != nil {
			return err
		}
	}
	return nil
}
