// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"agentd/pkg/apis"
	"agentd/pkg/netplan"
	"agentd/pkg/slots"
)

// Paths below a kernel's scratch, and where the kernel sees them.
const (
	configDir = "config"
	workDir   = "work"
	// RunDir holds the socket on which the runner answers.
	RunDir = "run"

	kernelDir = "/opt/kernel"

	envServicePorts = "BACKENDAI_SERVICE_PORTS"
)

// planInput is everything that a container and a scratch follow from.
type planInput struct {
	kernel  *apis.Kernel
	session *apis.ClusterSession
	image   *apis.Image
	binding *apis.Binding
	// containerID is the engine's ID, once known.
	containerID string
	// dir is the scratch on the host.
	dir string
}

// identity is who owns the kernel's files and processes (26.8, uid-match).
type identity struct {
	// uid and gid are -1 where nothing is asked for.
	uid, gid int
	extra    []int
}

// identityOf follows the request, else the node's own setting where the image
// allows it by the feature uid-match.
func identityOf(k *apis.Kernel, img *apis.Image, set Settings) identity {
	features, labelled := img.Status.Labels["ai.backend.features"]
	match := !labelled || slices.Contains(strings.Fields(features), "uid-match")
	id := identity{uid: -1, gid: -1, extra: slices.Clone(k.Spec.SupplementaryGIDs)}
	if match {
		id.uid, id.gid = set.KernelUID, set.KernelGID
	}
	if k.Spec.UID != nil {
		id.uid = *k.Spec.UID
	}
	if k.Spec.GID != nil {
		id.gid = *k.Spec.GID
		if match {
			id.extra = append(id.extra, set.KernelGID)
		}
	}
	slices.Sort(id.extra)
	id.extra = slices.Compact(id.extra)
	return id
}

// owner is who owns the kernel's files: the entrypoint's default where nothing is asked for.
func (id identity) owner() (uid, gid int) {
	const fallback = 9001 // entrypoint contract, 26.8
	uid, gid = id.uid, id.gid
	if uid < 0 {
		uid = fallback
	}
	if gid < 0 {
		gid = fallback
	}
	return uid, gid
}

// environOf is the whole environment of a kernel.
func environOf(in planInput, set Settings) map[string]string {
	env := maps.Clone(in.kernel.Spec.Environ)
	if env == nil {
		env = map[string]string{}
	}
	id := identityOf(in.kernel, in.image, set)
	if id.uid >= 0 {
		env["LOCAL_USER_ID"] = strconv.Itoa(id.uid)
	}
	if id.gid >= 0 {
		env["LOCAL_GROUP_ID"] = strconv.Itoa(id.gid)
	}
	if len(id.extra) > 0 {
		gids := make([]string, len(id.extra))
		for i, g := range id.extra {
			gids[i] = strconv.Itoa(g)
		}
		env["ADDITIONAL_GIDS"] = strings.Join(gids, ",")
	}
	var persistent []string
	for _, m := range in.kernel.Spec.Mounts {
		if m.VFolder != "" {
			persistent = append(persistent, m.Target)
		}
	}
	if len(persistent) > 0 {
		env["BACKENDAI_PERSISTENT_PATHS"] = strings.Join(persistent, ":")
	}
	held := allocation(in.binding)
	for name := range strings.SplitSeq(in.image.Status.Labels["ai.backend.envs.corecount"], ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if _, ok := env[name]; !ok {
			env[name] = strconv.Itoa(len(held.IDs(slots.CPU)))
		}
	}
	// A session file is read before its image is known; a manager fills it in itself.
	if v, ok := env[envServicePorts]; ok && v == "" {
		env[envServicePorts] = in.image.Status.Labels[apis.LabelServicePorts]
	}
	for _, name := range []string{"GPU_COUNT", "N_GPUS"} { // no accelerators on this node
		env[name] = "0"
	}
	return env
}

