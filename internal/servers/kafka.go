package servers

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka is in no Linux distribution. Its jars and the jars that they need are Maven artifacts. kafkaJars lists them.
//
//go:embed kafka.jars
var kafkaJars string

const kafkaVersion = "4.3.0"

const kafkaRemedy = "It needs Java 17 or newer (openjdk-17-jre-headless) and, once, Maven or a machine with apt; " +
	"or set " + mavenVariable + " to the URL of a Maven repository, or " + cacheVariable +
	" to a cache that was filled elsewhere"

const kafkaWrapper = `#!/bin/sh
r=$(dirname "$(dirname "$(readlink -f "$0")")")
exec "$KAFKA_JAVA/bin/java" $KAFKA_OPTIONS -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
  -Dorg.slf4j.simpleLogger.showDateTime=true -cp "$r/libs/*" kafka.Kafka "$@"
`

func fetchKafka(ctx context.Context, in *installation, cache string, log *os.File, say func(string)) error {
	dir := in.root
	if _, err := javaHome(ctx, cache, in.spec, say); err != nil {
		return err
	}
	artifacts, err := jarsIn(kafkaJars)
	if err != nil {
		return err
	}
	libs := filepath.Join(dir, "libs")
	if err := os.Mkdir(libs, 0o755); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	say("fetching it from a Maven repository, 44 MB: this takes 10 to 60 seconds, once")
	if err := fetchArtifacts(ctx, artifacts, cache, libs, log, say); err != nil {
		return err
	}
	err = errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o755),
		os.WriteFile(filepath.Join(dir, "bin", "kafka"), []byte(kafkaWrapper), 0o755),
		os.WriteFile(filepath.Join(dir, "version"), []byte(kafkaVersion+"\n"), 0o644))
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	return initialiseKafka(ctx, in, in.template(), nil, log.Name())
}

// initialiseKafka formats a data directory, as Kafka's own tool does. All copies of the directory have the same cluster
// id, which clients accept.
func initialiseKafka(ctx context.Context, in *installation, data string, _ []string, log string) error {
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	java, err := javaHome(ctx, cache, in.spec, orDiscard(nil))
	if err != nil {
		return err
	}
	dir := filepath.Dir(data)
	if err := os.WriteFile(filepath.Join(dir, "format.properties"), []byte(kafkaProperties(9092, 1)), 0o644); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(java, "bin", "java"), "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(in.root, "libs", "*"),
		"kafka.tools.StorageTool", "format", "-t", kafkaID(), "-c", "format.properties")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	if err := runTied(cmd); err != nil {
		return fmt.Errorf("servers: formatting a data directory for Kafka: %w", err)
	}
	return nil
}

// kafkaID returns a UUID in Kafka's form. It never begins with a dash: Kafka's tool would read such a UUID as an
// option.
func kafkaID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // crypto/rand never fails
	id[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(id)
}

// kafkaProperties returns a broker's configuration. A cluster's first broker is also its controller, which listens on
// 127.0.0.2, so that the broker takes no second port of 127.0.0.1. The internal topics have a replication factor of 1,
// because a cluster of one broker can't replicate them.
//
// Kafka reads the file as Latin-1, so the file contains no path.
func kafkaProperties(port, id int) string {
	var p strings.Builder
	fmt.Fprintf(&p, `node.id=%d
controller.listener.names=CONTROLLER
log.dirs=data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.cleaner.dedupe.buffer.size=4194304
`, id)
	listeners := fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", port)
	if id == 1 {
		at := kafkaController(port)
		fmt.Fprintf(&p, "process.roles=broker,controller\ncontroller.quorum.voters=1@%s\nlisteners=%s,CONTROLLER://%s\n",
			at, listeners, at)
	} else {
		fmt.Fprintf(&p, "process.roles=broker\nlisteners=%s\n", listeners)
	}
	return p.String()
}

func kafkaController(port int) string { return fmt.Sprintf("127.0.0.2:%d", port+1) }

// KafkaMember returns the options of a broker that joins the cluster of the broker first. Members have the ids 2, 3 and
// so on, and may be killed and restarted at any time. first is the cluster's only controller: while it is down, the
// cluster elects no leaders.
func KafkaMember(first *Server, id int) []string {
	return []string{"--override", kafkaNode + strconv.Itoa(id),
		"--override", "controller.quorum.voters=1@" + kafkaController(first.Port)}
}

const kafkaNode = "node.id="

// kafkaNodeOf returns the broker's id: the one given to KafkaMember, or else 1.
func kafkaNodeOf(s *Server) int {
	for _, arg := range s.opts.Args {
		if text, is := strings.CutPrefix(arg, kafkaNode); is {
			if id, err := strconv.Atoi(text); err == nil {
				return id
			}
		}
	}
	return 1
}

func kafkaArgs(_ *installation, _ *Server) []string { return []string{"server.properties"} }

func kafkaAddr(addr, _ string) string { return addr }

// prepareKafka writes the configuration and returns the server's environment. For a KafkaMember, it also writes the
// broker's id into the data directory.
func prepareKafka(ctx context.Context, s *Server) ([]string, error) {
	java, err := s.java(ctx)
	if err != nil {
		return nil, err
	}
	id := kafkaNodeOf(s)
	err = os.WriteFile(filepath.Join(s.Dir, "server.properties"), []byte(kafkaProperties(s.Port, id)), 0o644)
	if err == nil && id != 1 {
		err = numberKafka(filepath.Join(s.Dir, "data", "meta.properties"), id)
	}
	if err != nil {
		return nil, fmt.Errorf("servers: %s: configuration: %w", s.Kind, err)
	}
	s.opts.Progress(fmt.Sprintf("%s: starting, which takes 3 to 12 seconds", s.Kind))
	options := "-Xmx512m"
	if s.opts.Small {
		// Use only the C1 compiler and the serial collector: a start takes a third less CPU time.
		options = "-Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
	}
	return append(os.Environ(), "KAFKA_JAVA="+java, "KAFKA_OPTIONS="+options), nil
}

// numberKafka sets the broker's id in a data directory that was copied.
func numberKafka(path string, id int) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	node := kafkaNode + strconv.Itoa(id)
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.TrimSpace(line) == node:
			return nil // the id is already set, because the broker was started before
		case strings.HasPrefix(line, kafkaNode):
			line = node + "\n"
		case strings.HasPrefix(line, "directory.id="):
			line = "directory.id=" + kafkaID() + "\n"
		}
		b.WriteString(line)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// pingKafka asks the broker for the cluster's brokers. It succeeds once the broker lists itself, because clients can
// then use it.
func pingKafka(ctx context.Context, s *Server) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp4", s.Addr())
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil {
		return err
	}
	if slices.ContainsFunc(s.opts.Args, func(arg string) bool { return strings.HasPrefix(arg, "listeners=") }) {
		return nil // a broker with other listeners may require a password, so a connection is enough
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()))
	if err != nil {
		return err
	}
	defer client.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, b := range answer.Brokers {
		if int(b.NodeID) == kafkaNodeOf(s) && int(b.Port) == s.Port {
			return nil
		}
	}
	return errors.New("the broker has not joined its cluster yet")
}
