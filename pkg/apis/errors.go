// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"errors"
	"fmt"
)

// Error classes that callers test with errors.Is.
var (
	// ErrNotFound says that the named thing does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that the named thing exists in another form.
	ErrConflict = errors.New("conflict")
	// ErrInvalid says that the caller's input cannot be accepted; nothing was changed.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable says that a service (engine, registry, disk) did not do its part; try again.
	ErrUnavailable = errors.New("unavailable")
	// ErrRefused says, beside ErrUnavailable, that the service answered and could not do it.
	ErrRefused = errors.New("refused")
)

// Reasons used in conditions. They are stable words for programs; the message
// beside them is for people.
const (
	ReasonWaiting          = "Waiting"
	ReasonRetrying         = "Retrying"
	ReasonImageMissing     = "ImageMissing"
	ReasonImagePull        = "ImagePull"
	ReasonUnauthorized     = "Unauthorized"
	ReasonInvalid          = "Invalid"
	ReasonInsufficient     = "InsufficientResources"
	ReasonPortsExhausted   = "PortsExhausted"
	ReasonPortInUse        = "PortInUse"
	ReasonMountMissing     = "MountMissing"
	ReasonStartDeadline    = "StartDeadline"
	ReasonEnded            = "Ended"
	ReasonGone             = "Gone"
	ReasonDrifted          = "Drifted"
	ReasonNetworkAmbiguous = "NetworkAmbiguous"
	ReasonStorage          = "Storage"
)

// TerminalError is an error that retrying cannot mend.
type TerminalError struct {
	// Reason is one of the Reason constants.
	Reason string
	Err    error
}

// Error returns the cause's text.
func (e *TerminalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TerminalError) Unwrap() error { return e.Err }

// Terminal wraps err: the object is Stalled until its generation changes.
func Terminal(reason string, err error) error {
	if err == nil {
		return nil
	}
	return &TerminalError{Reason: reason, Err: err}
}

// Terminalf is [Terminal] with a formatted message.
func Terminalf(reason, format string, args ...any) error {
	return Terminal(reason, fmt.Errorf(format, args...))
}

// AsTerminal returns the terminal error in err's chain.
func AsTerminal(err error) (*TerminalError, bool) {
	var t *TerminalError
	ok := errors.As(err, &t)
	return t, ok
}

// PortInUseError says that the engine could not publish a port because
// something else on the node listens on it.
type PortInUseError struct {
	// Port is the host port; 0 when the engine did not say which one.
	Port int
	Err  error
}

// Error returns the cause's text.
func (e *PortInUseError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PortInUseError) Unwrap() error { return e.Err }