// allocation reads the binding's amounts; they were written by agentd itself.
func allocation(b *apis.Binding) slots.Allocation {
	a, err := slots.ParseAllocation(b.Status.Allocations)
	if err != nil {
		return slots.Allocation{}
	}
	return a
}

// ContainerFor computes the container of a kernel whose image, binding and
// session are ready. Equal input gives an equal spec.
func ContainerFor(in planInput, set Settings) (apis.ContainerSpec, error) {
	k := in.kernel
	limits := slots.ContainerOf(allocation(in.binding))
	spec := apis.ContainerSpec{
		EngineName:  "kernel." + imageName(k.Spec.Image.Canonical) + "." + k.Name,
		Incarnation: k.Spec.Incarnation,
		Image:       k.Spec.Image.Canonical,
		Hostname:    k.Spec.Hostname,
		User:        "0:0", // the entrypoint needs root; it drops it
		WorkingDir:  "/home/work",
		Entrypoint:  []string{kernelDir + "/entrypoint.sh"},
		Cmd:         append([]string{kernelDir + "/bai-runner", "runner", "--"}, k.Spec.Command...),
		Mounts:      mountsOf(in, set),
		Ports:       in.binding.Status.Ports,
		CpusetCpus:  limits.CpusetCpus, MemoryBytes: limits.MemoryBytes, ShmBytes: k.Spec.ShmBytes,
		Ulimits: set.Ulimits, CapAdd: []string{"IPC_LOCK", "SYS_NICE"},
		StopSignal: "SIGINT", StopGrace: set.StopGrace, LogMaxBytes: set.LogMaxBytes,
		Labels: labelsOf(in),
	}
	env := environOf(in, set)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		spec.Env = append(spec.Env, name+"="+env[name])
	}
	return spec, attach(&spec, in, set)
}

// imageName is the last part of an image's name, for the container's name (26.8).
func imageName(canonical string) string {
	base := path.Base(canonical)
	base, _, _ = strings.Cut(base, "@")
	base, _, _ = strings.Cut(base, ":")
	return base
}

// labelsOf are the labels that the manager's tools and agentd's own recovery read (26.8).
func labelsOf(in planInput) map[string]string {
	k := in.kernel
	block := "0"
	if k.Spec.BlockServicePorts {
		block = "1"
	}
	return map[string]string{
		apis.LabelKernelID:          k.Name,
		apis.LabelSessionID:         k.Spec.SessionID,
		apis.LabelOwnerUserID:       k.Spec.OwnerUserID,
		apis.LabelOwnerProjectID:    k.Spec.OwnerProjectID,
		apis.LabelBlockServicePorts: block,
		apis.LabelServicePorts:      servicePortsLabel(k, in.image),
	}
}

// mountsOf lists the mounts: agentd's own, the host's files, then the vfolders.
func mountsOf(in planInput, set Settings) []apis.Mount {
	out := []apis.Mount{
		{Source: path.Join(in.dir, configDir), Target: "/home/config", ReadOnly: true},
		{Source: path.Join(in.dir, workDir), Target: "/home/work"},
		{Source: path.Join(in.dir, RunDir), Target: kernelDir + "/run"},
	}
	for _, name := range []string{"bai-runner", "entrypoint.sh", "su-exec", "sftp-server"} {
		out = append(out, apis.Mount{Source: set.RunnerPath, Target: kernelDir + "/" + name, ReadOnly: true})
	}
	out = append(out, set.HostFiles...)
	return append(out, in.kernel.Spec.Mounts...)
}

