package mcplogin

import (
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"strings"

	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/tool/mcp"
)

// Servers finds servers, as a [*mcp.Manager] does.
type Servers interface {
	Find(ctx context.Context, namespace, name string) (mcp.Server, *http.Client, error)
}

// Pages serves what browsers and authorization servers visit. They need no API key: a link is made for somebody who has
// one, and a cookie binds the browser that has followed it. done is called after each login.
func (l *Logins) Pages(servers Servers, done func(context.Context, toolserver.LoggedIn)) http.Handler {
	p := &pages{l, servers, done}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathStart+"{link}", p.start)
	mux.HandleFunc("GET "+PathStart+"{link}/continue", p.proceed)
	mux.HandleFunc("GET "+PathCallback, p.callback)
	mux.HandleFunc("GET "+PathClient, p.client)
	return mux
}

type pages struct {
	*Logins
	servers Servers
	done    func(context.Context, toolserver.LoggedIn)
}

// start shows what the link is for, so that nobody logs in for somebody else by mistake.
func (p *pages) start(w http.ResponseWriter, r *http.Request) {
	asked, s, _, err := p.asked(r)
	if err != nil {
		p.fail(w, err)
		return
	}
	p.show(w, http.StatusOK, page{
		Title: "Log in to " + s.Name, Server: s.Name, Host: host(s.URL), Namespace: asked.Namespace, User: asked.User, By: asked.By,
		Continue: strings.TrimSuffix(p.at(PathStart).Path, "/") + "/" + r.PathValue("link") + "/continue",
	})
}

// proceed leads the browser to the authorization server.
func (p *pages) proceed(w http.ResponseWriter, r *http.Request) {
	asked, s, c, err := p.asked(r)
	if err != nil {
		p.fail(w, err)
		return
	}
	address, cookie, err := p.Begin(r.Context(), c, s, asked)
	if err != nil {
		p.log.Warn("a login to an MCP server cannot begin", "mcpServer", s.Name, "err", err)
		p.fail(w, userErrorf("The login to %s cannot begin: %v.", s.Name, err))
		return
	}
	http.SetCookie(w, cookie)
	protect(w)
	http.Redirect(w, r, address, http.StatusSeeOther) //nolint:gosec // the authorization server of a server that the operator or an administrator declares
}

func (p *pages) asked(r *http.Request) (Asked, mcp.Server, *http.Client, error) {
	asked, err := p.Asked(r.PathValue("link"))
	if err != nil {
		return asked, mcp.Server{}, nil, err
	}
	s, c, err := p.find(r.Context(), asked)
	return asked, s, c, err
}

func (p *pages) find(ctx context.Context, a Asked) (mcp.Server, *http.Client, error) {
	s, c, err := p.servers.Find(ctx, a.Namespace, a.Server)
	switch {
	case errors.Is(err, mcp.ErrNoServer) || err == nil && s.Login == nil:
		return s, c, userErrorf("The MCP server %.40q has no login any more.", a.Server)
	case err != nil:
		return s, c, err
	}
	return s, c, nil
}

// callback takes the browser back from the authorization server.
func (p *pages) callback(w http.ResponseWriter, r *http.Request) {
	resumed, err := p.Resume(r)
	if err != nil {
		p.fail(w, err)
		return
	}
	http.SetCookie(w, resumed.Cookie)
	s, c, err := p.find(r.Context(), resumed.Asked)
	if err == nil && s.URL != resumed.URL {
		err = userErrorf("The MCP server %s has another address by now. Begin again.", s.Name)
	}
	if err == nil {
		err = p.Finish(r.Context(), c, resumed, r.URL.Query())
	}
	if err != nil {
		p.fail(w, err)
		return
	}
	p.done(context.WithoutCancel(r.Context()), toolserver.LoggedIn{Namespace: resumed.Namespace, Server: s.Name, User: resumed.User, By: resumed.By})
	p.show(w, http.StatusOK, page{Title: "Logged in to " + s.Name, Text: "Calls that waited for it go on by themselves. You can close this window.", Back: p.at("/").Path + "#/servers"})
}

// client serves the description of the client for authorization servers that fetch it.
func (p *pages) client(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	_ = json.NewEncoder(w).Encode(p.Metadata())
}

func (p *pages) fail(w http.ResponseWriter, err error) {
	var known *UserError
	if !errors.As(err, &known) {
		p.log.Error("a login to an MCP server failed", "err", err)
		p.show(w, http.StatusServiceUnavailable, page{Title: "The login failed", Text: "The server could not read or store what it needs. Try again in a moment."})
		return
	}
	p.show(w, http.StatusBadRequest, page{Title: "The login failed", Text: known.Problem})
}

// page is what a page shows.
type page struct {
	Title, Text                       string
	Server, Host, Namespace, User, By string
	Continue, Back                    string
}

// protect keeps the addresses, which contain secrets, and the pages to themselves.
func protect(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
}

func (p *pages) show(w http.ResponseWriter, status int, v page) {
	protect(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = layout.Execute(w, v)
}

var layout = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Title}} · Threadmill</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 34rem; margin: 15vh auto 0; padding: 0 1rem }
h1 { font-size: 1.35rem }
a { display: inline-block; padding: .5rem 1rem; border-radius: .4rem; background: #2557a7; color: #fff; text-decoration: none }
a:focus-visible { outline: 3px solid #7aa5e8; outline-offset: 2px }
</style>
<h1>{{.Title}}</h1>
{{with .Text}}<p>{{.}}</p>{{end}}
{{with .Back}}<p><a href="{{.}}">Back to Threadmill</a></p>{{end}}
{{if .Continue}}
<p>{{if .By}}<strong>{{.By}}</strong> asks{{else}}You are asked{{end}} to connect an account at <strong>{{.Host}}</strong>.
{{if .User}}Agents use it when they answer <strong>{{.User}}</strong>.{{else}}All agents and threads of the namespace <strong>{{.Namespace}}</strong> use it.{{end}}</p>
<p>Continue only if you have asked for this{{with .User}} and you are {{.}}{{end}}.</p>
<p><a href="{{.Continue}}">Continue</a></p>
{{end}}
</html>
`))
