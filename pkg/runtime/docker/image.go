// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

// images is the engine as runtime.Images.
type images struct{ e *Engine }

// Inspect looks one image up. Images without labels or any configuration are fine.
func (i images) Inspect(ctx context.Context, ref string) (runtime.ImageState, bool, error) {
	var img runtime.ImageState
	found := true
	err := i.e.call(ctx, i.e.timeout, "inspect image "+ref, func(ctx context.Context, conn *connection) error {
		in, err := conn.ImageInspect(ctx, ref)
		if isNotFound(err) {
			found = false
			return nil
		}
		img = runtime.ImageState{ID: in.ID, Architecture: architecture(in.Architecture)}
		if in.Config != nil {
			img.Labels, img.Env = in.Config.Labels, in.Config.Env
		}
		return err
	})
	return img, found && err == nil, err
}

// Pull pulls the image and waits for all of it; only ctx bounds the time. What
// the registry says inside the progress stream counts. Progress comes at most
// twice a second.
func (i images) Pull(ctx context.Context, ref apis.ImageRef, progress func(string)) error {
	what := "pull image " + ref.Canonical
	if _, err := reference.ParseNormalizedNamed(ref.Canonical); err != nil {
		return apis.Terminalf(apis.ReasonInvalid, "%s: %w", what, err)
	}
	auth, err := registryAuth(ref)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	var pulling client.ImagePullResponse
	// Without a deadline of its own: engines answer only once the registry did.
	conn, err := i.e.ready(ctx)
	if err == nil {
		pulling, err = conn.ImagePull(ctx, ref.Canonical, client.ImagePullOptions{RegistryAuth: auth})
		if err != nil && !client.IsErrConnectionFailed(err) {
			err = pullError(err)
		}
	}
	if err != nil {
		return i.e.classify(ctx, conn, what, err)
	}
	err = follow(ctx, pulling, progress)
	return i.e.classify(ctx, conn, what, err)
}

// follow reads the stream to its end.
func follow(ctx context.Context, pulling client.ImagePullResponse, progress func(string)) error {
	tracker := newPullProgress(progress)
	for msg, err := range pulling.JSONMessages(ctx) {
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return classed{fmt.Errorf("the progress stream was cut: %w", err), apis.ErrUnavailable}
		case err != nil:
			return classed{err, apis.ErrUnavailable}
		case msg.Error != nil:
			return pullError(msg.Error)
		}
		tracker.update(msg, time.Now())
	}
	tracker.flush()
	return nil
}

// registryAuth is the X-Registry-Auth header; empty without user and password.
func registryAuth(ref apis.ImageRef) (string, error) {
	if ref.Username == "" || ref.Password == "" {
		return "", nil
	}
	server, _, _ := strings.Cut(ref.Canonical, "/")
	b, err := json.Marshal(registry.AuthConfig{
		Username: ref.Username, Password: ref.Password.Reveal(), ServerAddress: server,
	})
	if err != nil {
		return "", fmt.Errorf("registry credentials: %w", err)
	}
	return base64.URLEncoding.EncodeToString(b), nil
}

// architecture gives the manager's name of an architecture (26.8: x86_64, aarch64).
func architecture(engine string) string {
	switch engine {
	case "", "amd64", "x86_64":
		return "x86_64"
	case "arm64", "aarch64":
		return "aarch64"
	}
	return engine
}
