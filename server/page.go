package server

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"replicator"
	"replicator/internal/human"
)

//go:embed page.html
var pageText string

//go:embed page.js
var pageScript string

// pageTemplate returns the templates of the pages. It parses them at the first request.
var pageTemplate = sync.OnceValues(func() (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{
		"duration": human.Seconds,
		"percent":  func(ratio float64) string { return fmt.Sprintf("%.0f %%", 100*ratio) },
		"rate":     func(rate float64) string { return fmt.Sprintf("%.1f", rate) },
		"bytes":    human.Bytes,
		"stamp":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":    shownClock,
		"since":    func(t time.Time) string { return human.Duration(time.Since(t)) },
		"between":  func(a, b time.Time) string { return human.Duration(b.Sub(a)) },
	}).Parse(pageText)
})

// scriptHash returns the hash of the page's script for the Content-Security-Policy, so that a browser runs no other
// script.
var scriptHash = sync.OnceValue(func() string {
	sum := sha256.Sum256([]byte(pageScript))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
})

type pageData struct {
	Title    string
	Views    []pageView
	Links    []pageView         // the first few views that are not ready
	Causes   []replicator.Cause // errors that several views have in common
	Sources  []pageSource
	Error    string
	Troubled int
	Lag      *float64 // the highest lag of all views; nil: unknown
	Rate     float64
	Letters  int
	Now      string
	Script   template.JS
}

type pageView struct {
	replicator.ViewStatus
	ID                  string
	LagCurve, RateCurve curve
	Filling             bool
	Acts                bool // this process can pause or rebuild the view
	Lacking             bool // the view runs, but cells are missing because of dead letters
	Shared              bool // other views have the same error, so pageData.Causes has it
}

type pageSource struct {
	SourceStats
	Keeps bool // the server keeps its binlogs until an operator purges them
	Soon  bool // the server may purge the binlog at the source's position within an hour
}

type lettersData struct {
	Title, View, Error string
	Groups             []LetterGroup
	Script             template.JS
}

func shownClock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// curve shows a value over the last hour as an SVG path, 80 wide and 20 high. Path is "" if no value is known.
type curve struct{ Path, Label string }

func newCurve(what string, values []*float64, shown func(*float64) string) curve {
	const width, height = 80, 20
	var points [width]*float64 // the highest value at each x
	var highest, latest *float64
	for i, v := range values {
		if v == nil {
			continue
		}
		if at := i * width / len(values); points[at] == nil || *v > *points[at] {
			points[at] = v
		}
		highest, latest = worst(highest, v, 1), v
	}
	if latest == nil {
		return curve{}
	}
	var b strings.Builder
	for x, v := range points {
		if v == nil {
			continue
		}
		y := height - 1 - int(math.Round(*v/max(*highest, 1e-9)*(height-2)))
		switch before := x > 0 && points[x-1] != nil; {
		case before:
			fmt.Fprintf(&b, "L%d %d", x, y)
		default: // a single value needs a short line to be visible
			fmt.Fprintf(&b, "M%d %dh1", x, y)
		}
	}
	return curve{b.String(), fmt.Sprintf("%s over the last hour: now %s, highest %s", what, shown(latest), shown(highest))}
}

func (s *Server) overview(r *http.Request) pageData {
	now := time.Now()
	d := pageData{Title: "replicator", Script: template.JS(pageScript),
		Now: shownClock(now) + ", up " + human.Duration(now.Sub(s.started))}
	views, err := s.views(r.Context())
	if err != nil {
		d.Error = err.Error()
	}
	rate := func(v *float64) string { return fmt.Sprintf("%.1f", *v) }
	letters := map[string]int{} // by view: not added up, because each source's status has the count for the whole view
	for _, c := range replicator.CausesOf(views) {
		if len(c.Views) > 1 {
			d.Causes = append(d.Causes, c)
		}
	}
	for i, v := range views {
		past := s.watch.history.of(now, v.View, v.Source)
		p := pageView{ViewStatus: v, ID: fmt.Sprintf("view-%d", i),
			LagCurve: newCurve("lag", past.lag, human.Seconds), RateCurve: newCurve("changes/s", past.rate, rate),
			Filling: v.State == replicator.StateFilling || v.State == replicator.StateRebuilding,
			Acts:    v.State != replicator.StateStandby,
			Lacking: v.State == replicator.StateRunning && v.DeadLetters > 0,
			Shared:  slices.ContainsFunc(d.Causes, func(c replicator.Cause) bool { return c.Includes(v) })}
		d.Views = append(d.Views, p)
		if notReady(v) != "" {
			d.Troubled++
			if len(d.Links) < 5 {
				d.Links = append(d.Links, p)
			}
		}
		if v.LagSeconds != nil {
			d.Lag = worst(d.Lag, v.LagSeconds, 1)
		}
		d.Rate += v.Rate
		letters[v.View] = v.DeadLetters
	}
	for _, n := range letters {
		d.Letters += n
	}
	for _, source := range s.watch.sources() {
		p := pageSource{SourceStats: source}
		if left := source.Retention; left != nil {
			p.Keeps, p.Soon = math.IsInf(*left, 1), *left < 3600
		}
		d.Sources = append(d.Sources, p)
	}
	if d.Troubled > 0 {
		d.Title = fmt.Sprintf("replicator (%d not ready)", d.Troubled)
	}
	return d
}

func (s *Server) render(w http.ResponseWriter, r *http.Request, name string, data any) {
	text, err := rendered(name, data)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text) // an error means that the client has disconnected
}

func rendered(name string, data any) ([]byte, error) {
	pages, err := pageTemplate()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = pages.ExecuteTemplate(&b, name, data)
	return b.Bytes(), err
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, "page", s.overview(r))
}

func (s *Server) lettersPage(w http.ResponseWriter, r *http.Request) {
	d := lettersData{Title: "replicator: dead letters", View: r.URL.Query().Get("view"), Script: template.JS(pageScript)}
	var err error
	if d.Groups, err = s.controller.LetterGroups(r.Context(), d.View); err != nil {
		d.Error = err.Error()
	}
	s.open(d.Groups)
	s.render(w, r, "deadletters", d)
}

// liveEvent is an update of an open status page.
type liveEvent struct {
	Title string `json:"title"`
	Now   string `json:"now"`
	HTML  string `json:"html"` // the page's main part
}

// liveEvery is the interval at which an open page is updated. It grows by liveEvery for each liveViews views, because
// each view costs the browser time.
const (
	liveEvery = 2 * time.Second
	liveViews = 200
)

// live sends the page's main part at each interval until the client disconnects.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	if !s.mayWait(w) {
		return
	}
	defer func() { <-s.waiting }()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	for {
		d := s.overview(r)
		text, err := rendered("main", d)
		if err == nil {
			text, err = json.Marshal(liveEvent{Title: d.Title, Now: d.Now, HTML: string(text)})
		}
		if err == nil && r.Context().Err() == nil {
			err = control.SetWriteDeadline(time.Now().Add(answerTime)) // a client that stops reading counts as gone
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "event: main\ndata: %s\n\n", text)
		}
		if err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-time.After(liveEvery * time.Duration(1+len(d.Views)/liveViews)):
		case <-r.Context().Done():
			return
		}
	}
}
