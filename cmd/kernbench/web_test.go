//go:build !race

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestWeb tests `kernbench web` in one real browser. Each step waits for its own event, and every
// error that the browser reports fails the test.
func TestWeb(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	storeRuns(t, dir)
	ctx, cancel := context.WithCancel(openBrowser(t))
	defer cancel()
	b := &browser{T: t, ctx: ctx, cancel: cancel, dir: dir, site: serveWeb(t, dir, dir)}
	b.watchComplaints()
	b.list()
	b.tags()
	b.pending()
	b.run()
	b.quality()
	b.lost()
	b.filter()
	b.zoom()
	b.keys()
	b.export()
	b.compare()
	b.hostile()
	b.live()
	b.inside()
	b.token()
	if !testing.Short() {
		b.looks()
		b.accessible()
		b.print()
	}
}

// guard is the timeout for steps that hang. No step waits for it in a test that passes.
const guard = 20 * time.Minute

// openBrowser starts Chromium with a new profile.
func openBrowser(t *testing.T) context.Context {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: scripts/deps.sh installs it", err)
	}
	opts := []chromedp.ExecAllocatorOption{chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1280, 900),
		chromedp.WSURLReadTimeout(guard), chromedp.NoSandbox, chromedp.Headless}
	for _, flag := range []string{"disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update",
		"disable-sync", "disable-extensions", "disable-dev-shm-usage", "hide-scrollbars"} {
		opts = append(opts, chromedp.Flag(flag, true))
	}
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

// serveWeb starts `kernbench web` and returns the address that it prints.
func serveWeb(t *testing.T, work string, args ...string) string {
	t.Helper()
	// The last --addr counts. Port 0 is any free port.
	cmd := exec.Command("kernbench", append(append([]string{"web"}, args...), "--addr", "127.0.0.1:0")...)
	cmd.Dir, cmd.Stderr = work, os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("kernbench web, interrupted: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, rest, found := strings.Cut(line, " at ")
	address, _, _ := strings.Cut(rest, " ")
	if err != nil || !found {
		t.Fatalf("%q: %v", line, err)
	}
	return address
}

// browser is a browser tab with the page under test.
type browser struct {
	*testing.T
	ctx        context.Context
	cancel     context.CancelFunc
	dir        string // folder of results
	site       string
	mu         sync.Mutex
	complaints []string
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatalf("%v; complaints: %q", err, b.forget())
	}
}

// watchComplaints collects errors of scripts and violations of the content security policy.
func (b *browser) watchComplaints() {
	messages := chromedp.Console(b.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.complaints = append(b.complaints, m.Text)
			b.mu.Unlock()
		}
	}()
}

// forget returns the errors so far and clears them.
func (b *browser) forget() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.complaints
	b.complaints = nil
	return list
}

// open navigates to an address and waits until the page is loaded.
func (b *browser) open(path string, query ...string) {
	b.Helper()
	if len(query) > 0 {
		values := url.Values{}
		for i := 0; i < len(query); i += 2 {
			values.Add(query[i], query[i+1])
		}
		path += "?" + values.Encode()
	}
	b.do(chromedp.Navigate(strings.TrimSuffix(b.site, "/")+path), chromedp.WaitVisible("body[data-ready]"))
}

// eval returns the value of a JavaScript expression.
func (b *browser) eval(script string) any {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](script))
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return value
}

// until waits until an expression is true.
func (b *browser) until(script string) {
	b.Helper()
	wait := chromedp.Poll[chromedp.Void](script, chromedp.WithPollingTimeout(0),
		chromedp.WithPollingInterval(50*time.Millisecond))
	ctx, cancel := context.WithTimeout(b.ctx, guard/2)
	defer cancel()
	if _, err := chromedp.Run(ctx, wait); err != nil {
		b.picture("failed")
		b.Fatalf("waiting for %s: %v; complaints: %q; the page is %v", script, err, b.forget(),
			b.eval("document.body.innerText"))
	}
}

// want fails the test if an expression is false.
func (b *browser) want(script string) {
	b.Helper()
	if v := b.eval(script); v != true {
		b.Errorf("%s is %v", script, v)
	}
}

