package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/examples/jogchat"
	"replicator/internal/changelog"
	"replicator/internal/launch"
	"replicator/internal/pause"
	"replicator/internal/servers"
)

// Topic says how a run's rows go through Kafka. The program publishes the rows. Members of consumer groups read them
// and maintain the plan's views, and also the views of examples/jogchat.
type Topic struct {
	Partitions int
	Members    int
	Replicas   int
}

// throughKafka makes a plan's rows go through Kafka. It gives each sink a view that the harness's reader can poll.
func (p *Plan) throughKafka(r *rand.Rand, c Choices) {
	p.Topic = &Topic{Partitions: pick(r, 3, 4, 6), Members: 3, Replicas: c.Brokers}
	p.Shards, p.Parts = 1, 1 // the example's tables are in one database
	polled := []View{{Sink: "main", Kind: "row"}, {Sink: "cache", Kind: "hash"}}
	if c.Search != "" {
		polled = append(polled, View{Sink: "search", Kind: "document"})
	}
	t := p.Tables[0].Name
	for _, v := range polled {
		v.Name, v.Table = fmt.Sprintf("%s_%s_%s", t, v.Sink, v.Kind), t
		p.Views = slices.DeleteFunc(p.Views, func(old View) bool { return old.Name == v.Name })
		p.Views = append(p.Views, v)
	}
}

// preferred returns the faults to choose from. For a plan with Kafka, two times out of three these are only the faults
// that hit consumer group members or brokers.
func (p Plan) preferred(r *rand.Rand, known []string) []string {
	if p.Topic == nil || r.IntN(3) == 0 {
		return known
	}
	own := slices.DeleteFunc(slices.Clone(known), func(name string) bool {
		return !strings.HasPrefix(name, "member") && !strings.HasPrefix(name, "broker")
	})
	if len(own) == 0 { // the flag -faults names none of the faults that hit members or brokers
		return known
	}
	return own
}

func startBrokers(ctx context.Context, count int) (all []*servers.Server, err error) {
	for id := 1; id <= count; id++ {
		var args []string
		if count > 1 { // so that groups and transactions still work if one broker is killed
			for _, kept := range []string{"offsets.topic", "transaction.state.log"} {
				args = append(args, "--override", kept+".replication.factor="+strconv.Itoa(count))
			}
			args = append(args, "--override", "transaction.state.log.min.isr=2")
		}
		if id > 1 {
			args = append(args, servers.KafkaMember(all[0], id)...)
		}
		s, err := servers.Start(ctx, servers.Options{Kind: servers.Kafka, Small: true, Args: args})
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

// stream has the topic to which the program publishes, and the consumer group members that read the topic.
type stream struct {
	topic   string // the topic's name, which is also the prefix of the groups' names
	brokers []string
	admin   *kadm.Client
	members []*process
	jogchat *jogchat.Writer // writes the source's rows of examples/jogchat
	others  []*process      // additional group members, which a fault runs for a while
}

// newStream creates the topic and the members. It does not start the members.
func (w *world) newStream(ctx context.Context, name string) error {
	s := &stream{topic: name + "-" + strconv.FormatInt(time.Now().UnixMilli(), 36)} // a deleted topic's name stays taken
	for _, b := range w.servers.brokers {
		s.brokers = append(s.brokers, b.Addr())
	}
	w.stream = s
	w.at.brokers, w.at.topic = s.brokers, s.topic
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		return err
	}
	s.admin = kadm.NewClient(client)
	settings := map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}
	for name, soon := range map[string]string{"segment.ms": "300", "min.cleanable.dirty.ratio": "0.001",
		"max.compaction.lag.ms": "300"} { // compact continuously
		settings[name] = &soon
	}
	if w.plan.Topic.Replicas > 2 {
		settings["min.insync.replicas"] = kadm.StringPtr("2")
	}
	for topic, partitions := range map[string]int{s.topic: w.plan.Topic.Partitions, s.topic + ".marks": 1} {
		made, err := s.admin.CreateTopic(ctx, int32(partitions), int16(w.plan.Topic.Replicas), settings, topic)
		if err == nil {
			err = made.Err
		}
		if err != nil {
			return fmt.Errorf("topic %s: %w", topic, err)
		}
	}
	for range w.plan.Topic.Members {
		m, err := w.newMember()
		if err != nil {
			return err
		}
		s.members = append(s.members, m)
	}
	return nil
}

// newMember makes a member with its own directory and HTTP address, without starting it.
func (w *world) newMember() (*process, error) {
	dir, err := os.MkdirTemp(w.program.Dir, "member")
	if err != nil {
		return nil, err
	}
	at := w.at
	if at.listen, err = freeAddress(); err != nil {
		return nil, err
	}
	m := &process{program: launch.Program{Path: w.program.Path, Dir: dir, Env: w.program.Env}, say: w.say}
	return m, m.program.Configure(w.plan.member(at))
}

func (p Plan) publishes(a addresses) string {
	from := []string{"cell"}
	for _, t := range p.Tables {
		from = append(from, t.Name)
	}
	return fmt.Sprintf("%s\n[sinks.log]\ntype = \"kafka\"\nbrokers = [\"%s\"]\n\n[views.log]\nfrom = [\"%s\"]\n"+
		"sink = \"log\"\nkind = \"changelog\"\ntopic = %q\n", jogchatTables(), strings.Join(a.brokers, `", "`),
		strings.Join(from, `", "`), a.topic)
}

