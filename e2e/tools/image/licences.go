package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// licenceFile is what files with licences are called.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|unlicense)`)

// code is what has such a name and is none.
var code = map[string]bool{".rs": true, ".c": true, ".h": true, ".py": true}

func licencesCommand(args []string) error {
	flags := flag.NewFlagSet("licences", flag.ExitOnError)
	metadata := flags.String("metadata", "", "output of cargo metadata --format-version 1 --locked --filter-platform TARGET")
	program := flags.String("program", "pilotage", "the package that is listed with all that it needs")
	out := flags.String("out", "", "the file to write")
	var also list
	flags.Var(&also, "also", "a file with words on what is no crate, which is put at the end; several times")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	if *metadata == "" || *out == "" {
		return errors.New("licences needs --metadata and --out")
	}
	graph, err := readGraph(*metadata, *program)
	if err != nil {
		return err
	}
	content, err := graph.licences()
	if err != nil {
		return err
	}
	for _, path := range also {
		words, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		content = append(append(content, rule...), words...)
	}
	return write(*out, content)
}

const rule = "\n================================================================================\n\n"

// licences has each text once, after the crates that have it, and first a list of all crates.
func (g *graph) licences() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("Pilotage is under Apache-2.0. It is compiled of these packages, each with its own licence:\n\n")
	of := map[string][]string{}
	for _, crate := range g.sorted() {
		called := crate.Name + " " + crate.Version
		licence := crate.licence()
		texts, err := licenceTexts(filepath.Dir(crate.ManifestPath))
		if err != nil {
			return nil, err
		}
		if licence == "" && len(texts) == 0 {
			return nil, fmt.Errorf("%s tells no licence: nobody may distribute it", called)
		}
		if licence == "" {
			licence = "see its text"
		}
		where := ""
		if len(texts) == 0 && crate.Source != nil {
			where = " (the package has no text of it)"
		}
		fmt.Fprintf(&out, "  %s: %s%s\n", called, licence, where)
		for _, text := range texts {
			of[text] = append(of[text], called)
		}
	}
	var texts []string
	for text := range of {
		texts = append(texts, text)
	}
	sort.Slice(texts, func(a, b int) bool {
		if first, second := of[texts[a]][0], of[texts[b]][0]; first != second {
			return first < second
		}
		return texts[a] < texts[b]
	})
	for _, text := range texts {
		out.WriteString(rule)
		fmt.Fprintf(&out, "%s:\n\n%s\n", strings.Join(of[text], ", "), text)
	}
	return out.Bytes(), nil
}

// licenceTexts are those in a package, also of what it has taken in from others, by the names of their files.
func licenceTexts(directory string) ([]string, error) {
	var texts []string
	err := filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if !entry.Type().IsRegular() || !licenceFile.MatchString(name) || code[filepath.Ext(name)] {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
		if text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		return nil
	})
	return texts, err
}
