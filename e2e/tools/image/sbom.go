package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// What follows are the parts of CycloneDX 1.6 that are used.
type bom struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     bomMetadata  `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type bomMetadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type     string          `json:"type"`
	Ref      string          `json:"bom-ref"`
	Name     string          `json:"name"`
	Version  string          `json:"version"`
	Licenses []licenceChoice `json:"licenses,omitempty"`
	Hashes   []hash          `json:"hashes,omitempty"`
	Purl     string          `json:"purl,omitempty"`
}

type licenceChoice struct {
	Expression string `json:"expression"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

func sbomCommand(args []string) error {
	flags := flag.NewFlagSet("sbom", flag.ExitOnError)
	metadata := flags.String("metadata", "", "output of cargo metadata --format-version 1 --locked --filter-platform TARGET")
	lock := flags.String("lock", "Cargo.lock", "Cargo.lock, which has the checksums")
	program := flags.String("program", "pilotage", "the package that is listed with all that it needs")
	created := flags.String("created", "0", "when it was made, in seconds since 1970")
	out := flags.String("out", "", "the file to write, CycloneDX as JSON")
	var linked list
	flags.Var(&linked, "linked", "NAME=VERSION=LICENCE of what is linked in and is no crate; several times")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	if *metadata == "" || *out == "" {
		return errors.New("sbom needs --metadata and --out")
	}
	at, err := instant(*created)
	if err != nil {
		return err
	}
	graph, err := readGraph(*metadata, *program)
	if err != nil {
		return err
	}
	sums, err := checksums(*lock)
	if err != nil {
		return err
	}
	others, err := linkedComponents(linked)
	if err != nil {
		return err
	}
	made, err := graph.bom(at, sums, others)
	if err != nil {
		return err
	}
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(made); err != nil {
		return err
	}
	return write(*out, content.Bytes())
}

// bom lists the crates of a graph, and what else is in the image.
func (g *graph) bom(at time.Time, sums map[string]string, others []component) (*bom, error) {
	made := &bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Components: others}
	made.Metadata.Timestamp = at.Format(time.RFC3339)
	for _, crate := range g.sorted() {
		of := component{
			Type: "library", Ref: crate.purl(), Name: crate.Name, Version: crate.Version, Purl: crate.purl(),
		}
		if licence := crate.licence(); licence != "" {
			// An old way to write it, which some crates have still.
			words := strings.Fields(strings.ReplaceAll(licence, "/", " OR "))
			of.Licenses = []licenceChoice{{strings.Join(words, " ")}}
		}
		if crate.Source != nil {
			sum := sums[crate.Name+" "+crate.Version]
			if sum == "" {
				return nil, fmt.Errorf("Cargo.lock has no checksum of %s %s", crate.Name, crate.Version)
			}
			of.Hashes = []hash{{"SHA-256", sum}}
		}
		needs := dependency{Ref: crate.purl()}
		for _, id := range g.needs[crate.ID] {
			needs.DependsOn = append(needs.DependsOn, g.crates[id].purl())
		}
		if crate.ID == g.program {
			of.Type = "application"
			made.Metadata.Component = of
			for _, other := range others {
				needs.DependsOn = append(needs.DependsOn, other.Ref)
			}
		} else {
			made.Components = append(made.Components, of)
		}
		made.Dependencies = append(made.Dependencies, needs)
	}
	return made, nil
}

// linkedComponents are what the image has beside crates: what was linked in, and the authorities.
func linkedComponents(linked []string) ([]component, error) {
	var made []component
	for _, word := range linked {
		parts := strings.SplitN(word, "=", 3)
		if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
			return nil, fmt.Errorf("--linked has to be NAME=VERSION=LICENCE, and is %q", word)
		}
		purl := "pkg:generic/" + parts[0] + "@" + parts[1]
		made = append(made, component{
			Type: "library", Ref: purl, Name: parts[0], Version: parts[1], Purl: purl,
			Licenses: []licenceChoice{{parts[2]}},
		})
	}
	const module = "golang.org/x/crypto/x509roots/fallback"
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, errors.New("this program doesn't know what it was built of")
	}
	for _, dep := range build.Deps {
		if dep.Path == module {
			purl := "pkg:golang/" + module + "@" + dep.Version
			return append(made, component{
				Type: "data", Ref: purl, Name: module, Version: dep.Version, Purl: purl,
				Licenses: []licenceChoice{{"BSD-3-Clause AND MPL-2.0"}},
			}), nil
		}
	}
	return nil, errors.New("this program wasn't built with " + module)
}

// checksums are those of a Cargo.lock, by name and version.
func checksums(path string) (map[string]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	name, version := "", ""
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		key, value, found := strings.Cut(lines.Text(), " = ")
		value = strings.Trim(value, `"`)
		switch {
		case !found:
		case key == "name":
			name = value
		case key == "version":
			version = value
		case key == "checksum":
			sums[name+" "+version] = value
		}
	}
	return sums, nil
}
