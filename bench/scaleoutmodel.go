package main

import (
	"fmt"
	"math"
	"slices"
)

// scaling is everything that "scaleout" found.
type scaling struct {
	Machine machine  `json:"machine"`
	Kind    string   `json:"kind"`
	Version string   `json:"version"`
	Broker  string   `json:"broker"`
	Cells   int      `json:"cells"`
	Body    int      `json:"body_bytes"`
	Use     float64  `json:"use"`
	Turns   []scaled `json:"turns"`
}

// What processes do.
const (
	publishing = "publisher"
	applying   = "member"
)

// scaled is one measured run.
type scaled struct {
	What       string  `json:"what"`
	Sink       string  `json:"sink"`
	Members    int     `json:"members"`
	Partitions int     `json:"partitions"`
	Bytes      float64 `json:"topic_bytes,omitempty"` // a cell takes in the topic
	window
	Retries int    `json:"retries,omitempty"` // sessions that failed and began again: some cells were applied twice
	Load    string `json:"load"`
}

func (s scaled) name() string {
	if s.What == publishing {
		return "publisher"
	}
	return fmt.Sprintf("%d member%s into %s", s.Members, plural(s.Members), s.Sink)
}

func (s scaled) String() string {
	return fmt.Sprintf("%s cells a second; CPU µs a cell: %s, broker %s, sink %s, source %s, others %s; %.0f%% of %.1f cores busy",
		thousands(int64(s.PerSecond)), micro(s.CPU[programPart]), micro(s.CPU[brokerPart]), micro(s.CPU[sinkPart]),
		micro(s.CPU[sourcePart]), micro(s.CPU[othersPart]), 100*s.Busy, s.Cores)
}

// saturated is the part of the cores from which on they are taken for the limit.
const saturated = 0.9

// left is how many cores other work left. What that took is no part of the model.
func (s scaled) left() float64 { return s.Cores - s.PerSecond*s.CPU[othersPart]/1e6 }

// limit names what kept a run from being faster.
func (s scaled) limit() string {
	used := s.PerSecond * s.CPU[programPart] / 1e6
	switch {
	case s.Retries > 0:
		return fmt.Sprintf("%d session%s failed and began again", s.Retries, plural(s.Retries))
	case s.Busy >= saturated:
		return "the machine's cores"
	case s.What == applying && used >= saturated*float64(s.Members):
		return "the members' cores"
	}
	return fmt.Sprintf("waiting: %.1f of %.1f cores busy", s.Busy*s.Cores, s.Cores)
}

// model is what a cell costs, in CPU µs, as the runs of a publisher and of one member say.
type model struct {
	Rate    float64 // cells a second of one publisher, with the cores that other work took from it
	Publish map[part]float64
	Apply   map[string]map[part]float64 // by sink
	Bytes   float64
}

// sinks are those that were measured, in order.
func (r *scaling) sinks() (names []string) {
	for _, t := range r.Turns {
		if t.What == applying && !slices.Contains(names, t.Sink) {
			names = append(names, t.Sink)
		}
	}
	return names
}

// publishers are the runs that calibrate the model: those into the fewest partitions.
func (r *scaling) publishers() (all []scaled) {
	for _, t := range r.Turns {
		if t.What == publishing && (len(all) == 0 || t.Partitions == all[0].Partitions) {
			all = append(all, t)
		}
	}
	return all
}

// calibrated makes the model: of the publisher's runs the medians, of members the run of the fewest.
func (r *scaling) calibrated() model {
	m := model{Publish: map[part]float64{}, Apply: map[string]map[part]float64{}}
	published := r.publishers()
	for _, p := range []part{programPart, sourcePart, brokerPart} {
		m.Publish[p] = middle(published, func(s scaled) float64 { return s.CPU[p] })
	}
	m.Rate = middle(published, func(s scaled) float64 { return s.PerSecond * s.Cores / s.left() })
	m.Bytes = middle(published, func(s scaled) float64 { return s.Bytes })
	for _, sink := range r.sinks() {
		least := math.MaxInt
		for _, t := range r.Turns {
			if t.What == applying && t.Sink == sink && t.Members < least {
				least = t.Members
				m.Apply[sink] = t.CPU
			}
		}
	}
	return m
}

// middle is the median of a figure.
func middle(all []scaled, figure func(scaled) float64) float64 {
	var values []float64
	for _, s := range all {
		values = append(values, figure(s))
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// predict is how many cells a second so many members apply on one machine: each has a core, and all share the machine's
// with the broker and the sink.
func (m model) predict(sink string, members int, cores float64) float64 {
	c := m.Apply[sink]
	return min(float64(members)*1e6/c[programPart], cores*1e6/(c[programPart]+c[brokerPart]+c[sinkPart]))
}

// What the plan takes for given.
const (
	copies          = 3  // of every partition
	coresOfBroker   = 4  // of one broker
	leastPartitions = 12 // of a topic
)

// need is what a rate of cells takes.
type need struct {
	Publishers, Members, Partitions, Brokers int
	PublisherCores, BrokerCores, SinkCores   float64
	Written                                  float64 // MB a second to the brokers' disks, all copies
}

// needs evaluates the model. Of each core a part is used. A copy of a record costs a broker as much as the first one.
func (m model) needs(rate, use float64, sink string) need {
	c := m.Apply[sink]
	cores := func(micros float64) float64 { return rate * micros / 1e6 / use }
	n := need{
		Publishers:     int(math.Ceil(rate / (m.Rate * use))),
		PublisherCores: cores(m.Publish[programPart]),
		Members:        int(math.Ceil(cores(c[programPart]))),
		BrokerCores:    cores(copies*m.Publish[brokerPart] + c[brokerPart]),
		SinkCores:      cores(c[sinkPart]),
		Written:        rate * copies * m.Bytes / 1e6,
	}
	n.Partitions = max(leastPartitions, 2*n.Members)
	n.Brokers = max(copies, int(math.Ceil(n.BrokerCores/coresOfBroker)))
	return n
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
