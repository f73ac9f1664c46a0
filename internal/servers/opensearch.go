package servers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// OpenSearch is in no Linux distribution. Its archive is in no Maven repository, but its jars are. openSearchJars lists
// the jars that a node with HTTP needs. They don't include the archive's modules for scripts and aggregations, or its
// security plugins.
//
//go:embed opensearch.jars
var openSearchJars string

const openSearchVersion = "2.19.6"

const openSearchRemedy = "It needs Java 17 to 23 (openjdk-17-jre-headless) and, once, Maven or a machine with apt; " +
	"or set " + mavenVariable + " to the URL of a Maven repository, or " + cacheVariable +
	" to a cache that was filled elsewhere"

const openSearchWrapper = notRoot + `exec $n "$OPENSEARCH_JAVA/bin/java" $OPENSEARCH_OPTIONS \
  -Djava.security.manager=allow -Djava.io.tmpdir="$PWD/tmp" -Dlog4j2.disable.jmx=true \
  -Dopensearch.path.home="$r" -Dopensearch.path.conf="$PWD/config" -Dopensearch.distribution.type=tar \
  -cp "$r/lib/*" org.opensearch.bootstrap.OpenSearch "$@"
`

// openSearchHTTP has the files, by name, that make the HTTP plugin a module of the server.
var openSearchHTTP = map[string]string{
	"plugin-descriptor.properties": `name=transport-netty4
description=HTTP
version=` + openSearchVersion + `
opensearch.version=` + openSearchVersion + `
java.version=11
classname=org.opensearch.transport.Netty4Plugin
`,
	"plugin-security.policy": `grant {
  permission java.io.FilePermission "/proc/sys/net/core/somaxconn", "read";
  permission java.lang.RuntimePermission "getClassLoader";
  permission java.net.SocketPermission "*", "accept,connect";
  permission java.util.PropertyPermission "sun.nio.ch.bugLevel", "write";
};
`,
}

const openSearchLogging = `status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1.} %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
`

func fetchOpenSearch(ctx context.Context, in *installation, cache string, log *os.File, say func(string)) error {
	if _, err := javaHome(ctx, cache, in.spec, say); err != nil {
		return err
	}
	artifacts, err := jarsIn(openSearchJars)
	if err != nil {
		return err
	}
	dir := in.root
	lib, module := filepath.Join(dir, "lib"), filepath.Join(dir, "modules", "transport-netty4")
	for _, d := range []string{lib, module, filepath.Join(dir, "bin")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("servers: %w", err)
		}
	}
	say("fetching it from a Maven repository, 47 MB: this takes 10 to 60 seconds, once")
	if err := fetchArtifacts(ctx, artifacts, cache, lib, log, say); err != nil {
		return err
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "bin", "opensearch"), []byte(openSearchWrapper), 0o755),
		os.WriteFile(filepath.Join(dir, "version"), []byte(openSearchVersion+"\n"), 0o644))
	for _, a := range artifacts {
		if a.group == "io.netty" || a.group == "org.opensearch.plugin" {
			err = errors.Join(err, os.Rename(filepath.Join(lib, a.file()), filepath.Join(module, a.file())))
		}
	}
	for name, text := range openSearchHTTP {
		err = errors.Join(err, os.WriteFile(filepath.Join(module, name), []byte(text), 0o644))
	}
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	return nil
}

func prepareOpenSearch(ctx context.Context, s *Server) ([]string, error) {
	java, err := s.java(ctx)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(s.Dir, "config")
	err = errors.Join(os.MkdirAll(config, 0o755), os.MkdirAll(filepath.Join(s.Dir, "tmp"), 0o755),
		os.WriteFile(filepath.Join(config, "log4j2.properties"), []byte(openSearchLogging), 0o644),
		os.WriteFile(filepath.Join(config, "opensearch.yml"), []byte(s.elasticSettings()), 0o644))
	if err != nil {
		return nil, fmt.Errorf("servers: %s: configuration: %w", s.Kind, err)
	}
	s.opts.Progress(fmt.Sprintf("%s: starting, which takes 5 to 20 seconds", s.Kind))
	options := []string{"-Xms256m", "-Xmx512m"}
	if s.opts.Small { // the C1 compiler alone and the serial collector save CPU time
		options = append(options, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
	}
	return append(os.Environ(), "OPENSEARCH_JAVA="+java, "OPENSEARCH_OPTIONS="+strings.Join(options, " ")), nil
}
