package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// mebibyte is what sizes are told in.
const mebibyte = 1 << 20

// wanted says what image is to be built.
type wanted struct {
	programs  map[string][]byte
	files     []file
	created   time.Time
	reference name.Tag
	labels    map[string]string
	limit     int64
}

func buildCommand(args []string) error {
	flags := flag.NewFlagSet("build", flag.ExitOnError)
	var programs, labels list
	flags.Var(&programs, "program", "ARCH=FILE: the program for an architecture; several times for an index of several")
	flags.Var(&labels, "label", "KEY=VALUE of image and index; several times")
	reference := flags.String("name", "", "what the image is called: REPOSITORY:TAG")
	created := flags.String("created", "0", "when it was made, in seconds since 1970")
	out := flags.String("out", "", "the archive to write")
	extra := flags.String("files", "", "a directory whose files the image has below /"+documents)
	limit := flags.Int64("limit", 20_000_000, "how many bytes one architecture's compressed layers may have")
	root := flags.String("root", "", "also write what the image has beside the program below this directory")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	if *out == "" || len(programs) == 0 {
		return errors.New("build needs --program and --out")
	}
	tag, err := name.NewTag(*reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("--name: %w", err)
	}
	at, err := instant(*created)
	if err != nil {
		return err
	}
	want := wanted{
		programs: map[string][]byte{}, created: at, reference: tag, limit: *limit,
		labels: map[string]string{"org.opencontainers.image.created": at.Format(time.RFC3339)},
	}
	for _, label := range labels {
		key, value, found := strings.Cut(label, "=")
		if !found || key == "" {
			return fmt.Errorf("--label has to be KEY=VALUE, and is %q", label)
		}
		want.labels[key] = value
	}
	for _, program := range programs {
		architecture, path, found := strings.Cut(program, "=")
		if !found {
			return fmt.Errorf("--program has to be ARCH=FILE, and is %q", program)
		}
		if want.programs[architecture], err = readProgram(architecture, path); err != nil {
			return err
		}
	}
	if want.files, err = commonFiles(*extra); err != nil {
		return err
	}
	if *root != "" {
		if err := unpack(*root, want.files); err != nil {
			return err
		}
	}
	index, err := want.index()
	if err != nil {
		return err
	}
	// Everybody but the library calls Docker's registry so.
	called := strings.Replace(tag.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	content, err := ociArchive(index, called, at)
	if err != nil {
		return err
	}
	if err := write(*out, content); err != nil {
		return err
	}
	return report(os.Stdout, index)
}

// index lists the image of each architecture, in the order of their names.
func (w *wanted) index() (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range []string{"amd64", "arm64"} {
		program, given := w.programs[architecture]
		if !given {
			continue
		}
		image, err := w.image(architecture, program)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: architecture},
		}})
	}
	annotated, ok := mutate.Annotations(index, w.labels).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("an index with annotations is no index any more")
	}
	return annotated, nil
}

// image is one architecture's image: what rarely changes in one layer, the program in the next.
func (w *wanted) image(architecture string, program []byte) (v1.Image, error) {
	common, err := layer(w.files, w.created)
	if err != nil {
		return nil, err
	}
	binary, err := layer([]file{{programPath, 0o755, program}}, w.created)
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	when := v1.Time{Time: w.created}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: common, History: v1.History{Created: when, CreatedBy: "users, authorities, licences"}},
		mutate.Addendum{Layer: binary, History: v1.History{Created: when, CreatedBy: "program"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", architecture, when
	config.Config = v1.Config{
		User:       user + ":" + user,
		Entrypoint: []string{"/" + programPath},
		Env:        []string{"PATH=/usr/bin"},
		WorkingDir: "/",
		Labels:     w.labels,
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	size, err := layersSize(image)
	if err != nil {
		return nil, err
	}
	if size > w.limit {
		return nil, fmt.Errorf("the layers have %d bytes, and may have %d", size, w.limit)
	}
	return image, nil
}

// layersSize is what one has to load of an image, beside its configuration.
func layersSize(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, layer := range manifest.Layers {
		sum += layer.Size
	}
	return sum, nil
}

// below says whether a path stays in the directory that it is read in.
func below(path string) bool { return filepath.IsLocal(filepath.FromSlash(path)) }
