package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/internal/human"
	"replicator/internal/pause"
	"replicator/server"
	"replicator/service"
)

func topCommand(o *options) *cobra.Command {
	every := time.Second
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the views on a terminal: the status page without a browser",
		Long: `Shows what the status page shows, and renews it: state, lag and throughput with the last hour's
curves, what is left of a fill, dead letters, errors with their times, and the source with the time left
until its position may be lost. It asks the running process. q or Ctrl-C ends it, the arrow keys scroll.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := o.loadToAsk()
			if err != nil {
				return err
			}
			t := newTerminal(cmd.OutOrStdout())
			if t.file == nil {
				return usageError{errors.New("top needs a terminal; `replicator status --watch` does not")}
			}
			if every < leastEvery {
				return usageError{fmt.Errorf("--every is at least %s", leastEvery)}
			}
			return top(cmd.Context(), service.Client(cfg), t, every)
		},
	}
	cmd.Flags().DurationVar(&every, "every", every, "how often it is renewed")
	return cmd
}

// leastEvery keeps a slip from asking the program all the time.
const leastEvery = 100 * time.Millisecond

// historyEvery is how often top asks for the last hour.
const historyEvery = 15 * time.Second

// top shows views until ctx is done or somebody presses q.
func top(ctx context.Context, c server.Client, t terminal, every time.Duration) error {
	var seen overview
	if seen.ask(ctx, c); seen.err != nil {
		return asked("top", "", seen.err)
	}
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	scroll := make(chan int, 16)
	restore := readKeys(func(k key) {
		switch k {
		case keyQuit:
			quit()
		case keyUp, keyDown:
			select {
			case scroll <- map[key]int{keyUp: -1, keyDown: 1}[k]:
			default: // it is pressed faster than it is shown
			}
		}
	})
	defer restore()
	screen := canvas{terminal: t}
	screen.open()
	defer screen.close()
	from := 0
	for {
		columns, height := t.size()
		body := seen.lines(columns, t.colour)
		from = max(0, min(from, len(body)-height))
		screen.draw(body[from:], columns, height)
		select {
		case n := <-scroll:
			from += n
			continue
		case <-time.After(every):
		case <-ctx.Done():
			return nil
		}
		seen.ask(ctx, c)
	}
}

// overview is what top knows.
type overview struct {
	at      time.Time // when it was so
	views   []replicator.ViewStatus
	sources []server.SourceStatus
	pasts   []server.Past
	asked   time.Time // the sources and the last hour
	err     error     // why there is nothing newer
}

// ask asks the program again. What it can't say stays as it was.
func (o *overview) ask(ctx context.Context, c server.Client) {
	var views []replicator.ViewStatus
	if views, o.err = c.Status(ctx); o.err != nil {
		return
	}
	o.at, o.views = time.Now(), views
	if time.Since(o.asked) < historyEvery {
		return
	}
	o.asked = time.Now()
	if sources, err := c.Sources(ctx); err == nil { // an older program doesn't know that
		o.sources = sources
	}
	if pasts, err := c.History(ctx); err == nil {
		o.pasts = pasts
	}
}

// lines are what is shown on a screen of some columns.
func (o *overview) lines(columns int, colour bool) []string {
	var lines []string
	say := func(p paint, text string) {
		for _, line := range wrapped(visible(text), columns) {
			lines = append(lines, painted{line, p}.show(colour))
		}
	}
	if o.err != nil {
		say(red, fmt.Sprintf("no answer since %s: %s", o.at.Format(time.TimeOnly), o.err))
	}
	say(bold, o.summary())
	for _, s := range o.sources {
		say(faint, shownSource(s))
	}
	lines = append(lines, "")
	for _, how := range []topTable{{20, true}, {10, true}, {10, false}, {0, false}} { // as much as there is room for
		if g := o.table(how); g.width() <= columns {
			return append(lines, g.lines(columns, colour)...)
		}
	}
	return append(lines, o.table(topTable{0, true}).list(columns, colour)...)
}

// topTable says what a table of views shows.
type topTable struct {
	curves    int // how many columns one has; 0: there are none
	positions bool
}

func (o *overview) table(how topTable) *grid {
	g := &grid{header: []string{"view", "state", "lag"}}
	curve := func() {
		if how.curves > 0 {
			g.header = append(g.header, "")
		}
	}
	curve()
	g.header = append(g.header, "changes/s")
	curve()
	g.header = append(g.header, "dead")
	if how.positions {
		g.header = append(g.header, "position")
	}
	for _, v := range o.views {
		g.add(o.row(v, how), errorNotes(v)...)
	}
	return g
}

// summary is the first line.
func (o *overview) summary() string {
	var lag *float64
	rate, dead, kept := 0.0, 0, 0
	counted := map[string]bool{} // a view of several shards has its letters in each
	for _, v := range o.views {
		if v.KeptUp() {
			kept++
		}
		if v.LagSeconds != nil && (lag == nil || *v.LagSeconds > *lag) {
			lag = v.LagSeconds
		}
		if !counted[v.View] {
			dead += v.DeadLetters
		}
		counted[v.View] = true
		rate += v.Rate
	}
	return fmt.Sprintf("%s  %d of %d views kept up  lag %s  %.1f changes/s  %s", o.at.Format(time.TimeOnly), kept,
		len(o.views), human.Seconds(lag), rate, plural(dead, "dead letter"))
}

func shownSource(s server.SourceStatus) string {
	text := "source"
	if s.Source != "" {
		text += " " + s.Source
	}
	text += " for " + s.Sink + ": " + s.Position
	switch {
	case s.Keeps:
		text += ", binlog kept for ever"
	case s.Retention != nil:
		text += ", binlog kept for " + human.Seconds(s.Retention) + " more"
	}
	if s.GTID != "" {
		text += ", " + s.GTID
	}
	return text
}

// row is what a table shows of a view.
func (o *overview) row(v replicator.ViewStatus, how topTable) []painted {
	name := v.View
	if v.Source != "" {
		name += " " + v.Source
	}
	var past server.Past
	for _, p := range o.pasts {
		if p.View == v.View && p.Source == v.Source {
			past = p
		}
	}
	row := []painted{{name, plain}, shownState(v), {human.Seconds(v.LagSeconds), plain}}
	curve := func(values []*float64) {
		if how.curves > 0 {
			row = append(row, painted{sparkline(values, how.curves), blue})
		}
	}
	curve(past.Lag)
	row = append(row, painted{fmt.Sprintf("%.1f", v.Rate), plain})
	curve(past.Rate)
	row = append(row, shownDead(v))
	if how.positions {
		row = append(row, painted{v.Position, faint})
	}
	return row
}

// shownState is a view's state, with how far a fill is.
func shownState(v replicator.ViewStatus) painted {
	p := painted{v.State, stateColour(v.State)}
	if v.State == replicator.StateFilling || v.State == replicator.StateRebuilding {
		p.text += fmt.Sprintf(" %.0f%%", 100*v.Progress)
		if v.ETA != nil {
			p.text += ", " + human.Seconds(v.ETA) + " left"
		}
	}
	if v.Verifying {
		p.text += ", verifying"
	}
	return p
}

func stateColour(state string) paint {
	switch state {
	case replicator.StateRunning:
		return green
	case replicator.StateFailed:
		return red
	case replicator.StateRetrying, replicator.StatePaused:
		return yellow
	case replicator.StateFilling, replicator.StateRebuilding, replicator.StateStarting:
		return blue
	}
	return faint
}

func shownDead(v replicator.ViewStatus) painted {
	if v.DeadLetters > 0 {
		return painted{strconv.Itoa(v.DeadLetters), red}
	}
	return painted{"0", plain}
}

// errorNotes say what is wrong with a view, or was.
func errorNotes(v replicator.ViewStatus) (notes []painted) {
	switch {
	case v.Error != "" && !v.ErrorSince.IsZero():
		notes = append(notes, painted{v.Error + " (for " + human.Duration(time.Since(v.ErrorSince)) + ")", red})
	case v.Error != "":
		notes = append(notes, painted{v.Error, red})
	case v.LastError != nil:
		notes = append(notes, painted{fmt.Sprintf("last error, over for %s: %s",
			human.Duration(time.Since(v.LastError.Until)), v.LastError.Error), faint})
	}
	if v.Verified != nil && v.Verified.Error != "" {
		notes = append(notes, painted{"verify: " + v.Verified.Error, red})
	}
	return notes
}

// sparkline draws values as some characters, those that fall together by the highest of them.
func sparkline(values []*float64, columns int) string {
	points := make([]float64, columns)
	for i := range points {
		points[i] = -1
	}
	highest := 1e-9
	for i, v := range values {
		if v != nil {
			at := i * columns / len(values)
			points[at], highest = max(points[at], *v), max(highest, *v)
		}
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range points {
		if v < 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(levels[min(int(v/highest*float64(len(levels))), len(levels)-1)])
	}
	return b.String()
}

// repeated shows something again and again until ctx is done: in place on a terminal, else one below the other.
func repeated(ctx context.Context, t terminal, every time.Duration, show func(columns int) ([]string, error)) error {
	c := canvas{terminal: t}
	if t.file != nil {
		c.open()
		defer c.close()
	}
	for {
		columns, height := t.size()
		lines, err := show(columns)
		if err != nil {
			return err
		}
		c.draw(lines, columns, height)
		if pause.For(ctx, every) != nil {
			return nil
		}
	}
}