// click clicks the first element that matches a selector, at its current position.
func (b *browser) click(selector string) {
	b.Helper()
	b.want(fmt.Sprintf("(() => { const e = document.querySelector(%q); e?.click(); return e !== null; })()", selector))
}

func (b *browser) quiet(where string) {
	b.Helper()
	if list := b.forget(); len(list) > 0 {
		b.Errorf("%s: the browser complains: %q", where, list)
	}
}

// picture saves a screenshot if WEB_PICTURES names a folder.
func (b *browser) picture(name string) {
	b.Helper()
	dir := os.Getenv("WEB_PICTURES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		b.Error(err)
	}
}

const mainText = "document.getElementById('main').innerText"

// list checks the first page: runs in groups, which open, sort, group and filter, and journals that cannot be read.
func (b *browser) list() {
	b.open("/")
	b.want("document.querySelectorAll('tbody').length === 5 && document.querySelectorAll('tr[data-group]').length === 2")
	b.want(mainText + ".includes('4 failed') && " + mainText + ".includes('interrupted')")
	b.want(mainText + ".includes('10 points: 9 slower, 1 lost') && " + mainText + ".includes('0123456789ab')")
	b.want("document.getElementById('problems').innerText.includes('broken: ') && " +
		"document.getElementById('problems').innerText.includes('line 1: ')")
	// A run with disturbed rows is never green, and its group has a sparkline.
	noisy := "document.querySelector('tr[data-group$=noisy]')"
	b.want(noisy + ".innerText.includes('40 of 40 disturbed') && " + noisy + ".querySelector('.chip.ok') === null")
	bits := "document.querySelector('tr[data-run^=bits]')"
	b.want(bits + ".querySelector('.chip.failed').innerText === 'complete' && " + bits + ".innerText.includes('1 lost')")
	b.want(noisy + ".querySelector('svg.spark').getAttribute('aria-label').includes('time_us over 2 runs: from ')")
	b.want("(() => { const e = document.querySelector('.scroll'); return e.scrollWidth <= e.clientWidth; })()")
	b.picture("list")
	b.click("tr[data-group$=hops] button.fold")
	b.until("document.querySelectorAll('tr[data-run^=\"a@\"]').length === 2 && location.search.includes('open=')")
	b.do(chromedp.Reload(), chromedp.WaitVisible("body[data-ready]"))
	b.want("document.querySelector('button.fold[aria-expanded=true]').innerText.includes('2 runs')")
	order := "[...document.querySelectorAll('tbody')].map((e) => e.querySelector('a').textContent).join()"
	b.click("th button[data-key='sort bench']")
	b.until("location.search.includes('sort=bench') && " + order + ".endsWith('cut,hops,noisy')")
	b.want("document.querySelector('th[aria-sort=ascending]').innerText.startsWith('Bench')")
	b.eval("(() => { const e = document.querySelector('.bar select'); e.value = 'host'; " +
		"e.dispatchEvent(new Event('change')); return true; })()")
	b.until("document.querySelectorAll('tbody').length === 1 && document.querySelector('tbody a').textContent === 'node1'")
	b.open("/")
	b.do(chromedp.SendKeys("input[type=search]", "node1 -disturbed -interrupted hops"))
	b.until("document.querySelectorAll('tbody').length === 1")
	b.want("new URLSearchParams(location.search).get('q') === 'node1 -disturbed -interrupted hops'")
	b.click("tbody tr:last-child a")
	b.until("document.body.dataset.ready?.startsWith('/run') && document.title.startsWith('hops')")
	b.quiet("list")
}

// tags checks that runs show their tags and notes, and are found and grouped by tag.
func (b *browser) tags() {
	b.open("/")
	b.want(mainText + ".includes('<b onclick=hacked=6>note</b> of x')")
	b.click("button.tag[data-key$='tag-part']")
	b.until("document.querySelectorAll('tbody').length === 1 && location.search.includes('q=tag%3Atag-part')")
	b.open("/", "q", "-tag:tag-part -tag:nightl", "group", "tag")
	b.want("[...document.querySelectorAll('tbody')].map((e) => e.querySelector('a').textContent).sort().join() === " +
		"'nightly,tag-b,tag-n1,tag-n2,tag-new,tag-old,tag-x'")
	b.open("/run", "run", "a@new")
	b.want(mainText + ".includes('note</b> of new')")
	b.click("button.tag[data-key$='tag-new']")
	b.until("document.body.dataset.ready === '/?q=tag%3Atag-new' && document.querySelectorAll('tbody').length === 1")
	b.quiet("tags")
}

