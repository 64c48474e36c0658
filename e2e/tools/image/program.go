package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
)

// machines are the architectures that an image can be of, by the names that images have for them.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// readProgram reads a program, and refuses one that couldn't run alone in the image.
func readProgram(architecture, path string) ([]byte, error) {
	machine, known := machines[architecture]
	if !known {
		return nil, fmt.Errorf("no architecture is called %q: amd64, arm64", architecture)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s is no program of Linux: %w", path, err)
	}
	if program.Machine != machine {
		return nil, fmt.Errorf("%s is a program for %s, and not for %s", path, program.Machine, architecture)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s needs libraries, and there are none in the image: link it statically", path)
		}
	}
	if program.Section(".symtab") != nil || program.Section(".debug_info") != nil {
		return nil, fmt.Errorf("%s has symbols: they belong into a file of their own", path)
	}
	return content, nil
}
