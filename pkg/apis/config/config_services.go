// SPDX-License-Identifier: Apache-2.0

package config

import "agentd/pkg/apis"

// Logging is the table [logging].
type Logging struct {
	Version int `json:"version" use:"none"`
	// Level is the least severe level that is logged.
	Level                  LogLevel       `json:"level"`
	DisableExistingLoggers bool           `json:"disable-existing-loggers" use:"none"`
	Handlers               map[string]any `json:"handlers" use:"none"`
	Loggers                map[string]any `json:"loggers" use:"none"`
	// Drivers are the outputs in use; each needs its section.
	Drivers []string `json:"drivers" enum:"console|logstash|file|graylog" use:"later"`
	// PkgNS are levels by prefix of the logger's name.
	PkgNS    map[string]LogLevel `json:"pkg-ns" use:"later"`
	Console  LogConsoleDriver    `json:"console" use:"later"`
	File     *LogFileDriver      `json:"file" use:"later"`
	Logstash *LogstashDriver     `json:"logstash" use:"later"`
	Graylog  *GraylogDriver      `json:"graylog" use:"later"`
}

// LogConsoleDriver is the table [logging.console].
type LogConsoleDriver struct {
	// Colored is nil to colour terminals only.
	Colored *bool  `json:"colored"`
	Format  string `json:"format" enum:"simple|verbose"`
}

// LogFileDriver is the table [logging.file].
type LogFileDriver struct {
	// Path is the directory, Filename the file in it.
	Path     Path   `json:"path" required:"true"`
	Filename string `json:"filename" required:"true"`
	// BackupCount old files of RotationSize bytes are kept.
	BackupCount  int         `json:"backup-count" range:"1..100"`
	RotationSize DecimalSize `json:"rotation-size" range:">0.."`
	Format       string      `json:"format" enum:"simple|verbose"`
}

// LogstashDriver is the table [logging.logstash].
type LogstashDriver struct {
	Endpoint   HostPort `json:"endpoint" required:"true"`
	Protocol   string   `json:"protocol" enum:"tcp|udp|zmq.push|zmq.pub"`
	SSLEnabled bool     `json:"ssl-enabled"`
	SSLVerify  bool     `json:"ssl-verify"`
}

// GraylogDriver is the table [logging.graylog].
type GraylogDriver struct {
	Host      string   `json:"host" required:"true"`
	Port      int      `json:"port" required:"true" range:"1..65535"`
	Level     LogLevel `json:"level"`
	Localname string   `json:"localname"`
	FQDN      string   `json:"fqdn"`
	SSLVerify bool     `json:"ssl-verify"`
	CACerts   string   `json:"ca-certs"`
	Keyfile   string   `json:"keyfile"`
	Certfile  string   `json:"certfile"`
}

// Redis is the table [redis].
type Redis struct {
	RedisTarget
	// OverrideConfigs replace the common keys for one use of Redis.
	OverrideConfigs RedisOverrides `json:"override-configs"`
}

// RedisTarget is one Redis service.
type RedisTarget struct {
	// Addr is a single server, Sentinel a list of sentinels.
	Addr     *HostPort `json:"addr"`
	Sentinel HostPorts `json:"sentinel"`
	// ServiceName is the master's name at the sentinels.
	ServiceName      string      `json:"service-name"`
	Password         apis.Secret `json:"password"`
	SentinelPassword apis.Secret `json:"sentinel-password"`
	// RequestTimeout is in milliseconds; 0: none.
	RequestTimeout    int               `json:"request-timeout" range:"0.."`
	UseTLS            bool              `json:"use-tls"`
	TLSSkipVerify     bool              `json:"tls-skip-verify"`
	RedisHelperConfig RedisHelperConfig `json:"redis-helper-config"`
}

// RedisHelperConfig are the time limits of a Redis connection.
type RedisHelperConfig struct {
	SocketTimeout          Duration `json:"socket-timeout" range:">0.."`
	SocketConnectTimeout   Duration `json:"socket-connect-timeout" range:">0.."`
	ReconnectPollTimeout   Duration `json:"reconnect-poll-timeout" range:">0.."`
	ConnectionReadyTimeout Duration `json:"connection-ready-timeout" range:">0.."`
}

// RedisOverrides are the uses of Redis that may have a service of their own.
type RedisOverrides struct {
	Statistics   *RedisTarget `json:"statistics"`
	RateLimit    *RedisTarget `json:"rate-limit"`
	Live         *RedisTarget `json:"live"`
	Image        *RedisTarget `json:"image"`
	Stream       *RedisTarget `json:"stream"`
	StreamLock   *RedisTarget `json:"stream-lock"`
	ContainerLog *RedisTarget `json:"container-log"`
	Bgtask       *RedisTarget `json:"bgtask"`
	Tus          *RedisTarget `json:"tus"`
}

// Pyroscope is the table [pyroscope].
type Pyroscope struct {
	Enabled    bool   `json:"enabled"`
	AppName    string `json:"app-name"`
	ServerAddr string `json:"server-addr"`
	SampleRate int    `json:"sample-rate" range:"0.."`
}

// Otel is the table [otel].
type Otel struct {
	Enabled            bool     `json:"enabled"`
	LogLevel           LogLevel `json:"log-level"`
	Endpoint           string   `json:"endpoint"`
	MaxQueueSize       int      `json:"max-queue-size" range:"1.."`
	MaxExportBatchSize int      `json:"max-export-batch-size" range:"1.."`
}

// ServiceDiscovery is the table [service-discovery].
type ServiceDiscovery struct {
	Type         string            `json:"type" enum:"redis|etcd"`
	InstanceID   string            `json:"instance-id"`
	ServiceGroup string            `json:"service-group"`
	DisplayName  string            `json:"display-name"`
	ExtraLabels  map[string]string `json:"extra-labels"`
	Endpoints    []ServiceEndpoint `json:"endpoints"`
}

// ServiceEndpoint is one door of the agent that is announced.
type ServiceEndpoint struct {
	Role     string            `json:"role" required:"true"`
	Scope    string            `json:"scope" required:"true"`
	Address  string            `json:"address" required:"true"`
	Port     int               `json:"port" required:"true" range:"1..65535"`
	Protocol string            `json:"protocol" required:"true"`
	Metadata map[string]string `json:"metadata"`
}
