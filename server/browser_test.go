package server

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/browser"
)

// screenshots is the environment variable with the directory for screenshots of the page.
const screenshots = "REPLICATOR_SCREENSHOTS"

// keep saves a screenshot of a page if the environment asks for screenshots.
func keep(t *testing.T, p *browser.Page, name string) {
	t.Helper()
	dir := os.Getenv(screenshots)
	if dir == "" {
		return
	}
	picture := p.Screenshot()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".webp"), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

// shop returns the views of a shop. All of them are ready.
func shop() []replicator.ViewStatus {
	view := func(name, kind, sink string, rate, lag float64) replicator.ViewStatus {
		return replicator.ViewStatus{View: name, Kind: kind, Sink: sink, State: replicator.StateRunning, Rate: rate,
			LagSeconds: &lag, Position: "mysql-bin.000042:73829104", Progress: 1}
	}
	orders := view("orders_by_customer", "index", "main", 412.3, 0.02)
	return []replicator.ViewStatus{orders, view("customers", "hash", "cache", 18.4, 0.04),
		view("products", "document", "search", 3.1, 0.31), view("orders_by_status", "counter", "main", 412.3, 0.02)}
}

// troubled returns the shop's views with errors and dead letters.
func troubled() []replicator.ViewStatus {
	views := shop()
	views[1].State, views[1].LagSeconds, views[1].Rate = replicator.StateRetrying, lag(754), 0
	views[1].Error = "sink cache: dial tcp 10.0.3.17:6379: connect: connection refused"
	views[2].State, views[2].LagSeconds, views[2].Rate = replicator.StateFailed, lag(9000), 0
	views[2].Error = "sink search: index products: mapper [price] cannot be changed from type [long] to [double]: " +
		"rebuild the view"
	views[3].DeadLetters = 12
	return views
}

// rebuilding returns the shop's views while one view is being rebuilt.
func rebuilding() []replicator.ViewStatus {
	views := shop()
	views[2].State, views[2].Progress, views[2].FilledRows = replicator.StateRebuilding, 0.37, 1_532_880
	views[0].Verifying = true
	return views
}

// anHour fills the server's history with an hour of values for the views.
func anHour(s *Server, views []replicator.ViewStatus) {
	h := newHistory()
	for i := range historyLength {
		at := slices.Clone(views)
		for j := range at {
			phase := float64(i)/9 + float64(j)
			at[j].Rate *= 1 + 0.4*math.Sin(phase) + 0.2*math.Sin(7*phase)
			was := 0.1 + 0.05*math.Sin(5*phase)
			if at[j].Error != "" {
				was = max(was, float64(i-200)*15)
			}
			if at[j].LagSeconds = &was; i > 60 && i < 70 {
				at[j].LagSeconds = nil
			}
			if at[j].Error != "" && i < 200 {
				at[j].Error = ""
			}
			if j == 0 && i == 30 {
				at[j].Error = "sink main: Error 1205 (HY000): Lock wait timeout exceeded"
			}
			at[j].Progress *= float64(i) / float64(historyLength)
		}
		h.record(time.Now().Add(-time.Duration(historyLength-1-i)*historyStep), at)
	}
	s.watch.history.mu.Lock()
	defer s.watch.history.mu.Unlock()
	s.watch.history.views = h.views
}

// sourceOf returns the stats of the shop's source.
func sourceOf(context.Context) []SourceStats {
	return []SourceStats{{Sink: "main", Position: "mysql-bin.000042:73829104",
		GTID: "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-8841021", Events: 8_120_331, Bytes: 5 << 30,
		PositionAge: lag(0.02), Retention: lag(6*86400 + 3*3600)},
		{Sink: "cache", Position: "mysql-bin.000041:1024", PositionAge: lag(754), Retention: lag(1800)}}
}