// pending checks that a page shows progress while the server reads journals, and the result afterwards. The server is
// too fast for a small journal, so the test answers in its place first.
func (b *browser) pending() {
	b.eval(`(() => { const real = window.fetch; let asked = 0; window.fetch = async (url, options) => {
		const part = { journals: ['big'], read: 3 * 2 ** 20, bytes: 122 * 2 ** 20 };
		if (url.startsWith('/api/runs')) return Response.json({ dir: 'out', runs: [], pending: part });
		if (!url.startsWith('/api/run?') || options.headers.Prefer !== 'respond-async' || asked > 3) return real(url, options);
		asked++;
		await new Promise((done) => { window.proceed = done; });
		return Response.json(part, { status: 202 });
	}; return true; })()`)
	b.click("a.brand")
	b.until("document.getElementById('pending')?.innerText.includes('3.0 MiB of 122 MiB') || " +
		"document.querySelectorAll('tbody').length === 5")
	b.until("document.querySelectorAll('tbody').length === 5 && document.getElementById('pending') === null")
	b.click("tr[data-group$=noisy] a[data-link]")
	for range 4 {
		b.until("window.proceed && (window.proceed(), window.proceed = null, true)")
	}
	b.until("document.body.dataset.ready?.startsWith('/run') && document.title.startsWith('noisy')")
	b.quiet("pending")
}

func (b *browser) run() {
	b.open("/run", "run", "a@new")
	b.want("document.getElementById('summary').innerText.includes('hops recorded')")
	b.want("document.querySelector('.chart svg').getAttribute('aria-label').includes('size')")
	b.want("document.querySelector('#failures pre').innerText.includes('the last words')")
	b.want("document.querySelectorAll('.chart [data-series]').length === 2")
	// The contents lead to every part.
	b.want("[...document.querySelectorAll('nav.contents a')].map((a) => a.textContent).join().startsWith('Answer,')")
	b.want("[...document.querySelectorAll('nav.contents a')].every((a) => document.getElementById(a.hash.slice(1)))")
	// A line is a point, as in the terminal, until each trial is asked for.
	lines := "[...document.querySelectorAll('#main table')].at(-1).tBodies[0].rows.length"
	b.want(lines + " === 10 && " + mainText + ".includes('of 10 points')")
	b.picture("run")
	b.click("[data-trials]")
	b.until(lines + " === 40 && location.search.includes('trials=each')")
	b.quiet("run")
}

// quality checks that a run whose rows were all disturbed is marked, and that no part of its outcome is green.
func (b *browser) quality() {
	b.open("/run", "run", "noisy")
	b.want("document.getElementById('verdict').className === 'verdict skipped'")
	b.want("document.getElementById('chips').innerText.includes('40 of 40 disturbed') && " +
		"document.querySelector('.chip.ok') === null")
	b.want("document.getElementById('verdict').innerText.includes('Times in doubt: 40 rows were disturbed')")
	b.want("document.querySelectorAll('tr.doubt').length === 10")
	b.picture("noisy")
	b.quiet("quality")
}

// lost checks that a run with a damaged row is red on its page.
func (b *browser) lost() {
	b.open("/run", "run", "bits")
	b.want("document.querySelector('#chips .chip.failed').innerText === 'complete'")
	b.want("document.getElementById('chips').innerText.includes('1 lost')")
	b.want("document.getElementById('verdict').className === 'verdict failed'")
	b.quiet("lost")
}

func (b *browser) filter() {
	b.open("/run", "run", "a@new")
	b.do(chromedp.SetValue("#only", "size >= 64K && status == ok"))
	b.click("form button[type=submit]")
	b.until("document.body.dataset.ready?.includes('only=')")
	b.want(mainText + ".includes('of 5 points') && document.getElementById('failures') === null")
	b.want("document.querySelector('figure').innerText.includes('Only rows where size >= 64K')")
	b.open("/run", "run", "a@new", "only", "sise > 1")
	b.want(mainText + `.includes('unknown name "sise", did you mean "size"?')`)
	b.forget()
}

