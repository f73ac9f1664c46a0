package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"replicator"
	"replicator/internal/changelog"
)

// Check checks the cluster and the views' topics. It changes nothing.
func (s *Sink) Check(ctx context.Context, views []*replicator.View) []replicator.Finding {
	at := "sink " + s.cfg.Name
	if err := s.client.Ping(ctx); err != nil {
		return []replicator.Finding{{What: at + ": connection", Level: replicator.Fail, Detail: err.Error(),
			Fix: "start the brokers, or correct brokers, tls, sasl, username and password"}}
	}
	findings := []replicator.Finding{{What: at + ": connection", Level: replicator.OK, Detail: "it answers"}}
	for _, v := range views {
		for _, source := range s.cfg.Sources {
			findings = append(findings, s.checkView(ctx, at, v, source)...)
		}
	}
	return findings
}

func (s *Sink) checkView(ctx context.Context, at string, v *replicator.View, source string) []replicator.Finding {
	what := fmt.Sprintf("%s: view %s", at, v.Name)
	t, err := s.describe(ctx, topicOf(v, source))
	if err != nil {
		return []replicator.Finding{{What: what, Level: replicator.Fail, Detail: err.Error(),
			Fix: "allow the user to describe the topic and its settings"}}
	}
	marks := t.marks
	if marks == nil {
		marks = &topic{name: t.name + changelog.MarksSuffix}
	}
	var findings []replicator.Finding
	for _, t := range []*topic{t, marks} {
		f := replicator.Finding{What: fmt.Sprintf("%s: topic %s", what, t.name), Level: replicator.OK,
			Detail: fmt.Sprintf("%d partitions, %d replicas", t.partitions, t.replicas)}
		if err := checkTopic(t, settingsOf(v)); err != nil {
			f.Level, f.Detail, f.Fix = err.level, err.Error(), err.fix
		}
		findings = append(findings, f)
	}
	if err := s.checkMarks(ctx, t, place{source, v.Name}); err != nil {
		findings = append(findings, replicator.Finding{What: what, Level: err.level, Detail: err.Error(), Fix: err.fix})
	}
	return findings
}

type fault struct {
	error
	level replicator.Level
	fix   string
}

func checkTopic(t *topic, settings Settings) *fault {
	minInSync, err := strconv.Atoi(t.minInSync)
	switch {
	case t.id == "" && settings.Create:
		return &fault{errors.New("it is missing, and will be created"), replicator.Warn, ""}
	case t.id == "":
		return &fault{errors.New("it is missing"), replicator.Fail, "create it (docs/kafka.md), or set create = true"}
	case !t.compacted:
		return &fault{errors.New(notCompacted(t)), replicator.Fail, "kafka-configs.sh --alter --topic " + t.name +
			" --add-config cleanup.policy=compact"}
	case err == nil && t.inSync < minInSync:
		return &fault{fmt.Errorf("a partition has %d replicas in sync, but min.insync.replicas is %d, so nothing "+
			"can be written",
			t.inSync, minInSync), replicator.Fail, "start the brokers that are down"}
	case settings.Replication > t.replicas:
		return &fault{fmt.Errorf("a partition has %d replicas, but the view has replication = %d", t.replicas,
			settings.Replication), replicator.Fail, "reassign its partitions (kafka-reassign-partitions.sh)"}
	case t.replicas < 2:
		return &fault{errors.New("a partition has only one replica, so acknowledged records are lost with its broker"),
			replicator.Warn, "give it three replicas and min.insync.replicas=2"}
	case err == nil && minInSync < 2:
		return &fault{errors.New("min.insync.replicas is 1, so a record that only one broker acknowledged may be " +
			"lost with it"),
			replicator.Warn, "kafka-configs.sh --alter --topic " + t.name + " --add-config min.insync.replicas=2"}
	}
	return nil
}
