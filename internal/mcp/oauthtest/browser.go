package oauthtest

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const maxSteps = 20

// Page is what a browser shows.
type Page struct {
	// URL is the address. A browser that has stopped shows an address that it has not requested: see
	// [Browser.VisitUntil].
	URL *url.URL

	Status int
	Header http.Header
	HTML   string

	// Text is the text of the page, in words that are separated by one space.
	Text string
}

// Browser logs in like a person with a browser. Like one, it keeps cookies apart by host, where each port counts as
// a host of its own, and withholds cookies that are SameSite=Strict when another host has sent it. The zero value is
// ready to use.
type Browser struct {
	// Client is the client for requests. Default: one without options.
	Client *http.Client

	// Denies makes the person choose Deny on the authorization server's page. Default: Allow.
	Denies bool

	jars map[string]*cookies
}

// cookies are those of one host: all, and those that other hosts' links may send.
type cookies struct{ all, lax http.CookieJar }

// Visit opens an address in a new browser and follows it to the end: see [Browser.Visit].
func Visit(ctx context.Context, client *http.Client, address string) (Page, error) {
	return (&Browser{Client: client}).Visit(ctx, address)
}

// Visit opens an address, follows redirects, links called Continue and the button Allow, and returns the last page.
func (b *Browser) Visit(ctx context.Context, address string) (Page, error) {
	return b.VisitUntil(ctx, address, "")
}

// VisitUntil stops before an address that begins with stop, if that is not empty, and returns its address.
func (b *Browser) VisitUntil(ctx context.Context, address, stop string) (Page, error) {
	next, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Page{}, err
	}
	var senders []string // the hosts of the page that has sent the browser, and of the redirects since
	for range maxSteps {
		if stop != "" && strings.HasPrefix(next.URL.String(), stop) {
			return Page{URL: next.URL}, nil
		}
		p, err := b.load(next, senders)
		if err != nil {
			return p, err
		}
		step, redirected, err := b.follow(ctx, p)
		if err != nil || step == nil {
			return p, err
		}
		if !redirected {
			senders = nil
		}
		senders = append(senders, hostOf(p.URL))
		next = step
	}
	return Page{}, fmt.Errorf("no end after %d pages, now at %s", maxSteps, next.URL)
}

func hostOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// load requests a page to which the hosts senders have led.
func (b *Browser) load(req *http.Request, senders []string) (Page, error) {
	jar, err := b.jar(req.URL)
	if err != nil {
		return Page{}, err
	}
	sent, site := jar.all, "same-origin"
	switch {
	case len(senders) == 0:
		site = "none" // a person has entered the address
	case slices.ContainsFunc(senders, func(host string) bool { return host != hostOf(req.URL) }):
		sent, site = jar.lax, "cross-site"
	}
	for name, value := range map[string]string{"Site": site, "Mode": "navigate", "Dest": "document", "User": "?1"} {
		req.Header.Set("Sec-Fetch-"+name, value)
	}
	if req.Method != http.MethodGet {
		req.Header.Set("Origin", senders[len(senders)-1])
	}
	for _, c := range sent.Cookies(req.URL) {
		req.AddCookie(c)
	}
	client := http.Client{}
	if b.Client != nil {
		client = *b.Client
	}
	client.Jar = nil
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := client.Do(req)
	if err != nil {
		return Page{URL: req.URL}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	jar.set(req.URL, res.Cookies())
	return Page{URL: req.URL, Status: res.StatusCode, Header: res.Header, HTML: string(body), Text: textOf(string(body))}, err
}

func (b *Browser) jar(u *url.URL) (*cookies, error) {
	if jar := b.jars[hostOf(u)]; jar != nil {
		return jar, nil
	}
	all, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	lax, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	if b.jars == nil {
		b.jars = map[string]*cookies{}
	}
	b.jars[hostOf(u)] = &cookies{all, lax}
	return b.jars[hostOf(u)], nil
}

func (c *cookies) set(u *url.URL, list []*http.Cookie) {
	c.all.SetCookies(u, list)
	for _, cookie := range list {
		if cookie.SameSite != http.SameSiteStrictMode {
			c.lax.SetCookies(u, []*http.Cookie{cookie})
		}
	}
}

var (
	continueLink = regexp.MustCompile(`(?is)<a\b[^>]*?\bhref="([^"]*)"[^>]*>\s*Continue\b`)
	allowForm    = regexp.MustCompile(`(?is)<form method="post" action="([^"]*)">\s*<input type="hidden" name="request" value="([^"]*)">.*?>Allow</button>`)
	invisible    = regexp.MustCompile(`(?is)<(script|style|title)\b.*?</(script|style|title)>|<!--.*?-->`)
	tag          = regexp.MustCompile(`(?s)<[^>]*>`)
)

func textOf(page string) string {
	page = tag.ReplaceAllString(invisible.ReplaceAllString(page, " "), " ")
	return strings.Join(strings.Fields(html.UnescapeString(page)), " ")
}

// follow returns the request that a page leads to, if any, and whether the page redirects.
func (b *Browser) follow(ctx context.Context, p Page) (next *http.Request, redirected bool, err error) {
	method, target, form := http.MethodGet, "", url.Values(nil)
	switch location := p.Header.Get("Location"); {
	case p.Status >= 300 && p.Status < 400 && location != "":
		target, redirected = location, true
	case p.Status != http.StatusOK:
		return nil, false, nil
	default:
		if link := continueLink.FindStringSubmatch(p.HTML); link != nil {
			target = html.UnescapeString(link[1])
			break
		}
		allow := allowForm.FindStringSubmatch(p.HTML)
		if allow == nil {
			return nil, false, nil
		}
		method, target, form = http.MethodPost, html.UnescapeString(allow[1]), url.Values{"request": {allow[2]}, "decision": {"allow"}}
		if b.Denies {
			form.Set("decision", "deny")
		}
	}
	u, err := p.URL.Parse(target)
	if err != nil {
		return nil, redirected, err
	}
	next, err = http.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(form.Encode()))
	if err == nil && form != nil {
		next.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return next, redirected, err
}