// ScratchFor computes the directories and files of a kernel.
func ScratchFor(in planInput, set Settings) (apis.ScratchSpec, error) {
	uid, gid := identityOf(in.kernel, in.image, set).owner()
	spec := apis.ScratchSpec{
		Kind: set.ScratchKind, SizeBytes: set.ScratchBytes,
		Dirs: []apis.ScratchDir{
			{Path: configDir, Mode: 0o750, UID: 0, GID: gid},
			{Path: configDir + "/ssh", Mode: 0o700, UID: uid, GID: gid},
			{Path: workDir, Mode: 0o755, UID: uid, GID: gid},
			{Path: RunDir, Mode: 0o700, UID: uid, GID: gid},
		},
	}
	add := func(p string, mode uint32, owner int, content string) {
		spec.Files = append(spec.Files, apis.ScratchFile{Path: p, Mode: mode, UID: owner, GID: gid, Content: apis.Secret(content)})
	}
	if err := addConfig(in, set, add); err != nil {
		return spec, err
	}
	for _, f := range homeFiles(in.kernel) {
		f.UID, f.GID, f.Once = uid, gid, true
		spec.Files = append(spec.Files, f)
	}
	if hasUserKeys(in.kernel) {
		spec.Dirs = append(spec.Dirs, apis.ScratchDir{Path: workDir + "/.ssh", Mode: 0o700, UID: uid, GID: gid})
	}
	m, err := manifestOf(in, set)
	if err != nil {
		return spec, err
	}
	spec.Files = append(spec.Files, apis.ScratchFile{Path: ManifestFile, Mode: 0o600, UID: 0, GID: 0, Content: m})
	return spec, nil
}

// manifestOf writes down what is needed to know the kernel again. It is cut
// into its own file so that the container never sees it.
func manifestOf(in planInput, set Settings) (apis.Secret, error) {
	c, err := ContainerFor(in, set)
	if err != nil {
		return "", err
	}
	return manifest{
		SessionID: in.session.Name, Session: in.session.Spec, KernelID: in.kernel.Name, Kernel: in.kernel.Spec,
		Binding: in.binding.Spec, Held: in.binding.Status, Container: c,
	}.encode()
}

// resourceText is config/resource.txt.
func resourceText(in planInput, set Settings) (string, error) {
	amounts, err := slots.ParseAmounts(in.kernel.Spec.Slots)
	if err != nil {
		return "", apis.Terminal(apis.ReasonInvalid, err)
	}
	text := slots.ResourceText{Slots: amounts, Allocation: allocation(in.binding), ContainerID: in.containerID}
	for _, m := range mountsOf(in, set) {
		perm := "rw"
		if m.ReadOnly {
			perm = "ro"
		}
		text.Mounts = append(text.Mounts, slots.MountText{Source: m.Source, Target: m.Target, Permission: perm})
	}
	b, err := text.Format()
	if err != nil {
		return "", apis.Terminal(apis.ReasonInvalid, fmt.Errorf("resource.txt: %w", err))
	}
	return string(b), nil
}

// attach puts the container into its network, and publishes its ports where
// they are not the node's own already.
func attach(spec *apis.ContainerSpec, in planInput, set Settings) error {
	mapping, err := portMapping(in)
	if err != nil {
		return err
	}
	c, err := netplan.Attachment{
		Mode: netplan.Mode(in.session.Spec.Network.Mode), Network: in.session.Spec.Network.Name,
		Hostname: in.kernel.Spec.Hostname, AlternativeBridge: set.AlternativeBridge, Mapping: mapping,
	}.Connect()
	if err != nil {
		return apis.Terminal(apis.ReasonInvalid, err)
	}
	spec.NetworkMode, spec.Aliases, spec.EndpointOpt, spec.ExtraHosts = c.NetworkMode, c.Aliases, c.EndpointOptions, c.ExtraHosts
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		spec.Env = append(spec.Env, name+"="+c.Env[name])
	}
	if !c.Published {
		spec.Ports = nil
	}
	return nil
}

// portMapping is the session's table of SSH addresses by host name.
func portMapping(in planInput) (netplan.PortMapping, error) {
	m := netplan.PortMapping{}
	for host, a := range in.session.Spec.PortMapping {
		m[host] = netplan.Endpoint{Host: a.Host, Port: a.Port}
	}
	named, err := m.ByHostname(map[string]string{in.kernel.Name: in.kernel.Spec.Hostname})
	return named, apis.Terminal(apis.ReasonInvalid, err)
}
