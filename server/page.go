package server

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"replicator"
)

// page is the status page: one table, no scripts, made anew every few seconds by the browser.
func (h *handler) page(w http.ResponseWriter, r *http.Request) {
	views, err := h.controller.Status(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, map[string]any{"Views": views, "Now": time.Now().UTC().Format(time.RFC3339)}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // the client went away
}

// Lag shows a lag to a person.
func lag(v replicator.ViewStatus) string {
	if v.LagSeconds == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f s", *v.LagSeconds)
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"lag": lag}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5"><title>replicator</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color:#222;background:#fff}
table{border-collapse:collapse}th,td{padding:.3rem .9rem;text-align:left;border-bottom:1px solid #ddd}
td.n{text-align:right;font-variant-numeric:tabular-nums}.failed,.retrying{color:#b00020;font-weight:600}.running{color:#06752f}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}th,td{border-color:#333}.running{color:#5fd38d}.failed,.retrying{color:#ff7b86}}
</style></head><body>
<h1>replicator</h1>
<table><thead><tr><th>view</th><th>sink</th><th>source</th><th>kind</th><th>state</th><th>position</th><th>lag</th><th>changes/s</th><th>dead letters</th><th>error</th></tr></thead>
<tbody>{{range .Views}}<tr><td>{{.View}}</td><td>{{.Sink}}</td><td>{{.Source}}</td><td>{{.Kind}}</td><td class="{{.State}}">{{.State}}</td><td>{{.Position}}</td><td class="n">{{lag .}}</td><td class="n">{{printf "%.1f" .Rate}}</td><td class="n">{{.DeadLetters}}</td><td>{{.Error}}</td></tr>
{{end}}</tbody></table>
<p>{{.Now}} · <a href="/api/v1/status">status as JSON</a> · <a href="/metrics">metrics</a> · <a href="/readyz">readiness</a></p>
</body></html>
`))
