// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"agentd/pkg/apis"
)

// classed adds a class of package apis to an error without changing its text.
type classed struct {
	err   error
	class error
}

func (c classed) Error() string   { return c.err.Error() }
func (c classed) Unwrap() []error { return []error{c.err, c.class} }

// classify gives every error of the engine its class: what is missing, what
// clashes, what no retry can mend. The rest is transient, and unavailable if
// it is the engine that did not do its part. The caller's own end of patience
// stays the context's error.
func (e *Engine) classify(ctx context.Context, conn *connection, what string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	var terminal *apis.TerminalError
	var portInUse *apis.PortInUseError
	if errors.As(err, &terminal) || errors.As(err, &portInUse) || errors.Is(err, apis.ErrConflict) || errors.Is(err, apis.ErrNotFound) {
		return fmt.Errorf("%s: %w", what, err)
	}
	switch {
	case client.IsErrConnectionFailed(err):
		e.renew(conn)
		return classed{fmt.Errorf("%s: the container engine at %s does not answer: %w; see that dockerd runs, "+
			"that agentd may open its socket, and that DOCKER_HOST names it", what, e.host, err), apis.ErrUnavailable}
	case errors.Is(err, context.DeadlineExceeded):
		return classed{fmt.Errorf("%s: the container engine at %s gave no answer in time: %w", what, e.host, err), apis.ErrUnavailable}
	}
	if known := fromText(err); known != nil {
		return fmt.Errorf("%s: %w", what, known)
	}
	switch {
	case errdefs.IsNotFound(err):
		return classed{fmt.Errorf("%s: %w", what, err), apis.ErrNotFound}
	case errdefs.IsConflict(err):
		return classed{fmt.Errorf("%s: %w", what, err), apis.ErrConflict}
	case errdefs.IsInvalidArgument(err):
		return apis.Terminalf(apis.ReasonInvalid, "%s: %w", what, err)
	case errdefs.IsUnauthorized(err):
		return apis.Terminalf(apis.ReasonUnauthorized, "%s: %w", what, err)
	}
	if errdefs.IsInternal(err) { // it answers, and cannot
		err = classed{err, apis.ErrRefused}
	}
	return classed{fmt.Errorf("%s: %w", what, err), apis.ErrUnavailable}
}

// The engine tells the causes below by words alone, with status 500 or 400.
// The words are those of engines 20.10 to 28.
var (
	portTaken   = regexp.MustCompile(`port is already allocated|address already in use`)
	portAddress = regexp.MustCompile(`(?:\d+\.\d+\.\d+\.\d+|\]):(\d{1,5})\b`)
	bindMissing = regexp.MustCompile(`bind source path does not exist: (.*)|mount path .* does not exist|error (?:while )?mounting "?(/[^" ]+)"? to rootfs.*no such file or directory`)
	rlimit      = regexp.MustCompile(`error setting rlimit type (\d+): operation not permitted`)
	poolsFull   = regexp.MustCompile(`could not find an available, non-overlapping IPv4 address pool|all predefined address pools have been fully subnetted`)
	ambiguous   = regexp.MustCompile(`network \S+ is ambiguous`)
	unusable    = regexp.MustCompile(`error gathering device information|unable to find (?:user|group) `)
	networkGone = regexp.MustCompile(`[Nn]etwork \S+ not found|[Nn]o such network`)
)

// fromText recognises what the status code does not say; nil for nothing known.
func fromText(err error) error {
	text := err.Error()
	switch {
	case portTaken.MatchString(text):
		return &apis.PortInUseError{Port: hostPort(text), Err: err}
	case bindMissing.MatchString(text):
		return apis.Terminal(apis.ReasonMountMissing, err)
	case ambiguous.MatchString(text):
		return apis.Terminal(apis.ReasonNetworkAmbiguous, err)
	case rlimit.MatchString(text):
		return apis.Terminalf(apis.ReasonInvalid, "the engine's host does not allow the requested limit %s: "+
			"lower it, or run the engine with CAP_SYS_RESOURCE: %w", rlimitName(rlimit.FindStringSubmatch(text)[1]), err)
	case unusable.MatchString(text):
		return apis.Terminal(apis.ReasonInvalid, err)
	case poolsFull.MatchString(text):
		return classed{fmt.Errorf("the engine has no address range left for another network: remove unused networks "+
			"or add default-address-pools to its daemon.json: %w", err), apis.ErrUnavailable}
	case networkGone.MatchString(text):
		// Its class must not say "not found": it is not the container that is missing.
		return classed{err, apis.ErrUnavailable}
	}
	return nil
}

// hostPort finds the port in the engine's complaint; 0 if it names none.
func hostPort(text string) int {
	m := portAddress.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	port, err := strconv.Atoi(m[1])
	if err != nil || port > 65535 {
		return 0
	}
	return port
}

// rlimitName names a limit by its number in Linux.
func rlimitName(number string) string {
	names := []string{
		"cpu", "fsize", "data", "stack", "core", "rss", "nproc", "nofile", "memlock", "as", "locks",
		"sigpending", "msgqueue", "nice", "rtprio", "rttime",
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(names) {
		return "number " + number
	}
	return names[n]
}

// Words of registries that the engine passes on, often with status 500 or
// inside the progress stream, where there is no status at all.
var (
	pullUnauthorized = regexp.MustCompile(`(?i)unauthorized|authentication required|no basic auth credentials|incorrect username or password`)
	pullDenied       = regexp.MustCompile(`(?i)access to the resource is denied|access denied|(?:^|: )denied: |403 forbidden`)
	pullMissing      = regexp.MustCompile(`(?i)manifest unknown|not found|repository .*does not exist|name unknown|no matching manifest|invalid reference format`)
)

// pullError decides what a failed pull means. A registry that says no will say
// no again; one that cannot be reached may be back in a minute.
func pullError(err error) error {
	text := err.Error()
	switch {
	case errdefs.IsUnauthorized(err), pullUnauthorized.MatchString(text):
		return apis.Terminalf(apis.ReasonUnauthorized, "%w; see the registry's user name and password", err)
	case errdefs.IsPermissionDenied(err), pullDenied.MatchString(text):
		return apis.Terminalf(apis.ReasonUnauthorized, "%w; the image does not exist or this user may not read it", err)
	case errdefs.IsNotFound(err), pullMissing.MatchString(text):
		// A host name that does not resolve is the network's fault: "no such host" has no "not found".
		return apis.Terminal(apis.ReasonImageMissing, err)
	case errdefs.IsInvalidArgument(err):
		return apis.Terminal(apis.ReasonImagePull, err)
	}
	return classed{err, apis.ErrUnavailable}
}

// isNotFound tells that the engine does not have the thing asked for.
func isNotFound(err error) bool {
	return errdefs.IsNotFound(err) && !networkGone.MatchString(err.Error())
}

// isInUse tells that a network still has endpoints.
func isInUse(err error) bool {
	return errdefs.IsPermissionDenied(err) || errdefs.IsConflict(err) || strings.Contains(err.Error(), "active endpoints")
}
