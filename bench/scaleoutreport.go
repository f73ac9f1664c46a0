package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// print writes the tables as Markdown.
func (r *scaling) print(out io.Writer) {
	m := r.calibrated()
	paragraph(out, "%d cores (%s), %s; load average before %s, after %s. Source: %s %s; broker: Kafka %s. %s cells, each of "+
		"another entity, with bodies of %d bytes.", r.Machine.Cores, r.Machine.CPU, r.Machine.Go, r.Machine.LoadBefore,
		r.Machine.LoadAfter, r.Kind, r.Version, r.Broker, thousands(int64(r.Cells)), r.Body)
	fmt.Fprint(out, "\n| | partitions | cells a second | CPU µs a cell: program | source | broker | sink | others "+
		"| predicted | ÷ measured | limit |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, t := range r.Turns {
		predicted, ratio := "", ""
		if t.What == applying {
			p := m.predict(t.Sink, t.Members, t.left())
			predicted, ratio = thousands(int64(p)), fmt.Sprintf("%.2f", p/t.PerSecond)
		}
		fmt.Fprintf(out, "| %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", t.name(), t.Partitions,
			thousands(int64(t.PerSecond)), micro(t.CPU[programPart]), micro(t.CPU[sourcePart]), micro(t.CPU[brokerPart]),
			micro(t.CPU[sinkPart]), micro(t.CPU[othersPart]), predicted, ratio, t.limit())
	}
	fmt.Fprintln(out)
	paragraph(out, "A cell costs the publisher %s µs and the broker %s, and takes %.0f bytes in the topic; one publisher "+
		"brings %s a second, had it the cores to itself. What that comes to, with %.0f %% of each core used, %d copies of each record and one consumer "+
		"group:", micro(m.Publish[programPart]), micro(m.Publish[brokerPart]), m.Bytes, thousands(int64(m.Rate)),
		100*r.Use, copies)
	fmt.Fprintf(out, "\n| cells a second, into | publishers (cores) | members of one core | partitions | brokers of %d cores "+
		"(cores) | sink's cores | MB a second written |\n|---|---|---|---|---|---|---|\n", coresOfBroker)
	for _, sink := range r.sinks() {
		for _, rate := range []float64{100_000, 1_000_000, 10_000_000} {
			n := m.needs(rate, r.Use, sink)
			fmt.Fprintf(out, "| %s, %s | %s (%s) | %s | %s | %s (%s) | %s | %s |\n", thousands(int64(rate)), sink,
				thousands(int64(n.Publishers)), micro(n.PublisherCores), thousands(int64(n.Members)),
				thousands(int64(n.Partitions)), thousands(int64(n.Brokers)), micro(n.BrokerCores), micro(n.SinkCores),
				thousands(int64(n.Written)))
		}
	}
}

// paragraph writes a text in lines of at most 120 columns.
func paragraph(out io.Writer, format string, args ...any) {
	line := ""
	for _, word := range strings.Fields(fmt.Sprintf(format, args...)) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > 120 {
			fmt.Fprintln(out, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(out, line)
}

// Between these a page holds what print writes.
const (
	scaleoutBegin = "<!-- bench scaleout -->\n"
	scaleoutEnd   = "<!-- end of bench scaleout -->\n"
)

// onPage is a page with what print writes between its marks.
func (r *scaling) onPage(page []byte) ([]byte, error) {
	before, rest, begins := bytes.Cut(page, []byte(scaleoutBegin))
	_, after, ends := bytes.Cut(rest, []byte(scaleoutEnd))
	if !begins || !ends {
		return nil, errors.New("the page has no place for the figures: " + strings.TrimSpace(scaleoutBegin))
	}
	var figures bytes.Buffer
	r.print(&figures)
	return bytes.Join([][]byte{before, []byte(scaleoutBegin + "\n"), figures.Bytes(), []byte("\n" + scaleoutEnd), after},
		nil), nil
}

// writePage puts the figures into a page.
func (r *scaling) writePage(path string) error {
	page, err := os.ReadFile(path)
	if err == nil {
		page, err = r.onPage(page)
	}
	if err == nil {
		err = os.WriteFile(path, page, 0o644)
	}
	return err
}