func (b *browser) zoom() {
	b.open("/run", "run", "a@new")
	before := b.eval("document.querySelector('.chart [data-series] path').getAttribute('d')")
	box := must.Get(chromedp.Run(b.ctx, chromedp.Evaluate[[]float64](`(() => {
		const svg = document.querySelector('.chart svg');
		svg.scrollIntoView({ block: 'center', behavior: 'instant' });
		const r = svg.getBoundingClientRect();
		return [r.left, r.top, r.width, r.height];
	})()`)))(b)
	x, y := func(part float64) float64 { return box[0] + part*box[2] }, box[1]+box[3]*0.4
	b.do(chromedp.DragAndDropXY(x(.5), y, x(.8), y+4))
	b.until("new URLSearchParams(location.search).get('z.plot_time_us_vs_size_by_num_ranks')?.startsWith('x=')")
	zoomed := b.eval("document.querySelector('.chart [data-series] path').getAttribute('d')")
	if zoomed == before {
		b.Error("the zoom changed nothing")
	}
	b.click("[data-scale=y]")
	b.click(".legend button")
	b.until("location.search.includes('off%3D0')")
	b.want("document.querySelectorAll('.chart [data-series]').length === 1")
	// The address contains the whole state: opening it again shows the same view.
	b.do(chromedp.Reload(), chromedp.WaitVisible("body[data-ready]"))
	b.want("document.querySelectorAll('.chart [data-series]').length === 1 && " +
		"document.querySelector('[data-scale=y]').innerText === 'y: linear'")
	b.want("document.querySelector('[data-reset]').disabled === false")
	b.click("[data-reset]")
	b.until("!location.search.includes('x%3D')")
	b.quiet("zoom")
}

func (b *browser) keys() {
	b.open("/run", "run", "a@new")
	b.do(chromedp.Focus(".chart svg"), chromedp.KeyEvent(kb.ArrowRight))
	b.until("document.getElementById('said').textContent.includes('size (bytes): 4Ki')")
	b.do(chromedp.KeyEvent(kb.ArrowRight))
	b.until("document.getElementById('said').textContent.includes('size (bytes): 16Ki') && " +
		"!document.querySelector('.tip').hidden")
	b.want("document.querySelector('.tip').innerText.includes('µs')")
	b.do(chromedp.KeyEvent("+"))
	b.until("location.search.includes('x%3D')")
	b.do(chromedp.KeyEvent("0"))
	b.until("!location.search.includes('x%3D') && document.activeElement === document.querySelector('.chart svg')")
	b.quiet("keys")
}

func (b *browser) export() {
	b.eval("window.saved = []; URL.createObjectURL = ((make) => (blob) => { saved.push(blob); return make.call(URL, " +
		"blob); })(URL.createObjectURL); true")
	for _, name := range []string{"CSV", "SVG"} {
		b.click("[data-save=" + name + "]")
	}
	b.until("saved.length === 2")
	b.eval("Promise.all(saved.map((blob) => blob.text())).then((texts) => { window.texts = texts; }); true")
	b.until("window.texts !== undefined")
	// A failed point has no number.
	b.want(`texts[0].startsWith('series,size (bytes),time_us,low,high,status\n') && texts[0].includes(',4096,') && /,1048576,,,,failed\n/.test(texts[0])`)
	b.want(`new DOMParser().parseFromString(texts[1], 'image/svg+xml').documentElement.tagName === 'svg' && texts[1].includes('num_ranks=2') && texts[1].includes('>hops: ')`)
	b.click("[data-save=PNG]")
	b.until("saved.some((blob) => blob.type === 'image/png' && blob.size > 5000)")
	b.quiet("export")
}

