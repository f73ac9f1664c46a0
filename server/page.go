package server

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"replicator"
)

//go:embed page.html
var pageText string

// pageTemplate parses the page once, when it is first asked for.
var pageTemplate = sync.OnceValues(func() (*template.Template, error) {
	return template.New("page").Funcs(template.FuncMap{
		"lag":     shownLag,
		"percent": func(ratio float64) string { return fmt.Sprintf("%.0f %%", 100*ratio) },
		"rate":    func(rate float64) string { return fmt.Sprintf("%.1f", rate) },
	}).Parse(pageText)
})

type pageData struct {
	Views    []replicator.ViewStatus
	Error    string
	Troubled int
	Up, Now  string
}

func shownLag(lag *float64) string {
	if lag == nil {
		return "–"
	}
	if *lag < 10 {
		return fmt.Sprintf("%.1f s", *lag)
	}
	return time.Duration(*lag * float64(time.Second)).Round(time.Second).String()
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	d := pageData{Up: time.Since(s.started).Round(time.Second).String(), Now: time.Now().UTC().Format("2006-01-02 15:04:05 MST")}
	var err error
	if d.Views, err = s.controller.Status(r.Context()); err != nil {
		d.Error = err.Error()
	}
	for _, v := range d.Views {
		if notReady(v) != "" {
			d.Troubled++
		}
	}
	var b bytes.Buffer
	page, err := pageTemplate()
	if err == nil {
		err = page.Execute(&b, d)
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // an error here is the reader's, who is gone
}
