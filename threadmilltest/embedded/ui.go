package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/cors"
	"github.com/temporalio/ui-server/v2/server/csrf"
	"github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/server/rpc"
	"github.com/temporalio/ui-server/v2/ui"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/threadmill/threadmill/internal/guard"
)

// webUI is Temporal's Web UI, assembled from its parts instead of its NewServer, which binds late,
// ends the process if it cannot, and never closes its connection to the frontend.
type webUI struct {
	listener net.Listener
	frontend *grpc.ClientConn
	server   *http.Server
	done     chan struct{}
}

func listenUI(addr string) (net.Listener, error) {
	ip, port, err := splitAddr("UIAddr", addr)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return nil, &PortError{Field: "UIAddr", Addr: addr, Err: portCause(err)}
	}
	return l, nil
}

func startUI(listener net.Listener, frontendAddr string, cfg Config) (*webUI, error) {
	provider, err := config.NewConfigProviderWithRefresh(&config.Config{
		TemporalGRPCAddress: frontendAddr,
		EnableUI:            true,
		DefaultNamespace:    cfg.Namespace,
		CORS:                config.CORS{CookieInsecure: true}, // plain HTTP on the loopback interface
		DisableNewsFetch:    true,
		HideLogs:            true,
	})
	if err != nil {
		return nil, fmt.Errorf("embedded: web UI: %w", err)
	}
	frontend, err := rpc.Dial(frontendAddr, nil)
	if err != nil {
		return nil, fmt.Errorf("embedded: web UI: dial frontend: %w", err)
	}
	handler, err := uiHandler(provider, frontend)
	if err != nil {
		_ = frontend.Close()
		return nil, fmt.Errorf("embedded: web UI: %w", err)
	}
	u := &webUI{
		listener: listener,
		frontend: frontend,
		server:   &http.Server{Handler: protect(handler, cfg.AllowedHosts), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute},
		done:     make(chan struct{}),
	}
	go func() {
		defer close(u.done)
		_ = u.server.Serve(listener)
	}()
	return u, nil
}

// protect protects the UI from DNS rebinding and from slow clients.
func protect(next http.Handler, allowed []string) http.Handler {
	hosts := guard.Hosts{Allowed: allowed}
	return guard.Limits{}.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := hosts.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	}))
}

func uiHandler(provider *config.ConfigProviderWithRefresh, frontend *grpc.ClientConn) (http.Handler, error) {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(middleware.Recover(), middleware.Gzip())
	e.Use(cors.CORSMiddleware(cors.CORSConfig{
		AllowHeaders:     []string{echo.HeaderOrigin, echo.HeaderContentType, echo.HeaderAccept, echo.HeaderXCSRFToken, "Caller-Type"},
		AllowCredentials: true,
		ConfigProvider:   provider,
	}))
	e.Use(middleware.Secure())
	e.Use(csrf.EnsureTokenCookie(false))
	e.Use(middleware.CSRFWithConfig(csrf.MiddlewareConfig(provider, false)))

	route.SetHealthRoute(e)
	setAPIRoutes(e.Group("/api/v1"), provider, frontend)
	assets, err := ui.Assets()
	if err != nil {
		return nil, err
	}
	local, err := fs.Sub(assets, "local")
	if err != nil {
		return nil, err
	}
	if err := route.SetUIRoutes(e, "", local, provider); err != nil {
		return nil, err
	}
	route.SetRenderRoute(e, "/")
	return e, nil
}

// setAPIRoutes leaves out the check for new releases, which would contact the internet.
func setAPIRoutes(g *echo.Group, provider *config.ConfigProviderWithRefresh, frontend *grpc.ClientConn) {
	forward := []api.Middleware{headers.WithForwardHeaders([]string{"Caller-Type"})}
	g.GET("/settings", api.GetSettings(provider))
	g.GET("/releases", func(c echo.Context) error {
		return c.JSON(http.StatusOK, api.LatestReleasesResponse{Releases: map[string]string{}})
	})
	g.GET("/ui-extensions", api.GetUIExtensions(provider, api.TemporalAccessCheck(frontend, forward)))
	g.GET(api.WorkflowRawHistoryUrl, api.WorkflowRawHistoryHandler(workflowservice.NewWorkflowServiceClient(frontend)))
	g.Match([]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		"/*", api.TemporalAPIHandler(provider, forward, frontend))
}

func (u *webUI) url() string { return "http://" + u.listener.Addr().String() }

func (u *webUI) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), uiDrain)
	defer cancel()
	err := u.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = u.server.Close()
	}
	<-u.done
	return errors.Join(err, u.frontend.Close())
}

const uiDrain = 200 * time.Millisecond