func (p Plan) member(a addresses) string {
	// All consumer group members share one checkpoint table. The program that publishes to Kafka uses a different one.
	process := strings.Replace(p.process(a), "[checkpoint]\nstore = \"mysql\"\n",
		"[checkpoint]\nstore = \"mysql\"\ntable = \"members\"\n", 1)
	return fmt.Sprintf("[source]\ntype = \"kafka\"\nbrokers = [\"%s\"]\ntopics = [%q]\ngroup = %[2]q\nsession = \"6s\"\n"+
		"on_lost = \"rebuild\"\n\n", strings.Join(a.brokers, `", "`), a.topic) + process + p.tables() + jogchatTables() +
		p.sinksAndViews(a, "") + jogchatViews()
}

func jogchatTables() string {
	text := jogchat.Config[strings.Index(jogchat.Config, "[tables."):]
	return text[:strings.Index(text, "[sinks.")]
}

func jogchatViews() string { return jogchat.Config[strings.Index(jogchat.Config, "[views."):] }

// prepareJogchat creates the example's tables in the source and in the sink.
func (w *world) prepareJogchat(ctx context.Context) error {
	for _, statement := range jogchat.Schema() {
		if _, err := w.sourceDBs[0].ExecContext(ctx, statement); err != nil {
			return err
		}
		if _, err := w.sinkDBs[0].ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	w.stream.jogchat = jogchat.NewWriter(w.sourceDBs[0], w.plan.Seed, 100)
	for range 50 {
		if err := w.stream.jogchat.Step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// writeJogchat writes rows of the example until ctx ends.
func (w *world) writeJogchat(ctx context.Context) {
	for pause.For(ctx, 4*time.Millisecond) == nil {
		_ = w.stream.jogchat.Step(ctx) // the source may be down
	}
}

func (s *stream) close(ctx context.Context) {
	for _, m := range slices.Concat(s.members, s.others) {
		m.end(syscall.SIGKILL)
	}
	if s.admin != nil {
		_, _ = s.admin.DeleteTopics(ctx, s.topic, s.topic+".marks") // to free space
		s.admin.Close()
	}
}

func (w *world) groups() []string {
	var all []string
	for _, sink := range append(w.plan.sinks(), "main") {
		if name := w.stream.topic + "." + sink; !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// setOffsetsBack resets the groups' offsets to the beginning. No member may be running.
func (w *world) setOffsetsBack(ctx context.Context) error {
	for _, group := range w.groups() {
		offsets := kadm.Offsets{}
		for n := range w.plan.Topic.Partitions {
			offsets.AddOffset(w.stream.topic, int32(n), 0, -1)
		}
		for end := time.Now().Add(20 * time.Second); ; { // killed members stay in the group for a while
			err := w.stream.admin.CommitAllOffsets(ctx, group, offsets)
			if err == nil {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("setting back group %s: %w", group, err)
			}
			if err := pause.For(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepStates copies the state directory of each consumer group member to a new directory. putStates restores them.
func (w *world) keepStates() (kept string, err error) {
	if kept, err = os.MkdirTemp(w.program.Dir, "kept"); err != nil {
		return "", err
	}
	for i, m := range w.stream.members {
		if _, err := os.Stat(m.stateDir()); err != nil { // the state is in MySQL, or nothing has been saved yet
			continue
		}
		if err := copyDir(filepath.Join(kept, strconv.Itoa(i)), m.stateDir()); err != nil {
			return "", err
		}
	}
	return kept, nil
}

func (w *world) putStates(kept string) error {
	for i, m := range w.stream.members {
		from := filepath.Join(kept, strconv.Itoa(i))
		if err := os.RemoveAll(m.stateDir()); err != nil {
			return err
		}
		if _, err := os.Stat(from); err != nil {
			continue
		}
		if err := copyDir(m.stateDir(), from); err != nil {
			return err
		}
	}
	return nil
}

// compacted waits until compaction has removed most superseded records. It keeps writing, because Kafka only compacts
// completed segments.
func (w *world) compacted(ctx context.Context, r *rand.Rand) error {
	for end := time.Now().Add(time.Minute); ; {
		given, held, keys, err := w.stream.records(ctx)
		if err == nil && keys > 0 && given > 2*held && held-keys <= keys/2 {
			w.say("the topic is compacted: %d offsets, %d records, %d cells", given, held, keys)
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the topic is not compacted after a minute: %d offsets, %d records, %d cells: %w",
				given, held, keys, err)
		}
		_ = w.load.transaction(ctx, r, 20) // the source may be down
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// records returns how many offsets the topic has assigned, how many records of rows it still holds, and how many
// different keys these records have.
func (s *stream) records(ctx context.Context) (given, held, keys int, err error) {
	listed, err := s.admin.ListEndOffsets(ctx, s.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return 0, 0, 0, err
	}
	ends := map[int32]int64{}
	for n, o := range listed[s.topic] {
		ends[n] = o.Offset
		given += int(o.Offset)
	}
	cells := map[string]bool{}
	brokers := []kgo.Opt{kgo.SeedBrokers(s.brokers...)}
	err = changelog.Read(ctx, brokers, s.topic, nil, ends, func(some []*kgo.Record) error {
		for _, r := range some {
			if !changelog.IsMark(r) {
				cells[string(r.Key)] = true
				held++
			}
		}
		return nil
	})
	return given, held, len(cells), err
}
