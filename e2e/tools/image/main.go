// Command image-tool writes what a release has beside the program: the OCI archive, the list of what is in it, and the
// licences. It reads files and writes files; it asks no network and no daemon, and of equal files it makes equal bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const usage = `image-tool build --program ARCH=FILE... --name REFERENCE --out FILE [--files DIR] ...
image-tool verify [--layers DIR] FILE
image-tool sbom --metadata FILE --lock FILE --out FILE [--linked NAME=VERSION=LICENCE]...
image-tool licences --metadata FILE --out FILE [--also FILE]...
Each has --help.`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	var err error
	switch command, args := os.Args[1], os.Args[2:]; command {
	case "build":
		err = buildCommand(args)
	case "verify":
		err = verifyCommand(args)
	case "sbom":
		err = sbomCommand(args)
	case "licences":
		err = licencesCommand(args)
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image-tool:", err)
		os.Exit(1)
	}
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string         { return strings.Join(*l, ",") }
func (l *list) Set(value string) error { *l = append(*l, value); return nil }

// parse reads flags and refuses what is left over, but for `rest` words.
func parse(flags *flag.FlagSet, args []string, rest int) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != rest {
		return fmt.Errorf("%s takes %d words beside its flags, and was given %q", flags.Name(), rest, flags.Args())
	}
	return nil
}

// instant reads seconds since 1970, as SOURCE_DATE_EPOCH has them.
func instant(text string) (time.Time, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("--created has to be seconds since 1970, and is %q", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// write puts a file into its place in one step, so that no half of one is ever found there.
func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