// compare shows two runs side by side, and one of their points over time.
func (b *browser) compare() {
	b.open("/", "q", "hops", "open", "a\nhops")
	for _, what := range []string{"tr[data-run='a@old'] input", "tr[data-run='a@new'] input", "#compare"} {
		b.click(what)
	}
	b.until("document.body.dataset.ready?.startsWith('/compare')")
	b.want("document.querySelector('.outcome').innerText === '10 points: 9 slower, 1 lost'")
	b.want(mainText + ".includes('+20.00%') && " + mainText +
		".includes('a@old') && document.querySelectorAll('.chart [data-series]').length === 4")
	b.picture("compare")
	b.do(chromedp.Reload(), chromedp.WaitVisible("body[data-ready]"))
	b.want("document.querySelector('.outcome').innerText === '10 points: 9 slower, 1 lost'")
	b.want("document.querySelector('.comparison .verdict').className === 'verdict failed'")
	b.open("/compare", "run", "noisy@n1", "run", "noisy@n2") // a comparison without a verdict is not green
	b.want("document.querySelector('.outcome').innerText === '10 points: 10 ambiguous' && " +
		"document.querySelector('.comparison .verdict').className === 'verdict skipped'")
	b.open("/run", "run", "a@new")
	b.click("#main table tbody tr a")
	b.until("document.body.dataset.ready?.startsWith('/history') && " +
		"document.getElementById('changes').innerText.startsWith('2 runs.')")
	b.want("document.querySelectorAll('.chart [data-series]').length === 1")
	b.picture("history")
	// The history of the whole bench, and ticks that are not cut.
	b.open("/history", "run", "noisy")
	b.want("document.querySelector('h1').innerText === 'noisy, the geometric mean over its points'")
	b.want("document.querySelector('.verdict').className === 'verdict skipped'") // too few runs to find a change
	b.want("document.querySelector('figcaption').innerText === 'time_us of each run'")
	b.want("![...document.querySelectorAll('.chart text')].some((e) => e.textContent.includes('…')) && " +
		"[...document.querySelectorAll('.chart text')].some((e) => e.textContent.includes('09:00'))")
	b.quiet("compare")
}

// hostile checks that texts in a journal are never interpreted as HTML or scripts.
func (b *browser) hostile() {
	for _, run := range []string{"evil", "a@new"} {
		b.open("/run", "run", run)
		b.want("window.hacked === undefined && document.querySelectorAll('main script, main iframe, main object, main " +
			"[onerror], main [style*=expression]').length === 0")
	}
	b.open("/run", "run", "evil")
	b.want(mainText + `.includes('<img src=x onerror="hacked=1">') && ` + mainText +
		`.includes('</pre><script>hacked=2</script>')`)
	b.want(`document.querySelector('.legend').textContent.includes('<svg onload=hacked=3>')`)
	b.picture("hostile")
	b.open("/")
	b.want("window.hacked === undefined && " + mainText + `.includes('<img src=x onerror="hacked=1">')`)
	// Control characters and directions of text are visible, in every way in which a page inserts a text.
	b.eval("import('/assets/dom.js').then(({h, s}) => { const t = 'a\\u001b\\u009b\\u202e\\u2066\\u2028b'; " +
		"const e = h('p', {text: t, title: t}, h('b', {}, t), s('text', {text: t})); window.shown = e.textContent + e.title; }); 0")
	b.until("window.shown !== undefined")
	b.want("window.shown === 'a\\\\u{1b}\\\\u{9b}\\\\u{202e}\\\\u{2066}\\\\u{2028}b'.repeat(4)")
	b.quiet("hostile")
}

// looks checks contrast in both colour schemes, accessible names, and that the page fits on a phone.
func (b *browser) looks() {
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, page := range [][]string{{"/"}, {"/run", "run", "a@new"}} {
			b.open(page[0], page[1:]...)
			b.readable(fmt.Sprintf("%s, %s", page, scheme))
		}
		b.picture(scheme)
	}
	b.do(chromedp.EmulateViewport(390, 844))
	for _, page := range [][]string{{"/"}, {"/run", "run", "a@new"}} {
		b.open(page[0], page[1:]...)
		b.want("document.documentElement.scrollWidth <= 390")
		b.picture("phone" + strings.ReplaceAll(page[0], "/", "-"))
	}
	b.do(chromedp.EmulateViewport(1280, 900))
	b.quiet("looks")
}

// scheme sets the preferred colour scheme: light or dark.
func (b *browser) scheme(name string) {
	b.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
		Value: name}}}
	must.Get(chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media))(b)
}

