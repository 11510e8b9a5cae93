package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/searchattribute/sadefs"

	"github.com/threadmill/threadmill/internal/guard"
)

// Defaults of [Config].
const (
	DefaultAddr      = "127.0.0.1:7233"
	DefaultNamespace = "default"
	DefaultRetention = 7 * 24 * time.Hour

	minRetention = time.Hour
	loopback     = "127.0.0.1"
)

// ErrDataDirInUse means that another server, in this process or another, uses the data folder.
var ErrDataDirInUse = errors.New("data folder is in use by another server")

// PortError means that an address of the configuration is in use or cannot be bound.
type PortError struct {
	Field string // name of the Config field: "Addr" or "UIAddr"
	Addr  string // the configured host:port
	Err   error  // the operating system's error, e.g. syscall.EADDRINUSE
}

func (e *PortError) Error() string {
	return fmt.Sprintf("%s: cannot listen on %s: %v", e.Field, e.Addr, e.Err)
}

// Unwrap returns the operating system's error.
func (e *PortError) Unwrap() error { return e.Err }

// Config configures a server. The zero value is a server in memory on [DefaultAddr] without Web UI.
type Config struct {
	// DataDir is the folder of the SQLite file; it is created if missing. Default: everything in
	// memory.
	DataDir string
	// Addr is the host:port of the gRPC frontend. The host must be an IP address or "localhost".
	// Default [DefaultAddr]; port 0 selects a free port.
	Addr string
	// UIAddr is the host:port of the Web UI, with the rules of Addr. Default: no UI.
	UIAddr string
	// AllowedHosts are names by which requests may call the Web UI, besides localhost and
	// addresses: its users can signal workflows.
	AllowedHosts []string
	// Namespace is the namespace to register at start. Default [DefaultNamespace].
	Namespace string
	// Retention is the time for which closed workflows are kept, at least one hour. Default
	// [DefaultRetention].
	Retention time.Duration
	// SearchAttributes are the custom search attributes of the namespace. Attributes of earlier
	// starts stay, and their types cannot change.
	SearchAttributes map[string]enumspb.IndexedValueType
	// Logger logs the server's messages from LogLevel on. Default slog.Default().
	Logger *slog.Logger
	// LogLevel is the lowest level that is logged. Default slog.LevelWarn.
	LogLevel slog.Leveler
	// DynamicConfig overrides the server's dynamic configuration, e.g.
	// "limit.historyCount.suggestContinueAsNew": 50. Keys and values are Temporal's.
	DynamicConfig map[string]any
}

// withDefaults returns a validated copy with all defaults.
func (c Config) withDefaults() (Config, error) {
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.LogLevel == nil {
		c.LogLevel = slog.LevelWarn
	}
	c.SearchAttributes = maps.Clone(c.SearchAttributes)
	c.DynamicConfig = maps.Clone(c.DynamicConfig)
	return c, c.validate()
}

func (c Config) validate() error {
	if err := (guard.Hosts{Allowed: c.AllowedHosts}).Validate(); err != nil {
		return fmt.Errorf("embedded: AllowedHosts: %w", err)
	}
	if c.Retention < minRetention {
		return fmt.Errorf("embedded: Retention is %s, must be at least %s", c.Retention, minRetention)
	}
	for name, kind := range c.SearchAttributes {
		if sadefs.IsReserved(name) {
			return fmt.Errorf("embedded: SearchAttributes: %q is reserved by Temporal, choose another name", name)
		}
		if _, known := enumspb.IndexedValueType_name[int32(kind)]; !known || kind == enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED {
			return fmt.Errorf("embedded: SearchAttributes: %q has no valid type (%s)", name, kind)
		}
	}
	return nil
}

// splitAddr returns the IP and port of a host:port.
func splitAddr(field, addr string) (ip string, port int, err error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("embedded: %s %q is not host:port: %w", field, addr, err)
	}
	port, err = strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("embedded: %s %q: port must be a number from 0 to 65535", field, addr)
	}
	if host == "" || host == "localhost" {
		host = loopback
	}
	if net.ParseIP(host) == nil {
		return "", 0, fmt.Errorf("embedded: %s %q: host must be an IP address or localhost", field, addr)
	}
	return host, port, nil
}
