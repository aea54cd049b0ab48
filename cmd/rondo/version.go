package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Run prints the module version, the revision and the toolchain, as the
// build recorded them.
func (versionCmd) Run(t *terminal) error {
	version, revision, dirty := "devel", "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && len(s.Value) >= 12:
				revision = " " + s.Value[:12]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = " (modified)"
			}
		}
	}
	_, err := fmt.Fprintf(t.out, "rondo %s%s%s %s %s/%s\n", version, revision, dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