// readable checks contrast and accessible names.
func (b *browser) readable(where string) {
	b.Helper()
	if faint := b.eval(contrastScript); fmt.Sprint(faint) != "[]" {
		b.Errorf("%s: texts that are hard to read: %v", where, faint)
	}
	b.want(`[...document.querySelectorAll('img')].every((e) => e.alt) && [...document.querySelectorAll('[role=img]')].every((e) => e.getAttribute('aria-label'))`)
	b.want(`[...document.querySelectorAll('input, select')].every((e) => e.labels?.length || e.getAttribute('aria-label'))`)
	b.want(`[...document.querySelectorAll('button, a')].every((e) => e.textContent.trim())`)
}

// contrastScript lists texts with a contrast below 4.5 to 1 (WCAG 2.2, level AA).
const contrastScript = `(() => {
  const parse = (c) => (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const under = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0.99) return c; } return [255, 255, 255]; };
  const out = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest('.unseen, .skip, :disabled')) continue;
    const drawn = e.closest('svg'), css = getComputedStyle(e);
    const ink = parse(drawn ? css.fill : css.color), paper = drawn ? parse(getComputedStyle(drawn.querySelector('rect')).fill) : under(e);
    const [a, b] = [light(ink.slice(0, 3)), light(paper.slice(0, 3))], ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) out.push(e.textContent.slice(0, 40) + ' ' + ratio.toFixed(2));
  }
  return out;
})()`

// live watches a running sweep whose points end when the test lets them.
func (b *browser) live() {
	work := b.TempDir()
	sweep := fmt.Sprintf(`name: slow
command: [sh, -c, 'echo waiting for {n}; while [ ! -e %s/go{n} ]; do sleep 0.05; done; if [ {n} = 2 ]; then echo out of luck; exit 3; fi; echo time={n}us']
axes: {n: [1, 2, 3]}
metrics: {time_us: {regex: 'time=([0-9.]+)us'}}
`, work)
	must.Do(b, os.WriteFile(filepath.Join(work, "slow.yaml"), []byte(sweep), 0o644))
	cmd := exec.Command("kernbench", "run", "-f", "slow.yaml", "--quiet", "--out", filepath.Join(b.dir, "slow"))
	cmd.Dir, cmd.Env = work, append(os.Environ(), "WORK="+work)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	must.Do(b, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if cmd.Wait(); cmd.ProcessState.ExitCode() != 1 { // one point fails
			b.Errorf("the sweep ended with %v: %s", cmd.ProcessState, output.String())
			b.cancel()
		}
	}()
	defer func() { <-ended }()
	proceed := func(n int) {
		must.Do(b, os.WriteFile(filepath.Join(work, fmt.Sprintf("go%d", n)), nil, 0o644))
	}
	b.open("/")
	b.until(mainText + ".includes('slow') && document.querySelector('tr.live') !== null")
	b.click("tr.live a[data-link]")
	b.until("document.getElementById('live')?.innerText.includes('0 of 3 points') && " +
		"document.getElementById('live').innerText.includes('waiting for 1')")
	b.want("document.getElementById('live').innerText.includes('n=1')")
	proceed(1)
	b.until("document.getElementById('live').innerText.includes('1 of 3 points') && " +
		"document.getElementById('live').innerText.includes('n=2')")
	b.want("document.getElementById('live').innerText.includes('left')")
	proceed(2)
	b.until("document.getElementById('live').innerText.includes('out of luck') && " +
		"document.getElementById('live').innerText.includes('n=3')")
	b.until("document.getElementById('verdict').innerText.includes('1 failed') && " +
		"document.getElementById('chips').innerText.includes('1 failed')")
	b.picture("live")
	proceed(3)
	b.until("document.getElementById('live').innerText.includes('3 of 3 points') && " + mainText +
		".includes('Show the complete run')")
	b.quiet("live")
}

