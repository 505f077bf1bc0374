// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"agentd/pkg/apis/config"
)

// newLogger writes records to w as the configuration says; level overrides the
// configured one unless it is empty or NOTSET. flush belongs before the exit.
func newLogger(cfg *config.Config, level string, w io.Writer) (log logr.Logger, flush func()) {
	if level == "" || level == string(config.LevelNotSet) {
		level = string(cfg.Logging.Level)
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if cfg.Agentd.LogFormat != config.LogJSON {
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	z := zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), zapLevel(config.LogLevel(level))))
	return zapr.NewLogger(z), func() { _ = z.Sync() }
}

// zapLevel maps the reference's level names (26.8) to logr's verbosity: V(1) is DEBUG.
func zapLevel(l config.LogLevel) zapcore.Level {
	switch l {
	case config.LevelCritical, config.LevelError:
		return zapcore.ErrorLevel
	case config.LevelWarning:
		return zapcore.WarnLevel
	case config.LevelDebug:
		return zapcore.DebugLevel
	case config.LevelTrace:
		return zapcore.Level(-2)
	case config.LevelInfo, config.LevelNotSet:
	}
	return zapcore.InfoLevel
}
