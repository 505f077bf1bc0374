// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"
	"time"
)

func seconds(n float64) Duration { return Duration{time.Duration(n * float64(time.Second))} }

// defaults returns the configuration of an empty file on m. Keys without a
// default are zero; [agentd] paths that follow others are set by settle.
func defaults(m *Machine) *Config {
	at := func(path string) Path {
		if filepath.IsAbs(path) {
			return Path(path)
		}
		return Path(filepath.Join(m.Cwd, path))
	}
	metric := Metric{Enable: true, Interval: seconds(30)}
	return &Config{
		Manager: Manager{Enabled: true},
		Agentd: Agentd{
			StartTimeout: Duration{5 * time.Minute},
			SweepGrace:   seconds(60),
			StopGrace:    seconds(10),
			LogFormat:    LogConsole,
		},
		Etcd: Etcd{Namespace: "local", Addr: HostPorts{{Host: "127.0.0.1", Port: 2379}}},
		Agent: Agent{
			AgentNode: AgentNode{
				AgentSockPort:             6007,
				ScalingGroupType:          "compute",
				KernelCreationConcurrency: 4,
				SyncContainerLifecycles:   SyncContainerLifecycles{Enabled: true, Interval: seconds(10)},
				UtilizationMetric:         UtilizationMetric{Node: metric, Container: metric, Process: metric},
			},
			RPCListenAddr:          HostPort{Host: "0.0.0.0", Port: 6001},
			InternalAddr:           HostPort{Host: "0.0.0.0", Port: 6003},
			AnnounceInternalAddr:   HostPort{Host: "host.docker.internal", Port: 6003},
			IPCBasePath:            at("/tmp/backend.ai/ipc"),
			VarBasePath:            at("var/lib/backend.ai"),
			CohabitingStorageProxy: true,
			PIDFile:                "/dev/null",
			EventLoop:              "asyncio",
			AiomonitorTermuiPort:   38200,
			AiomonitorWebuiPort:    39200,
			MetadataServerBindHost: "0.0.0.0",
			MetadataServerPort:     40128,
			ImageCommitPath:        at("tmp/backend.ai/commit"),
		},
		Container: Container{ContainerNode: ContainerNode{
			KernelUID:            UserID(m.UID),
			KernelGID:            GroupID(m.GID),
			PortRange:            PortRange{Low: 30000, High: 31000},
			PortReuseCooldownSec: seconds(60),
			StatsType:            StatsDocker,
			SandboxType:          SandboxDocker,
			JailArgs:             []string{},
			ScratchType:          ScratchHostDir,
			ScratchRoot:          at("scratches"),
		}},
		Resource: Resource{
			ReservedCPU:     1,
			ReservedMem:     1 << 30,
			ReservedDisk:    8 << 30,
			AllocationMode:  AllocateShared,
			MemoryAlignSize: 16 << 20,
			AllocationOrder: []string{"cuda", "rocm", "tpu", "cpu", "mem"},
			AffinityPolicy:  Interleaved,
		},
		Agents: []AgentEntry{},
		Logging: Logging{
			Version:  1,
			Level:    LevelInfo,
			Handlers: map[string]any{},
			Loggers:  map[string]any{},
			Drivers:  []string{"console"},
			PkgNS:    map[string]LogLevel{"": LevelWarning, "ai.backend": LevelInfo, "tests": LevelDebug},
			Console:  LogConsoleDriver{Format: "verbose"},
		},
		Debug: Debug{
			HeartbeatInterval: seconds(20),
			Coredump:          Coredump{Path: at("coredumps"), BackupCount: 10, SizeLimit: 64 << 20},
		},
		API:           API{PullTimeout: Timeout{seconds(7200)}},
		ContainerLogs: ContainerLogs{MaxLength: 10 << 20, ChunkSize: 64 << 10},
		KernelLifecycles: KernelLifecycles{
			InitPollingAttempt:    10,
			InitPollingTimeoutSec: seconds(60),
			InitTimeoutSec:        seconds(60),
		},
		Otel: Otel{
			LogLevel:           LevelInfo,
			Endpoint:           "http://localhost:4317",
			MaxQueueSize:       65536,
			MaxExportBatchSize: 4096,
		},
		ServiceDiscovery: ServiceDiscovery{
			Type:        "redis",
			ExtraLabels: map[string]string{},
			Endpoints:   []ServiceEndpoint{},
		},
	}
}

// defaulter is an optional table that has defaults once it is present.
type defaulter interface{ defaults() }

func (l *LogFileDriver) defaults() {
	*l = LogFileDriver{BackupCount: 5, RotationSize: 10_000_000, Format: "verbose"}
}

func (l *LogstashDriver) defaults() {
	*l = LogstashDriver{Protocol: "tcp", SSLEnabled: true, SSLVerify: true}
}

func (g *GraylogDriver) defaults() { *g = GraylogDriver{Level: LevelInfo, SSLVerify: true} }

func (w *Watcher) defaults() {
	*w = Watcher{
		ServiceAddr:   HostPort{Host: "0.0.0.0", Port: 6009},
		TargetService: "backendai-agent.service",
	}
}

func (r *Redis) defaults() { r.RedisTarget.defaults() }

func (r *RedisTarget) defaults() {
	*r = RedisTarget{RedisHelperConfig: RedisHelperConfig{
		SocketTimeout:          seconds(5),
		SocketConnectTimeout:   seconds(2),
		ReconnectPollTimeout:   seconds(0.3),
		ConnectionReadyTimeout: seconds(20),
	}}
}