// inside shows the kernels of a simulated run: the floor plan over time, by mouse and by keyboard. A
// file that was modified is refused.
func (b *browser) inside() {
	out := filepath.Join(b.dir, "simulated")
	if code, text := invoke(b.T, b.dir, "kernbench", "run", "-q", "--bench", "collectives", "--backend", "ahbm",
		"--ranks", "2", "--size", "1K,64K", "--out", out); code != 0 {
		b.Fatalf("exit code %d\n%s", code, text)
	}
	b.open("/run", "run", "simulated")
	b.until("document.querySelectorAll('#floor polygon').length > 10")
	b.want("document.getElementById('moment').innerText.startsWith('The whole kernel: ') && " +
		"document.querySelector('#floor table tbody').rows.length === 10")
	b.want("document.querySelector('#inside select').options.length === 2 && " +
		"document.querySelector('figure#figure-link_load img').alt.includes('busiest links over time')")
	lit := "[...document.querySelectorAll('#floor polygon')].filter((e) => e.getAttribute('visibility') === " +
		"'visible').length"
	all := b.eval(lit).(float64)
	if high := b.eval("document.body.scrollHeight").(float64); high > 5000 {
		b.Errorf("the page of a simulated run is %v pixels high", high)
	}
	b.picture("inside")
	b.do(chromedp.Focus("#when"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	b.until("location.search.includes('at=2') && " +
		"document.getElementById('when').getAttribute('aria-valuetext').startsWith('From ')")
	if now := b.eval(lit).(float64); now >= all {
		b.Errorf("%v of %v links are sending at one moment", now, all)
	}
	// The address contains the moment: opening it again shows the same view.
	b.do(chromedp.Reload(), chromedp.WaitVisible("#moment"))
	b.want("document.getElementById('moment').innerText.startsWith('From ') && " +
		"document.getElementById('when').value === '2'")
	b.do(chromedp.Focus("#play"), chromedp.KeyEvent(" "))
	b.until("document.getElementById('play').innerText === 'Play' && document.getElementById('when').value === " +
		"document.getElementById('when').max")
	b.eval("(() => { const e = document.querySelector('#inside select'); e.selectedIndex = 1 - e.selectedIndex; " +
		"e.dispatchEvent(new Event('change')); return true; })()")
	b.until("location.search.includes('inside=') && document.getElementById('moment').innerText.startsWith('The whole " +
		"kernel: ')")
	b.want("window.hacked === undefined")
	b.quiet("inside")
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		b.open("/run", "run", "simulated")
		b.until("document.querySelectorAll('#floor polygon').length > 10")
		b.readable("inside, " + scheme)
	}
	b.do(chromedp.EmulateViewport(390, 844))
	b.want("document.documentElement.scrollWidth <= 390")
	b.picture("phone-inside")
	b.do(chromedp.EmulateViewport(1280, 900))
	b.quiet("inside")
	files, err := filepath.Glob(filepath.Join(out, "inside", "*"))
	if err != nil || len(files) != 2 {
		b.Fatalf("%q: %v", files, err)
	}
	for _, file := range files {
		must.Do(b, os.WriteFile(file, []byte("<img src=x onerror=hacked=9>"), 0o644))
	}
	b.open("/run", "run", "simulated", "only", "size > 0")
	b.until("document.querySelector('#inside .notice.bad')?.innerText.includes('unpacking')")
	b.want("window.hacked === undefined")
	b.forget() // the refusal is expected
}

// token checks that requests without the token are refused.
func (b *browser) token() {
	file := filepath.Join(b.TempDir(), "token")
	must.Do(b, os.WriteFile(file, []byte("correct-horse-battery\n"), 0o600))
	address := serveWeb(b.T, b.dir, b.dir, "--token-file", file)
	bare, _, _ := strings.Cut(address, "?")
	b.do(chromedp.Navigate(bare))
	b.want("document.body.innerText.includes('the token is missing or wrong')")
	b.do(chromedp.Navigate(bare + "?token=wrong"))
	b.want("document.body.innerText.includes('wrong')")
	b.do(chromedp.Navigate(address), chromedp.WaitVisible("body[data-ready]"))
	b.want("location.search === '' && document.cookie === '' && document.querySelectorAll('tbody tr').length > 3")
	b.forget()
}

// storeRuns writes journals: two runs of hops, two whose rows were all disturbed, an interrupted one, one with a
// damaged row, one with texts that try to break the page, and one that cannot be read.
func storeRuns(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, os.Mkdir(filepath.Join(dir, "broken"), 0o777))
	must.Do(t, os.WriteFile(filepath.Join(dir, "broken", journal.FileName), []byte("<img src=x onerror=hacked=5>\n"),
		0o666))
	for i, id := range []string{"n1", "n2"} {
		storeRun(t, filepath.Join(dir, "noisy"), id, "noisy", 1+float64(i)/10, func(r *journal.Row) {
			r.Quality = journal.QualityDisturbed
		})
	}
	storeRun(t, filepath.Join(dir, "a"), "old", "hops", 1, nil)
	storeRun(t, filepath.Join(dir, "a"), "new", "hops", 1.2, func(r *journal.Row) {
		if r.Point.At("size").Float() == 1<<20 && *r.NumRanks == 2 {
			r.Status, r.Reason, r.Output, r.Metrics = journal.Failed, "exit code 3", "these are\nthe last words", nil
		}
	})
	storeRun(t, filepath.Join(dir, "b", "c"), "part", "cut", 1, nil)
	storeRun(t, filepath.Join(dir, "bits"), "b", "bits", 1, nil)
	bits := filepath.Join(dir, "bits", journal.FileName)
	damaged := strings.Replace(string(must.Get(os.ReadFile(bits))(t)), `"samples":100`, `"samples":101`, 1)
	must.Do(t, os.WriteFile(bits, []byte(damaged), 0o600))
	storeRun(t, filepath.Join(dir, "evil"), "x", `<img src=x onerror="hacked=1">`, 1, func(r *journal.Row) {
		r.Point = append(r.Point, point.Coord{Name: "<svg onload=hacked=3>",
			Value: point.StringValue("a" + fmt.Sprint(r.Trial%2))})
		if r.Index == 0 {
			r.Status, r.Reason, r.Output, r.Metrics = journal.Failed, `<a href="javascript:hacked=4">`,
				"</pre><script>hacked=2</script>", nil
		}
	})
}