// TestThePageInABrowser shows the page in a real browser. All its subtests share that browser.
func TestThePageInABrowser(t *testing.T) {
	b := browser.Start(t)
	desktop := browser.Look{Width: 1280, Height: 800}
	dark := browser.Look{Width: 1280, Height: 800, Dark: true}
	phone := browser.Look{Width: 390, Height: 844, Phone: true}
	start := func(t *testing.T, token string, views []replicator.ViewStatus) (*program, *Server, string) {
		p, m := &program{views: views}, NewMetrics()
		m.Sources(sourceOf)
		s, _ := serve(t, "127.0.0.1:0", token, p, m)
		anHour(s, views)
		return p, s, "http://" + s.Addr()
	}
	// within fails if something is wider than the screen, or an expected text is not on it.
	within := func(t *testing.T, page *browser.Page, texts ...string) {
		t.Helper()
		var wide string
		page.Eval(`[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
			.map(e => e.outerHTML.slice(0, 80)).join("\n")`, &wide)
		if wide != "" {
			t.Errorf("off the screen:\n%s", wide)
		}
		text := ""
		page.Eval("document.body.innerText", &text)
		for _, want := range texts {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not shown in\n%s", want, text)
			}
		}
	}

	t.Run("live, by keyboard", func(t *testing.T) {
		p, _, url := start(t, "", shop())
		page := b.Open(t, url, desktop)
		within(t, page, "4 views are kept up", "orders_by_customer", "412.3", "mysql-bin.000042:73829104",
			"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-8841021", "6 d 3 h more", "Lock wait timeout")
		keep(t, page, "desktop")
		outside := ""
		page.Eval(`performance.getEntriesByType("resource").map(e => e.name)
			.filter(n => !n.startsWith(location.origin)).join()`, &outside)
		if outside != "" {
			t.Errorf("it loads %s", outside)
		}
		names := page.Names()
		for _, want := range []string{"columnheader dead letters", "rowheader orders_by_customer", "button Pause",
			"group actions for customers", "lag over the last hour: now 0."} {
			if !strings.Contains(names, want) {
				t.Errorf("a screen reader is not told %q:\n%s", want, names)
			}
		}
		for held, i := false, 0; !held; i++ {
			if page.Press("Tab"); i > 20 {
				t.Fatal("the first view's button can't be reached by keyboard")
			}
			page.Eval(`document.activeElement.dataset.act === "pause"`, &held)
		}
		page.Press("Enter")
		page.Wait(`document.body.innerText.includes("orders_by_customer is paused")`)
		if did := p.did(); did != "pause orders_by_customer" {
			t.Errorf("it did %q", did)
		}
		views := shop()
		views[0].Rate, views[1].State = 777.7, replicator.StatePaused
		p.show(views...)
		page.Wait(`document.body.innerText.includes("777.7")`)
		page.Wait(`document.title === "replicator (1 not ready)"`)
		kept := false
		page.Eval(`document.activeElement.dataset.act === "pause"`, &kept)
		if !kept {
			t.Error("an update takes the focus away")
		}
		page.Eval(`document.querySelector('[data-act=rebuild][data-view=products]').click()`, nil)
		page.Wait(`document.getElementById("ask").open`)
		page.Press("Escape")
		page.Wait(`!document.getElementById("ask").open`)
		if did := p.did(); did != "" {
			t.Errorf("a question that was not answered did %q", did)
		}
		page.Eval(`document.querySelector('[data-act=rebuild][data-view=products]').click()`, nil)
		page.Wait(`document.getElementById("ask").open`)
		page.Eval(`document.getElementById("yes").click()`, nil)
		page.Wait(`document.body.innerText.includes("products is being rebuilt")`)
		if did := p.did(); did != "rebuild products {From: InPlace:false}" {
			t.Errorf("it did %q", did)
		}
	})

	t.Run("dark, failing", func(t *testing.T) {
		_, _, url := start(t, "", troubled())
		page := b.Open(t, url, dark)
		within(t, page, "2 of 4 not ready", "connection refused", "since", "12 dead letters",
			"12 min 34 s", "cannot be changed")
		keep(t, page, "dark-failing")
	})

	t.Run("on a phone", func(t *testing.T) {
		p, _, url := start(t, "", troubled())
		page := b.Open(t, url, phone)
		within(t, page, "2 of 4 not ready", "connection refused", "12 min 34 s", "2 h 30 min")
		keep(t, page, "phone-failing")
		p.show(rebuilding()...)
		page.Wait(`document.body.innerText.includes("37 %")`)
		within(t, page, "1532880 rows")
		keep(t, page, "phone-rebuilding")
		p.show(troubled()...)
		page = b.Open(t, url+"/deadletters", phone)
		within(t, page, "orders_by_status", "300 characters")
		keep(t, page, "phone-deadletters")
	})

	t.Run("rebuilding", func(t *testing.T) {
		_, _, url := start(t, "", rebuilding())
		page := b.Open(t, url, desktop)
		within(t, page, "37 %", "left", "1532880 rows", "verifying")
		keep(t, page, "rebuilding")
	})

	t.Run("without JavaScript", func(t *testing.T) {
		_, _, url := start(t, "", troubled())
		look := desktop
		look.NoScript = true
		page := b.Open(t, url, look)
		picture := page.Screenshot()
		if len(picture) < 10_000 {
			t.Errorf("a picture of %d bytes", len(picture))
		}
		keep(t, page, "no-javascript")
	})

	t.Run("with a token", func(t *testing.T) {
		p, _, url := start(t, "s3cret", shop())
		page := b.Open(t, url, desktop)
		page.Eval(`document.querySelector('[data-act=pause]').click()`, nil)
		page.Wait(`document.getElementById("ask").open`)
		page.Type("guess")
		page.Press("Enter")
		page.Wait(`document.body.innerText.includes("That token is wrong")`)
		page.Type("s3cret")
		keep(t, page, "token")
		page.Press("Enter")
		page.Wait(`document.body.innerText.includes("orders_by_customer is paused")`)
		page.Eval(`document.querySelector('[data-act=pause][data-view=customers]').click()`, nil)
		page.Wait(`document.body.innerText.includes("customers is paused")`)
		if did := p.did(); did != "pause orders_by_customer, pause customers" {
			t.Errorf("it did %q", did)
		}
	})

	t.Run("names that are markup", func(t *testing.T) {
		views := shop()[:1]
		views[0].View = `it's "x" & <script>document.title="broken"</script>/é`
		views[0].DeadLetters, views[0].Error = 3, `<img src=x onerror="document.title='broken'">`
		p, _, url := start(t, "", views)
		page := b.Open(t, url, desktop)
		within(t, page, views[0].View, views[0].Error)
		page.Eval(`document.querySelector('[data-act=pause]').click()`, nil)
		page.Wait(`document.body.innerText.includes("is paused")`)
		if did := p.did(); did != "pause "+views[0].View {
			t.Errorf("it did %q", did)
		}
		page.Eval(`document.querySelector('a[href^="/deadletters?view="]').click()`, nil)
		page.Wait(`document.readyState === "complete" && location.pathname === "/deadletters"`)
		within(t, page, "Dead letters of "+views[0].View, "<VARCHAR(255)>")
		page.Eval(`document.querySelector('[data-act=example]').click()`, nil)
		page.Wait(`document.querySelector("pre")`)
		within(t, page, "67108883 bytes, only the beginning is shown", `{"<b>email</b>":"öö`)
		keep(t, page, "deadletters")
		page.Eval(`document.querySelector('[data-act=retry]').click()`, nil)
		page.Wait(`document.body.innerText.includes("3 tried again, 1 still dead")`)
		page.Eval(`document.querySelector('[data-act=drop]').click()`, nil)
		page.Wait(`document.getElementById("ask").open`)
		page.Eval(`document.getElementById("yes").click()`, nil)
		page.Wait(`document.body.innerText.includes("2 dropped")`)
		which := fmt.Sprintf("{IDs:[] Group:group-%s View: All:false}", views[0].View)
		if did := p.did(); did != "letter letter-"+views[0].View+", retry "+which+", drop "+which {
			t.Errorf("it did %q", did)
		}
	})

	t.Run("a program without views", func(t *testing.T) {
		_, _, url := start(t, "", nil)
		page := b.Open(t, url, phone)
		within(t, page, "No views are configured")
		keep(t, page, "empty")
	})
}

func TestThePageIsLight(t *testing.T) {
	views := troubled()
	s, _ := serve(t, "127.0.0.1:0", "", &program{views: views}, nil)
	anHour(s, views)
	for _, path := range []string{"/", "/deadletters"} {
		if _, _, text := ask(t, s, "GET", path, "", nil); len(text) > 60_000 {
			t.Errorf("%s: %d bytes", path, len(text))
		} else {
			t.Logf("%s: %d bytes", path, len(text))
		}
	}
}
