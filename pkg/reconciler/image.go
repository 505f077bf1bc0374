// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/runtime"
)

// Image makes images present. It never removes one from the node.
type Image struct {
	// PullTimeout bounds one pull; 0 for no bound.
	PullTimeout time.Duration
	store       *controller.Store
	images      controller.Reader[apis.ImageSpec, apis.ImageStatus]
	status      controller.StatusWriter[apis.ImageSpec, apis.ImageStatus]
	gone        controller.Deleter[apis.ImageSpec, apis.ImageStatus]
	node        runtime.Images
}

// NewImage returns the image reconciler.
func NewImage(s *controller.Store, t *controller.Tables, node runtime.Images, pullTimeout time.Duration) *Image {
	return &Image{
		PullTimeout: pullTimeout, store: s, images: t.Images.Reader(), status: t.Images.StatusWriter(),
		gone: t.Images.Deleter(), node: node,
	}
}

// Reconcile takes one image one step further.
func (r *Image) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	img, ok := r.images.Get(name)
	if !ok {
		return controller.Result{}, nil
	}
	if len(img.Holds) == 0 { // no kernel wants it any more: forget it
		return controller.Result{}, r.store.Commit(func(tx *controller.Tx) error {
			if now, ok := r.images.GetIn(tx, name); ok && len(now.Holds) == 0 {
				r.gone.Delete(tx, name, "", "")
			}
			return nil
		})
	}
	ref := img.Spec.Ref
	seen, found, err := r.node.Inspect(ctx, ref.Canonical)
	if err != nil {
		return controller.Result{}, fmt.Errorf("image %s: %w", ref.Canonical, err)
	}
	if pull, err := mustPull(ref, seen, found); err != nil {
		return controller.Result{}, err
	} else if pull {
		if seen, err = r.pull(ctx, name, ref); err != nil {
			return controller.Result{}, r.refused(img, err)
		}
	}
	if want, has := architecture(ref.Architecture), architecture(seen.Architecture); want != "" && want != has {
		return controller.Result{}, apis.Terminalf(apis.ReasonInvalid,
			"image %s is for %s, the kernel asks for %s; name an image for that architecture, or leave it out", ref.Canonical, has, want)
	}
	return controller.Result{}, r.observe(name, func(_ *apis.Meta, st *apis.ImageStatus) {
		st.ID, st.Architecture, st.Labels, st.Env = seen.ID, seen.Architecture, seen.Labels, seen.Env
		st.Pulling, st.Progress, st.Attempts = false, "", 0
		st.Conditions.SetReady(img.Generation)
	})
}

// mustPull decides by policy (AutoPullBehavior, 26.8).
func mustPull(ref apis.ImageRef, seen runtime.ImageState, found bool) (bool, error) {
	switch {
	case found && (ref.Local || ref.Pull != apis.PullDigest || ref.Digest == "" || ref.Digest == seen.ID):
		return false, nil
	case found:
		return true, nil
	case ref.Local:
		return false, apis.Terminalf(apis.ReasonImageMissing,
			"image %s is not on this node and is marked local; load it with \"docker load\", or name an image that is there", ref.Canonical)
	case ref.Pull == apis.PullNone || ref.Pull == "":
		return false, apis.Terminalf(apis.ReasonImageMissing,
			"image %s is not on this node and its pull policy is \"none\"; load it, or set the policy to \"tag\"", ref.Canonical)
	}
	return true, nil
}

// architecture folds the names that one architecture has (26.8).
func architecture(name string) string {
	switch name {
	case "arm64":
		return "aarch64"
	case "amd64", "x64":
		return "x86_64"
	case "x32", "i686":
		return "x86"
	}
	return name
}

func (r *Image) pull(ctx context.Context, name string, ref apis.ImageRef) (runtime.ImageState, error) {
	if r.PullTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.PullTimeout)
		defer cancel()
	}
	progress := func(text string) {
		_ = r.observe(name, func(m *apis.Meta, st *apis.ImageStatus) {
			st.Pulling, st.Progress = true, text
			st.Conditions.SetNotReady(m.Generation, apis.ReasonImagePull, "pulling: "+text)
		})
	}
	progress("starting")
	if err := r.node.Pull(ctx, ref, progress); err != nil {
		return runtime.ImageState{}, fmt.Errorf("pulling image %s: %w", ref.Canonical, err)
	}
	seen, found, err := r.node.Inspect(ctx, ref.Canonical)
	if err != nil {
		return seen, fmt.Errorf("image %s after its pull: %w", ref.Canonical, err)
	}
	if !found {
		return seen, fmt.Errorf("image %s is absent right after its pull: %w", ref.Canonical, apis.ErrUnavailable)
	}
	return seen, nil
}

// refused counts failed pulls and gives up after a few: a registry that refuses
// or does not answer would keep a kernel waiting for ever, since pulls are no
// part of its start time. An engine that went down counts once at most: until it
// is back nothing is pulled.
func (r *Image) refused(img *apis.Image, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	n := img.Status.Attempts + 1
	if oerr := r.observe(img.Name, func(_ *apis.Meta, st *apis.ImageStatus) { st.Attempts = n }); oerr != nil {
		return oerr
	}
	if _, ok := apis.AsTerminal(err); !ok && n >= maxAttempts {
		return apis.Terminal(apis.ReasonImagePull, fmt.Errorf("after %d attempts: %w", n, err))
	}
	return err
}

func (r *Image) observe(name string, fn func(*apis.Meta, *apis.ImageStatus)) error {
	return r.store.Commit(func(tx *controller.Tx) error { return r.status.Observe(tx, name, fn) })
}

// Report shows an error in the image's conditions.
func (r *Image) Report(name string, err error) {
	_ = r.observe(name, func(m *apis.Meta, st *apis.ImageStatus) {
		st.Pulling, st.Progress = false, ""
		setError(&st.Conditions, m, err)
	})
}
