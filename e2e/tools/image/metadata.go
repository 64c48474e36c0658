package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
)

// crate is a package as `cargo metadata` tells it.
type crate struct {
	ID           string  `json:"id"`
	Name         string  `json:"name"`
	Version      string  `json:"version"`
	License      *string `json:"license"`
	Source       *string `json:"source"`
	ManifestPath string  `json:"manifest_path"`
	Repository   *string `json:"repository"`
}

// licence is what the crate's author says about it.
func (c *crate) licence() string {
	if c.License == nil {
		return ""
	}
	return *c.License
}

// purl names the crate for programs that look for known faults.
func (c *crate) purl() string { return "pkg:cargo/" + c.Name + "@" + c.Version }

// graph is what one program is compiled of: crates, and of which others each of them needs.
type graph struct {
	program string
	crates  map[string]*crate
	needs   map[string][]string
}

// readGraph reads what a program needs out of the output of `cargo metadata`: what only tests and build scripts need
// isn't in it.
func readGraph(path, program string) (*graph, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var metadata struct {
		Packages []*crate `json:"packages"`
		Resolve  struct {
			Nodes []struct {
				ID   string `json:"id"`
				Deps []struct {
					Pkg      string `json:"pkg"`
					DepKinds []struct {
						Kind *string `json:"kind"`
					} `json:"dep_kinds"`
				} `json:"deps"`
			} `json:"nodes"`
		} `json:"resolve"`
	}
	if err := json.Unmarshal(content, &metadata); err != nil {
		return nil, fmt.Errorf("%s is no output of cargo metadata: %w", path, err)
	}
	all := map[string]*crate{}
	root := ""
	for _, crate := range metadata.Packages {
		all[crate.ID] = crate
		if crate.Name == program && crate.Source == nil {
			root = crate.ID
		}
	}
	if root == "" {
		return nil, fmt.Errorf("%s has no package of the workspace that is called %s", path, program)
	}
	needs := map[string][]string{}
	for _, node := range metadata.Resolve.Nodes {
		for _, dep := range node.Deps {
			for _, kind := range dep.DepKinds {
				if kind.Kind == nil {
					needs[node.ID] = append(needs[node.ID], dep.Pkg)
					break
				}
			}
		}
		sort.Strings(needs[node.ID])
	}
	found := &graph{program: root, crates: map[string]*crate{}, needs: map[string][]string{}}
	for waiting := []string{root}; len(waiting) > 0; {
		id := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		if found.crates[id] != nil {
			continue
		}
		if all[id] == nil {
			return nil, errors.New("cargo metadata names no package " + id)
		}
		found.crates[id] = all[id]
		found.needs[id] = needs[id]
		waiting = append(waiting, needs[id]...)
	}
	return found, nil
}

// sorted lists the crates by name and version.
func (g *graph) sorted() []*crate {
	var list []*crate
	for _, crate := range g.crates {
		list = append(list, crate)
	}
	sort.Slice(list, func(a, b int) bool {
		if list[a].Name != list[b].Name {
			return list[a].Name < list[b].Name
		}
		return list[a].Version < list[b].Version
	})
	return list
}
