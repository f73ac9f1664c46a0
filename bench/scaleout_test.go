package main

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// Every cell goes through Kafka to every sink, and what sinks hold is compared in full. No figure is looked at.
func TestScaleoutEndsWithEveryCell(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program, starts four servers, and runs five groups of processes")
	}
	file := filepath.Join(t.TempDir(), "scaleout.json")
	o, err := parseScaleout([]string{"-cells", "1000", "-rounds", "1", "-members", "1", "-json", file}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = scaleout(t.Context(), o, &out, io.Discard)
	if missing := (*servers.MissingError)(nil); errors.As(err, &missing) {
		servertest.Unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| publisher | 12 | ", "| publisher | 48 | ", "| 1 member into discard | 12 | ",
		"| 1 member into redis | 12 | ", "| 1 member into mysql | 12 | ", "| 10,000,000, mysql | "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
	var again strings.Builder
	if err := scaleout(t.Context(), scaleoutOptions{from: file, use: o.use}, &again, io.Discard); err != nil ||
		again.String() != out.String() {
		t.Errorf("%v: what was kept is printed as\n%s\nnot\n%s", err, again.String(), out.String())
	}
}

// measured is a machine of two cores: a publisher, one member that uses its core, and two that use the machine's.
func measured() *scaling {
	at := func(what, sink string, members int, rate float64, program, broker, sinks float64) scaled {
		return scaled{What: what, Sink: sink, Members: members, Partitions: 12, Bytes: 500, window: window{
			PerSecond: rate, Cores: 2, Busy: rate * (program + broker + sinks) / 2e6,
			CPU: map[part]float64{programPart: program, brokerPart: broker, sinkPart: sinks}}}
	}
	r := &scaling{Use: 0.5, Turns: []scaled{
		at(publishing, "kafka", 1, 40_000, 10, 20, 0),
		at(publishing, "kafka", 1, 50_000, 12, 22, 0),
		at(publishing, "kafka", 1, 60_000, 14, 26, 0),
		at(applying, redisSink, 1, 95_000, 10, 2, 4),
		at(applying, redisSink, 2, 125_000, 10, 2, 4),
		at(applying, redisSink, 4, 50_000, 10, 2, 4),
	}}
	four := r.publishers()[0]
	four.Partitions, four.PerSecond = 48, 1
	r.Turns = append(r.Turns, four)
	return r
}

func TestTheModelIsCalibratedByOneMember(t *testing.T) {
	m := measured().calibrated()
	if m.Rate != 50_000 || m.Publish[programPart] != 12 || m.Publish[brokerPart] != 22 ||
		m.Apply[redisSink][sinkPart] != 4 {
		t.Fatalf("%+v", m)
	}
	for members, want := range map[int]float64{1: 100_000, 2: 125_000, 4: 125_000} { // a core; then two of them for all
		if got := m.predict(redisSink, members, 2); math.Abs(got-want) > 1 {
			t.Errorf("%d members: %.0f cells a second, not %.0f", members, got, want)
		}
	}
	got := m.needs(1_000_000, 0.5, redisSink)
	want := need{Publishers: 40, PublisherCores: 24, Members: 20, Partitions: 40, BrokerCores: 136, Brokers: 34,
		SinkCores: 8, Written: 1500}
	if math.Abs(got.BrokerCores-want.BrokerCores) > 1e-6 || math.Abs(got.PublisherCores-want.PublisherCores) > 1e-6 {
		t.Errorf("a million cells a second take %+v, not %+v", got, want)
	}
	got.BrokerCores, got.PublisherCores = want.BrokerCores, want.PublisherCores
	if got != want {
		t.Errorf("a million cells a second take %+v, not %+v", got, want)
	}
	if n := m.needs(1, 0.5, redisSink); n.Partitions != leastPartitions || n.Brokers != copies || n.Members != 1 {
		t.Errorf("one cell a second takes %+v", n)
	}
}

func TestScaleoutNamesTheLimit(t *testing.T) {
	r := measured()
	r.Use = 0.6
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{
		"| 1 member into redis | 12 | 95,000 | 10.0 | 0.0 | 2.0 | 4.0 | 0.0 | 100,000 | 1.05 | the members' cores |",
		"| 2 members into redis | 12 | 125,000 | 10.0 | 0.0 | 2.0 | 4.0 | 0.0 | 125,000 | 1.00 | the machine's cores |",
		"| 4 members into redis | 12 | 50,000 | 10.0 | 0.0 | 2.0 | 4.0 | 0.0 | 125,000 | 2.50 | waiting: 0.8 of 2.0 cores busy |",
		"| 1,000,000, redis | 34 (20.0) | 17 | 34 | 29 (113) | 6.7 | 1,500 |",
		"the publisher 12.0 µs and the broker 22.0, and takes 500",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

// The page's tables are what the model says of the figures beside it: nobody types them.
func TestThePageShowsWhatWasMeasured(t *testing.T) {
	text, err := os.ReadFile("../docs/scaleout.json")
	if err != nil {
		t.Fatal(err)
	}
	var r scaling
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := r.onPage(page)
	if err != nil || string(want) != string(page) {
		t.Errorf("%v: `go run ./bench scaleout -from docs/scaleout.json -page docs/scale.md` changes the page", err)
	}
}

// The start of processes is no part of what is measured; what they read before they apply the first cell is.
func TestAWindowLeavesTheStartOut(t *testing.T) {
	begin := time.Now()
	at := func(seconds int, begun bool, cells int64, program, others, idle int) sample {
		return sample{at: begin.Add(time.Duration(seconds) * time.Second), begun: begun, cells: cells,
			idle: time.Duration(idle) * time.Second, cpu: map[part]time.Duration{
				programPart: time.Duration(program) * time.Second, othersPart: time.Duration(others) * time.Second}}
	}
	w := windowOf([]sample{at(0, false, 0, 50, 7, 9), at(1, false, 0, 51, 8, 9), at(2, true, 0, 52, 8, 10),
		at(3, true, 900, 53, 8, 11), at(5, true, 1000, 54, 9, 13)})
	if w.Cells != 1000 || w.Seconds != 4 || w.PerSecond != 250 || math.Abs(w.CPU[programPart]-3000) > 1e-6 ||
		math.Abs(w.Cores-2) > 1e-6 || math.Abs(w.Busy-0.5) > 1e-6 {
		t.Errorf("%+v", w)
	}
}

func TestFlagsOfScaleout(t *testing.T) {
	for args, wrong := range map[string]string{
		"":                         "",
		"-sinks redis -members 3":  "",
		"-sinks elastic":           `no sink "elastic"`,
		"-members 1,0":             `"0" is no number`,
		"-server redis-7":          "no binlog",
		"-use 1.5":                 "-use is a part",
		"now":                      "nothing else",
		"-server mariadb-10.11":    "",
		"-cells 0":                 "at least 1",
		"-members 1, -sinks redis": `"" is no number`,
	} {
		_, err := parseScaleout(strings.Fields(args), io.Discard)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%q: %v; it should say %q", args, err, wrong)
		}
	}
}

// isMember makes the test binary a member, as the bench's own is one.
func isMember() bool { return len(os.Args) > 1 && os.Args[1] == memberCommand }
