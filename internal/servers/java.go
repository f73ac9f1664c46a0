package servers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// javaSuites maps the Java releases that can be fetched to the Debian suites that have them.
var javaSuites = map[int]string{17: "bookworm", 21: "trixie"}

// javaHome returns the directory of a Java installation whose version suits a server that is written in Java. It
// prefers an installation of the machine. If there is none, it fetches Debian's.
func javaHome(ctx context.Context, cache string, sp *spec, say func(string)) (string, error) {
	if home := installedJava(sp.java, sp.javaBelow); home != "" {
		return home, nil
	}
	release := sp.java
	root, err := once(ctx, cache, fmt.Sprintf("java-%d", release), say, func(dir string, log *os.File) error {
		say("this machine has no " + sp.wantedJava())
		return fetchJava(ctx, cache, release, dir, log, say)
	})
	if err != nil {
		return "", fmt.Errorf(
			"servers: no %s in ES_JAVA_HOME, JAVA_HOME, PATH or /usr/lib/jvm, and none from Debian: %w",
			sp.wantedJava(), err)
	}
	return filepath.Join(root, "home"), nil
}

func (s *Server) java(ctx context.Context) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	home, err := javaHome(ctx, cache, s.in.spec, s.opts.Progress)
	if err != nil {
		return "", &MissingError{Kind: s.Kind, Looked: []string{trimmed(err)}, cause: err}
	}
	return home, nil
}

func (sp *spec) wantedJava() string {
	if sp.javaBelow > 0 {
		return fmt.Sprintf("Java %d to %d", sp.java, sp.javaBelow-1)
	}
	return fmt.Sprintf("Java %d or newer", sp.java)
}

// installedJava returns the home of a Java on this machine whose release is `release` or higher. Unless `below` is 0,
// the release is also lower than `below`. If the machine has no such Java, the result is "".
func installedJava(release, below int) string {
	homes := []string{os.Getenv("ES_JAVA_HOME"), os.Getenv("JAVA_HOME")}
	if program, err := exec.LookPath("java"); err == nil {
		if real, err := filepath.EvalSymlinks(program); err == nil {
			homes = append(homes, filepath.Dir(filepath.Dir(real)))
		}
	}
	installed, err := filepath.Glob("/usr/lib/jvm/*")
	if err == nil {
		homes = append(homes, installed...)
	}
	for _, home := range homes {
		if home == "" {
			continue
		}
		if has := javaRelease(home); has >= release && (below == 0 || has < below) {
			return home
		}
	}
	return ""
}

var javaVersion = regexp.MustCompile(`JAVA_VERSION="(\d+)`)

func javaRelease(home string) int {
	if _, err := os.Stat(filepath.Join(home, "bin", "java")); err != nil {
		return 0
	}
	text, err := os.ReadFile(filepath.Join(home, "release"))
	if err != nil {
		return 0
	}
	m := javaVersion.FindSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return 0
	}
	return n
}

// fetchJava installs a Java into dir. dir/home is a link to the Java's home. The Java runs with the machine's own C
// library: a wrapper script, as other programs have, would not be used when a server starts another Java by its path.
func fetchJava(ctx context.Context, cache string, release int, dir string, log *os.File, say func(string)) error {
	java := &spec{suite: javaSuites[release], packages: []string{fmt.Sprintf("openjdk-%d-jre-headless", release)},
		size: "60 MB"}
	if err := fetchPackages(ctx, cache, java, dir, log, say); err != nil {
		return err
	}
	if err := relink(dir); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	homes, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("usr/lib/jvm/java-%d-openjdk-*", release)))
	if err != nil || len(homes) == 0 {
		return errors.New("servers: the packages contain no Java")
	}
	rel, err := filepath.Rel(dir, homes[0])
	if err == nil {
		err = os.Symlink(rel, filepath.Join(dir, "home"))
	}
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "home", "bin", "java"), "-version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("servers: Debian's Java does not run here: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// relink makes absolute links in dir relative if they lead to another file in dir. For example, Java's configuration is
// in /etc, and its home contains links to it.
func relink(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		to, err := os.Readlink(path)
		if err != nil || !filepath.IsAbs(to) {
			return err
		}
		if _, err := os.Lstat(filepath.Join(dir, to)); err != nil {
			return nil // the link leads to a file that is not in dir
		}
		rel, err := filepath.Rel(filepath.Dir(path), filepath.Join(dir, to))
		if err != nil {
			return err
		}
		return errors.Join(os.Remove(path), os.Symlink(rel, path))
	})
}
