package servers

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mavenVariable is the environment variable with the URL of a Maven repository.
const mavenVariable = "REPLICATOR_MAVEN_REPOSITORY"

type mavenArtifact struct {
	group, name, version, kind string
	sum                        string // SHA-256, in hexadecimal digits
}

// jarsIn reads a list of jars. Each line is a comment, or has the sum, group, name and version of a jar.
func jarsIn(list string) (artifacts []mavenArtifact, err error) {
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) != 4 {
			return nil, fmt.Errorf("servers: a list of jars contains the invalid line %q", line)
		}
		artifacts = append(artifacts, mavenArtifact{sum: f[0], group: f[1], name: f[2], version: f[3], kind: "jar"})
	}
	return artifacts, nil
}

func (a mavenArtifact) file() string { return a.name + "-" + a.version + "." + a.kind }

func (a mavenArtifact) fetch(ctx context.Context, cache, dir string, log *os.File, say func(string)) (string, error) {
	return filepath.Join(dir, a.file()), fetchArtifacts(ctx, []mavenArtifact{a}, cache, dir, log, say)
}

// fetchArtifacts downloads artifacts into dir. It uses the repository in mavenVariable, or else this machine's Maven,
// which knows its mirrors and proxies, or else the default repository of Debian's Maven.
func fetchArtifacts(
	ctx context.Context, artifacts []mavenArtifact, cache, dir string, log *os.File, say func(string),
) error {
	var err error
	repository := os.Getenv(mavenVariable)
	mvn, noMaven := exec.LookPath("mvn")
	switch {
	case repository != "":
	case noMaven == nil:
		err = byMaven(ctx, mvn, artifacts, dir, log)
	default:
		say("this machine has no Maven. Fetching Debian's to read its default repository")
		repository, err = debianMavenRepository(ctx, cache, dir, log, say)
	}
	if err != nil {
		return err
	}
	for _, a := range artifacts {
		into := filepath.Join(dir, a.file())
		if repository != "" {
			if err := a.download(ctx, repository, into); err != nil {
				return err
			}
		}
		sum, err := fileSum(into)
		if err != nil {
			return fmt.Errorf("servers: %w", err)
		}
		if sum != a.sum {
			return fmt.Errorf("servers: %s has the SHA-256 sum %s instead of %s", a.file(), sum, a.sum)
		}
	}
	return nil
}

// byMaven lets Maven fetch artifacts as the dependencies of an otherwise empty project. It uses a temporary local
// repository, so the machine's own repository does not change.
func byMaven(ctx context.Context, mvn string, artifacts []mavenArtifact, dir string, log *os.File) error {
	local, project := filepath.Join(dir, "m2"), filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(project, []byte(pomOf(artifacts)), 0o644); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	cmd := exec.CommandContext(ctx, mvn, "-B", "-ntp", "-f", project, "-Dmaven.repo.local="+local,
		"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DoutputDirectory="+dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if err := runTied(cmd); err != nil {
		return fmt.Errorf("servers: mvn dependency:copy-dependencies of %s: %w", artifacts[0].file(), err)
	}
	if err := errors.Join(os.RemoveAll(local), os.Remove(project)); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	return nil
}

// pomOf returns a project that depends on these artifacts, but not on the artifacts' own dependencies.
func pomOf(artifacts []mavenArtifact) string {
	var pom strings.Builder
	pom.WriteString("<project><modelVersion>4.0.0</modelVersion><groupId>replicator</groupId>" +
		"<artifactId>servers</artifactId><version>1</version><packaging>pom</packaging><dependencies>\n")
	for _, a := range artifacts {
		fmt.Fprintf(&pom, "<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version>"+
			"<type>%s</type><exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"+
			"</dependency>\n", a.group, a.name, a.version, a.kind)
	}
	pom.WriteString("</dependencies></project>\n")
	return pom.String()
}

func (a mavenArtifact) download(ctx context.Context, repository, into string) (err error) {
	url := strings.Join([]string{strings.TrimRight(repository, "/"), strings.ReplaceAll(a.group, ".", "/"), a.name,
		a.version, a.file()}, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("servers: %s is not a valid URL: %w", mavenVariable, err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("servers: fetching %s: the Maven repository answers %s", a.file(), res.Status)
	}
	out, err := os.Create(into)
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	_, err = io.Copy(out, res.Body)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("servers: downloading %s: %w", a.file(), err)
	}
	return nil
}

// debianMavenRepository returns the repository that Maven uses without a configuration. The super POM, which has
// Maven's defaults and is in one of Maven's jars, names it.
func debianMavenRepository(ctx context.Context, cache, dir string, log *os.File, say func(string)) (string, error) {
	part := filepath.Join(dir, "maven")
	if err := os.Mkdir(part, 0o755); err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	defer os.RemoveAll(part)
	maven := &spec{suite: "bookworm", packages: []string{"libmaven3-core-java"}, size: "20 MB"}
	if err := fetchPackages(ctx, cache, maven, part, log, say); err != nil {
		return "", err
	}
	jars, err := filepath.Glob(filepath.Join(part, "usr/share/java/maven3-model-builder-*.jar"))
	if err != nil || len(jars) == 0 {
		return "", errors.New("servers: Debian's Maven contains no model builder")
	}
	for _, jar := range jars {
		if repository, err := superPOM(jar); err == nil {
			return repository, nil
		}
	}
	return "", errors.New("servers: Debian's Maven contains no super POM")
}

// superPOM reads the first repository of the super POM in a jar.
func superPOM(jar string) (string, error) {
	r, err := zip.OpenReader(jar)
	if err != nil {
		return "", err
	}
	defer r.Close()
	f, err := r.Open("org/apache/maven/model/pom-4.0.0.xml")
	if err != nil {
		return "", err
	}
	defer f.Close()
	var pom struct {
		URL string `xml:"repositories>repository>url"`
	}
	if err := xml.NewDecoder(f).Decode(&pom); err != nil {
		return "", err
	}
	if pom.URL == "" {
		return "", errors.New("the super POM names no repository")
	}
	return strings.TrimSpace(pom.URL), nil
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// unzip unpacks the files in a folder of an archive into dir. folder is "" or ends in a slash.
func unzip(archive, folder, dir string) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	defer r.Close()
	for _, f := range r.File {
		name, ok := strings.CutPrefix(f.Name, folder)
		if !ok || name == "" {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("servers: %s would be unpacked outside the directory", f.Name)
		}
		if err := unzipFile(f, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("servers: unpacking %s: %w", f.Name, err)
		}
	}
	return nil
}

func unzipFile(f *zip.File, to string) (err error) {
	if f.FileInfo().IsDir() {
		return os.MkdirAll(to, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.Mode().Perm()|0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
