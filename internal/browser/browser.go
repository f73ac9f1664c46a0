// Package browser drives a headless Chromium for tests of web pages. It speaks the DevTools protocol through a pipe, so
// it opens no port.
//
// If the machine can't run the browser, tests that start it are skipped with the reason. If servers are required
// (package servertest), they fail instead.
package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator/internal/child"
	"replicator/internal/pause"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// Browser is a browser that runs until the test ends.
type Browser struct {
	to io.Writer

	mu      sync.Mutex
	next    int
	waiting map[int]chan message
	ended   error // the error that ended reading from the browser; nil before
}

// message is a message of the DevTools protocol: a request, an answer, or an event, which has no ID.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts a browser for this test.
func Start(t testing.TB) *Browser {
	t.Helper()
	cmd, err := servers.Chromium(context.Background(), t.TempDir(), "--remote-debugging-pipe")
	var missing *servers.MissingError
	if errors.As(err, &missing) {
		servertest.Unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	theirsIn, oursOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	oursIn, theirsOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{theirsIn, theirsOut} // file descriptors 3 and 4, as the browser expects
	process, err := child.Start(cmd)
	if err := errors.Join(err, theirsIn.Close(), theirsOut.Close()); err != nil {
		t.Fatal(err)
	}
	b := &Browser{to: oursOut, waiting: map[int]chan message{}}
	var reading sync.WaitGroup
	reading.Go(func() { b.read(oursIn) })
	t.Cleanup(func() {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = process.Wait() // the browser may have been killed
		}()
		_ = b.call("", "Browser.close", nil, nil) // the browser may no longer answer
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		oursOut.Close()
		oursIn.Close()
		reading.Wait()
	})
	return b
}

func (b *Browser) read(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		var m message
		if err == nil {
			err = json.Unmarshal(text[:len(text)-1], &m)
		}
		b.mu.Lock()
		if err != nil {
			b.ended = fmt.Errorf("the browser is gone: %w", err)
			for _, w := range b.waiting {
				close(w)
			}
			clear(b.waiting)
			b.mu.Unlock()
			return
		}
		if w := b.waiting[m.ID]; w != nil {
			w <- m
			delete(b.waiting, m.ID)
		}
		b.mu.Unlock()
	}
}

func (b *Browser) call(session, method string, params, out any) error {
	b.mu.Lock()
	if b.ended != nil {
		b.mu.Unlock()
		return b.ended
	}
	b.next++
	answer := make(chan message, 1)
	b.waiting[b.next] = answer
	text, err := json.Marshal(message{ID: b.next, Session: session, Method: method, Params: params})
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return fmt.Errorf("%s: %w", method, b.ended)
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case out == nil:
			return nil
		}
		return json.Unmarshal(m.Result, out)
	case <-time.After(30 * time.Second):
		return fmt.Errorf("%s: the browser does not answer", method)
	}
}

// Look says how to show a page.
type Look struct {
	Width, Height int
	Dark, Phone   bool
	NoScript      bool
}

// Page is a tab of the browser.
type Page struct {
	t       testing.TB
	browser *Browser
	session string
}

type object = map[string]any

// Open opens a page and waits until it has loaded.
func (b *Browser) Open(t testing.TB, url string, look Look) *Page {
	t.Helper()
	var target struct {
		ID string `json:"targetId"`
	}
	var attached struct {
		Session string `json:"sessionId"`
	}
	err := b.call("", "Target.createTarget", object{"url": "about:blank"}, &target)
	if err == nil {
		err = b.call("", "Target.attachToTarget", object{"targetId": target.ID, "flatten": true}, &attached)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &Page{t: t, browser: b, session: attached.Session}
	scale := 1
	if look.Phone {
		scale = 2
	}
	p.call("Emulation.setDeviceMetricsOverride", object{
		"width": look.Width, "height": look.Height, "deviceScaleFactor": scale, "mobile": look.Phone}, nil)
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	p.call("Emulation.setEmulatedMedia", object{
		"features": []object{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	p.call("Emulation.setScriptExecutionDisabled", object{"value": look.NoScript}, nil)
	p.call("Page.navigate", object{"url": url}, nil)
	p.Wait(`document.readyState === "complete" && location.href !== "about:blank"`)
	return p
}

func (p *Page) call(method string, params, out any) {
	p.t.Helper()
	if err := p.browser.call(p.session, method, params, out); err != nil {
		p.t.Fatal(err)
	}
}

// Eval evaluates a JavaScript expression in the page and decodes its value into out, unless out is nil. If the value is
// a promise, Eval waits for its result.
func (p *Page) Eval(expression string, out any) {
	p.t.Helper()
	var got struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	p.call("Runtime.evaluate", object{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	if got.Exception != nil {
		p.t.Fatalf("%s: %s", expression, got.Exception.Exception.Description)
	}
	if out != nil {
		if err := json.Unmarshal(got.Result.Value, out); err != nil {
			p.t.Fatalf("%s: %v", expression, err)
		}
	}
}

// Wait waits until a JavaScript expression is true.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	for holds := false; !holds; {
		p.Eval("Boolean("+expression+")", &holds)
		if !holds && pause.For(ctx, 20*time.Millisecond) != nil {
			text := ""
			p.Eval("document.documentElement.innerText", &text)
			p.t.Fatalf("the condition never became true: %s\n%s", expression, text)
		}
	}
}

// Press presses a key, such as Tab, Enter or a letter.
func (p *Page) Press(key string) {
	p.t.Helper()
	event := object{"key": key, "code": key}
	switch key {
	case "Tab":
		event["windowsVirtualKeyCode"] = 9
	case "Enter":
		event["windowsVirtualKeyCode"], event["text"] = 13, "\r"
	case "Escape":
		event["windowsVirtualKeyCode"] = 27
	}
	for _, kind := range []string{"keyDown", "keyUp"} {
		event["type"] = kind
		p.call("Input.dispatchKeyEvent", event, nil)
	}
}

// Type types text into the focused element.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.call("Input.insertText", object{"text": text}, nil)
}

// Screenshot returns a picture of the whole page, as WebP because that takes a fifth of a PNG's size.
func (p *Page) Screenshot() []byte {
	p.t.Helper()
	var shot struct {
		Data string `json:"data"`
	}
	p.call("Page.captureScreenshot", object{"format": "webp", "quality": 80, "captureBeyondViewport": true}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	return picture
}

// Names returns the roles and names that a screen reader gets for the page, one per line.
func (p *Page) Names() string {
	p.t.Helper()
	type value struct {
		Value any `json:"value"`
	}
	var tree struct {
		Nodes []struct {
			Ignored bool  `json:"ignored"`
			Role    value `json:"role"`
			Name    value `json:"name"`
		} `json:"nodes"`
	}
	p.call("Accessibility.getFullAXTree", nil, &tree)
	var b strings.Builder
	for _, n := range tree.Nodes {
		if !n.Ignored && n.Name.Value != nil && n.Name.Value != "" {
			fmt.Fprintf(&b, "%v %v\n", n.Role.Value, n.Name.Value)
		}
	}
	return b.String()
}
