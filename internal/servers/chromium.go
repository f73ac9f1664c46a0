package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

var chromium = &spec{
	suite: "bookworm", size: "130 MB",
	packages: []string{"chromium-headless-shell", "chromium-common", "fonts-dejavu-core"},
}

// browserWrapper makes the dynamic linker of the browser's packages run the browser with these packages' libraries. The
// browser then takes the linker for its own executable, and looks for its files next to it. So the directory with the
// files has a hard link to the linker.
const browserWrapper = `#!/bin/sh
r=$(dirname "$(dirname "$(readlink -f "$0")")")
for d in "$r"/usr/lib/*-linux-gnu "$r"/lib/*-linux-gnu "$r"/usr/lib/*-linux-gnu/pulseaudio; do
  [ -d "$d" ] && l=${l:+$l:}$d
done
p=$r/usr/lib/chromium
export FONTCONFIG_FILE="$r/fonts.conf"
exec "$p/ld.so" --library-path "$l" "$p/chromium-headless-shell" "$@"
`

const browserFonts = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">usr/share/fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
`

// Chromium prepares a command that runs a headless Chromium, for tests of web pages. The first call on a machine
// fetches Chromium from Debian. profile is a directory for the browser's files.
func Chromium(ctx context.Context, profile string, args ...string) (*exec.Cmd, error) {
	root, err := tool(ctx, "chromium", chromium, finishChromium)
	if err != nil {
		return nil, err
	}
	program := filepath.Join(root, "bin", "chromium")
	cmd := exec.CommandContext(ctx, program, append([]string{
		"--browser-subprocess-path=" + program, "--user-data-dir=" + profile,
		// Chromium's sandbox needs rights that containers lack. The browser only shows the test's own pages.
		"--no-sandbox", "--no-zygote", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
	}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+profile, "XDG_CACHE_HOME="+profile)
	return cmd, nil
}

func finishChromium(dir string) error {
	linkers, err := filepath.Glob(filepath.Join(dir, "lib", "*-linux-gnu", "ld-linux-*"))
	if err == nil && len(linkers) == 0 {
		err = errors.New("the packages have no dynamic linker")
	}
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	linker, err := filepath.EvalSymlinks(linkers[0])
	if err == nil {
		err = errors.Join(
			os.Link(linker, filepath.Join(dir, "usr", "lib", "chromium", "ld.so")),
			os.WriteFile(filepath.Join(dir, "fonts.conf"), []byte(browserFonts), 0o644),
			os.Mkdir(filepath.Join(dir, "bin"), 0o755),
			os.WriteFile(filepath.Join(dir, "bin", "chromium"), []byte(browserWrapper), 0o755))
	}
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	return nil
}
