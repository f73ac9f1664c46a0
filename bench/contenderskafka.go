package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"replicator/internal/launch"
)

// intoKafka is the sink of programs that write a log.
const intoKafka = "kafka"

// Topics have as many partitions, whoever writes them.
const (
	peersTopic      = "cells"
	peersPartitions = 12
)

// publisher runs this program as one that publishes.
func publisher(ctx context.Context, x *contest) (cmd *exec.Cmd, err error) {
	if x.listen, err = freeAddress(); err != nil {
		return nil, err
	}
	p := launch.Program{Path: x.program, Dir: x.dir}
	if err := os.Mkdir(p.Dir, 0o755); err != nil {
		return nil, err
	}
	err = p.Configure(fmt.Sprintf(processConfiguration, fmt.Sprintf("dsn = %q\nstart = \"earliest\"\n",
		x.source.DSN(sourceDatabase)), filepath.Join(p.Dir, "state"), x.listen),
		changelogView(x.sink, peersTopic, peersPartitions))
	if err != nil {
		return nil, err
	}
	cmd = exec.CommandContext(ctx, p.Path, "run", "--until-caught-up", "-c", p.File())
	cmd.Dir = p.Dir
	return cmd, nil
}

// published is how many cells the publisher has written. Of several versions in flight it writes one, so of a task with
// many of them it may never be half.
func published(ctx context.Context, x *contest) (int, error) {
	n, err := counted(ctx, x.listen, "changes_applied_total", "changes_stale_total")
	if err != nil {
		return 0, ctx.Err() // it begins, or ends
	}
	return int(n), nil
}

func checkPublished(ctx context.Context, x *contest) (string, error) {
	held, err := checkTopic(ctx, x.sink, peersTopic, x.workload, x.cells)
	if err != nil {
		return "", fmt.Errorf("the result is wrong: %w", err)
	}
	return thousands(int64(held)) + " cells, each as it should be", nil
}

// debeziumKafka runs Debezium Server with its sink for Kafka, as its documentation sets it up.
func debeziumKafka(ctx context.Context, x *contest) (*exec.Cmd, error) {
	if err := makeTopic(ctx, x.sink, debeziumStream, peersPartitions); err != nil {
		return nil, err
	}
	const text = "org.apache.kafka.common.serialization.StringSerializer"
	return debezium(ctx, x, "debezium.source.include.schema.changes=false\ndebezium.sink.type=kafka\n"+
		"debezium.sink.kafka.producer.bootstrap.servers="+x.sink.Addr()+"\n"+
		"debezium.sink.kafka.producer.key.serializer="+text+"\ndebezium.sink.kafka.producer.value.serializer="+text+"\n")
}

// produced is how many records Debezium's topic has: it writes no transactions, so nothing else takes an offset.
func produced(ctx context.Context, x *contest) (n int, err error) {
	ends, err := topicEnds(ctx, x.sink, debeziumStream)
	for _, end := range ends {
		n += int(end)
	}
	return n, err
}