// storeRun writes a run with 4 trials of 5 sizes on 1 and 2 ranks. slower multiplies the times.
func storeRun(t *testing.T, dir, id, bench string, slower float64, change func(*journal.Row)) {
	t.Helper()
	w := must.Get(journal.Open(dir))(t)
	defer w.Close()
	start := time.Date(2026, 11, 15, 9, 0, int(slower*10), 0, time.UTC)
	add := func(record any) {
		must.Do(t, w.Append(record))
	}
	add(journal.Header{Schema: journal.Schema, Run: id, Bench: bench, Time: start, Host: hostinfo.Host{Hostname: "node1"},
		Backend: "cpu", Trials: 4, Points: 10, Commit: "0123456789abcdef",
		Tags: []string{"nightly", "tag-" + id}, Note: "<b onclick=hacked=6>note</b> of " + id,
		Axes:    []journal.AxisInfo{{Name: "size", Kind: point.Bytes}},
		Metrics: []journal.MetricInfo{{Name: "time_us", Unit: "us", Better: "lower"}}})
	for i := range 40 {
		size, ranks, trial := 4096<<(2*(i%5)), i/5%2+1, i/10
		us := slower * float64(size) / 1000 * float64(ranks) * (1 + float64(trial)/200)
		row := journal.Row{Schema: journal.Schema, Run: id, Bench: bench, Backend: "cpu", NumRanks: &ranks, Trial: trial,
			Index: i % 10, Status: journal.OK,
			Point: point.Point{{Name: "size", Value: point.BytesValue(int64(size))}}, Kind: journal.Measured, Samples: 100,
			Quality: "settled",
			Metrics: map[string]float64{"time_us": us}, Units: map[string]string{"time_us": "us"}, Host: "node1",
			Time: start.Add(time.Second),
			Key:  fmt.Sprintf("k%d", i%10)}
		if change != nil {
			change(&row)
		}
		add(row)
	}
	outcome := "complete"
	if id == "part" {
		outcome = "interrupted"
	}
	add(journal.End{Run: id, Outcome: outcome, Counts: map[journal.Status]int{journal.OK: 40}, Seconds: 12,
		Time: start.Add(12 * time.Second)})
}
