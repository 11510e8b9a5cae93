package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// startTimeout bounds Start, unless its context ends earlier. A start takes a second, and half a minute on a machine that is busy.
const startTimeout = 5 * time.Minute

// Server is a running Temporal server. Its methods may be called from any goroutine.
type Server struct {
	addr      string
	namespace string
	logger    *serverLogger
	database  *database
	temporal  temporal.Server
	ui        *webUI // nil without Web UI
	stop      sync.Once
}

// Start starts a server and returns when it accepts workflows.
//
// It fails with [ErrDataDirInUse] if another server uses the data folder, and with a [PortError] if
// an address is in use. If it fails, no part of the server keeps running.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ip, port, err := splitAddr("Addr", cfg.Addr)
	if err != nil {
		return nil, err
	}
	if port, err = frontendPort(ip, port, cfg.Addr); err != nil {
		return nil, err
	}
	var uiListener net.Listener
	if cfg.UIAddr != "" {
		if uiListener, err = listenUI(cfg.UIAddr); err != nil {
			return nil, err
		}
	}
	s := &Server{
		addr:      net.JoinHostPort(ip, strconv.Itoa(port)),
		namespace: cfg.Namespace,
		logger:    newServerLogger(cfg.Logger, cfg.LogLevel),
	}
	if err := s.start(ctx, cfg, ip, port, uiListener); err != nil {
		if uiListener != nil && s.ui == nil {
			_ = uiListener.Close()
		}
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, cfg Config, ip string, port int, uiListener net.Listener) (err error) {
	if s.database, err = openDatabase(cfg.DataDir); err != nil {
		return err
	}
	if err = s.database.prepareNamespace(ctx, cfg); err != nil {
		return err
	}
	if err = s.startTemporal(cfg, ip, port); err != nil {
		return err
	}
	if err = waitUsable(ctx, s.addr, s.namespace); err != nil {
		return fmt.Errorf("embedded: server does not answer on %s: %w", s.addr, err)
	}
	if uiListener != nil {
		s.ui, err = startUI(uiListener, s.addr, cfg)
	}
	return err
}

// Addr returns the host:port of the gRPC frontend.
func (s *Server) Addr() string { return s.addr }

// UIURL returns the address of the Web UI, e.g. "http://127.0.0.1:8233", or "" without one.
func (s *Server) UIURL() string {
	if s.ui == nil {
		return ""
	}
	return s.ui.url()
}

// Namespace returns the name of the namespace registered at start.
func (s *Server) Namespace() string { return s.namespace }

// Stop stops the server and releases its ports and its data folder, within a few seconds. Further
// calls wait for the first. Stop workers and close clients before: open calls are cut off after a
// moment.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.logger.state.quiet.Store(true)
		var err error
		if s.ui != nil {
			err = s.ui.stop()
		}
		if s.temporal != nil {
			err = errors.Join(err, s.temporal.Stop())
		}
		if s.database != nil {
			err = errors.Join(err, s.database.close())
		}
		if err != nil {
			s.logger.slog.Warn("temporal server did not stop cleanly", "error", err)
		}
	})
}

func (s *Server) startTemporal(cfg Config, ip string, port int) error {
	// history, matching, worker
	internal, err := freePorts(loopback, 3)
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	services := map[primitives.ServiceName]config.RPC{
		primitives.FrontendService: {GRPCPort: port, BindOnIP: ip},
		primitives.HistoryService:  {GRPCPort: internal[0], BindOnIP: loopback},
		primitives.MatchingService: {GRPCPort: internal[1], BindOnIP: loopback},
		primitives.WorkerService:   {GRPCPort: internal[2], BindOnIP: loopback},
	}
	conf := s.serverConfig(services)
	// A fatal error of the server ends its goroutine, so the server is built in a separate one.
	built := make(chan error, 1)
	go func() {
		err := errors.New("the server gave up")
		defer func() { built <- err }()
		s.temporal, err = temporal.NewServer(
			temporal.WithConfig(conf),
			temporal.ForServices(temporal.DefaultServices),
			temporal.WithStaticHosts(staticHosts(services)),
			temporal.WithLogger(s.logger),
			temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
			temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
				return authorization.NewNoopClaimMapper()
			}),
			temporal.WithCustomMetricsHandler(metrics.NoopMetricsHandler),
			temporal.WithDynamicConfigClient(dynamicConfig(cfg.DynamicConfig)),
		)
	}()
	if err := <-built; err != nil {
		return fmt.Errorf("embedded: build server: %w", errors.Join(s.logger.state.fatalError(), err))
	}
	if err := s.temporal.Start(); err != nil {
		return fmt.Errorf("embedded: start server: %w", errors.Join(s.logger.state.fatalError(), err))
	}
	return nil
}

func (s *Server) serverConfig(services map[primitives.ServiceName]config.RPC) *config.Config {
	const store = "sqlite"
	const disabled = "disabled"
	local := net.JoinHostPort(loopback, strconv.Itoa(services[primitives.FrontendService].GRPCPort))
	conf := &config.Config{
		Persistence: config.Persistence{
			DefaultStore:     store,
			VisibilityStore:  store,
			NumHistoryShards: 1,
			DataStores:       map[string]config.DataStore{store: {SQL: s.database.config}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: local},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: local},
		Services:            map[string]config.Service{},
	}
	// Nobody joins anything, see staticHosts, but the server gives its services twice this time to start, and otherwise 15 seconds.
	conf.Global.Membership.MaxJoinDuration = startTimeout / 2
	conf.Archival.History.State = disabled
	conf.Archival.Visibility.State = disabled
	conf.NamespaceDefaults.Archival.History.State = disabled
	conf.NamespaceDefaults.Archival.Visibility.State = disabled
	for name, rpc := range services {
		conf.Services[string(name)] = config.Service{RPC: rpc}
	}
	return conf
}

// staticHosts replaces the server's membership protocol: all services run here.
func staticHosts(services map[primitives.ServiceName]config.RPC) map[primitives.ServiceName]static.Hosts {
	hosts := make(map[primitives.ServiceName]static.Hosts, len(services))
	for name, rpc := range services {
		hosts[name] = static.SingleLocalHost(net.JoinHostPort(loopback, strconv.Itoa(rpc.GRPCPort)))
	}
	return hosts
}

// waitUsable waits until the frontend, the namespace and the history shard respond. A query for an
// impossible workflow reaches all three.
func waitUsable(ctx context.Context, addr, namespace string) error {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	service := workflowservice.NewWorkflowServiceClient(conn)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, err := service.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: namespace,
			Execution: &commonpb.WorkflowExecution{WorkflowId: "embedded-ready"},
		}, grpc.WaitForReady(true))
		var notFound *serviceerror.NotFound
		if err == nil || errors.As(serviceerror.FromStatus(status.Convert(err)), &notFound) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-ticker.C:
		}
	}
}
