// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"agentd/pkg/apis"
	"agentd/pkg/netplan"
	"agentd/pkg/slots"
)

const (
	// MaxFileSize is how many bytes of a session file are read.
	MaxFileSize = 1 << 20
	// fileVersion and fileKind are the first two lines of a session file.
	fileVersion = "agentd/v1"
	fileKind    = "ClusterSession"
	// maxReplicas bounds the kernels of one session.
	maxReplicas = 512
	mainRole    = "main"
)

// sessionFile is one document of a session file.
type sessionFile struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   fileMetadata `json:"metadata"`
	Spec       fileSpec     `json:"spec"`
}

type fileMetadata struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

type fileSpec struct {
	Network  *fileNetwork  `json:"network"`
	Replicas []fileReplica `json:"replicas"`
	fileKernel
}

type fileNetwork struct {
	Mode string `json:"mode"`
	Name string `json:"name"`
}

// fileReplica is a role: how many kernels, and where they differ from the others.
type fileReplica struct {
	Role  string `json:"role"`
	Count *int   `json:"count"`
	fileKernel
}

// fileKernel are the fields that every role may set for itself.
type fileKernel struct {
	Image        *string           `json:"image"`
	Pull         *string           `json:"pull"`
	Architecture *string           `json:"architecture"`
	UID          *int              `json:"uid"`
	GID          *int              `json:"gid"`
	Slots        map[string]amount `json:"slots"`
	Shm          *amount           `json:"shm"`
	Environ      map[string]string `json:"environ"`
	Mounts       []fileMount       `json:"mounts"`
	Command      []string          `json:"command"`
	Bootstrap    *string           `json:"bootstrap"`
	PreopenPorts []int             `json:"preopenPorts"`
	Sudo         *bool             `json:"sudo"`
	Dotfiles     []fileDotfile     `json:"dotfiles"`
}

type fileMount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly"`
}

type fileDotfile struct {
	Path string `json:"path"`
	Perm string `json:"perm"`
	Data string `json:"data"`
}

// Parse reads a session file: one session a YAML document. It returns every
// problem of the file at once, each a [FileError] that names line and field.
// Equal files give equal sessions, key pairs excepted: those are made when a
// session is stored.
func Parse(data []byte, file string) ([]Session, error) {
	p := &problems{file: file}
	if len(data) > MaxFileSize {
		p.add(0, "", "%d bytes are too many for a session file; at most %d are read", len(data), MaxFileSize)
		return nil, p.err()
	}
	docs := documents(data, p)
	if len(docs) == 0 && len(p.list) == 0 {
		p.add(0, "", "there is no session in it; expected apiVersion, kind, metadata and spec")
	}
	var out []Session
	lines := map[string]int{}
	for _, n := range docs {
		d := &decoder{p: p, lines: map[string]int{}}
		var f sessionFile
		before := len(p.list)
		d.into(reflect.ValueOf(&f).Elem(), n, "")
		if n.Kind != yaml.MappingNode {
			continue
		}
		s, ok := plan(&f, d)
		if !ok || len(p.list) > before {
			continue
		}
		if first, dup := lines[s.ID]; dup {
			p.add(d.line("metadata"), "metadata", "session %s stands in this file twice; first on line %d", s.Spec.Title, first)
		}
		lines[s.ID] = d.line("metadata")
		if err := apis.ValidateSession(s.ID, s.Spec, s.Kernels); err != nil {
			addAll(p, d.line("spec"), err)
		}
		out = append(out, s)
	}
	if len(p.list) > 0 {
		return nil, p.err()
	}
	return out, nil
}

// addAll takes joined errors apart, so that each gets its line.
func addAll(p *problems, line int, err error) {
	if many, ok := err.(interface{ Unwrap() []error }); ok && strings.Contains(err.Error(), "\n") {
		for _, e := range many.Unwrap() {
			addAll(p, line, e)
		}
		return
	}
	p.add(line, "spec", "%s", err)
}

// SessionID is the ID of a session whose file gives none: it follows from its name.
func SessionID(name string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("agentd/v1/ClusterSession/"+name)).String()
}

// KernelID is the ID of a session's kernel on that host. The session ID is a
// UUID; any other text gives an empty answer.
func KernelID(sessionID, host string) string {
	id, err := uuid.Parse(sessionID)
	if err != nil {
		return ""
	}
	return uuid.NewSHA1(id, []byte(host)).String()
}

// plan makes a session out of a document; false if it is too broken for that.
func plan(f *sessionFile, d *decoder) (Session, bool) {
	if f.APIVersion != fileVersion {
		d.p.add(d.line("apiVersion"), "apiVersion", "expected %s, found %q", fileVersion, f.APIVersion)
	}
	if f.Kind != fileKind {
		d.p.add(d.line("kind"), "kind", "expected %s, found %q", fileKind, f.Kind)
	}
	if f.Metadata.Name == "" {
		d.p.add(d.line("metadata"), "metadata.name", "is missing")
	} else if err := apis.ValidateName("the name", f.Metadata.Name); err != nil {
		d.p.add(d.line("metadata.name"), "metadata.name", "%s", err)
	}
	id := f.Metadata.ID
	if id == "" {
		id = SessionID(f.Metadata.Name)
	} else if u, err := uuid.Parse(id); err != nil || u.String() != id {
		d.p.add(d.line("metadata.id"), "metadata.id", "expected a UUID such as %s, found %q", SessionID("demo"), id)
	}
	roles := f.roles(d)
	if roles == nil {
		return Session{}, false
	}
	s := Session{ID: id, Kernels: map[string]apis.KernelSpec{}}
	s.Spec = apis.ClusterSessionSpec{Title: f.Metadata.Name, Mode: apis.SingleNode, Replicas: map[string]int{}}
	for _, r := range roles {
		s.Spec.Replicas[r.Role] = *r.Count
		s.Spec.Size += *r.Count
	}
	s.Spec.Network = f.Spec.network(d, id, s.Spec.Size)
	if s.Spec.Network.Mode == apis.NetworkOverlay {
		s.Spec.Mode = apis.MultiNode
	}
	addKernels(&s, roles, d)
	return s, true
}

// roles returns the replicas with all their fields; nil if they make no sense.
func (f *sessionFile) roles(d *decoder) []fileReplica {
	before := len(d.p.list)
	one := 1
	list := f.Spec.Replicas
	if len(list) == 0 {
		list = []fileReplica{{Role: mainRole}}
	}
	seen := map[string]bool{}
	total := 0
	out := make([]fileReplica, len(list))
	for i, r := range list {
		field := fmt.Sprintf("spec.replicas[%d]", i)
		if r.Count == nil {
			r.Count = &one
		}
		switch n := *r.Count; {
		case n < 1 || n > maxReplicas:
			d.p.add(d.line(field+".count"), field+".count", "%d kernels are not possible; a role has 1 to %d", n, maxReplicas)
		default:
			total += n
		}
		switch {
		case r.Role == "":
			d.p.add(d.line(field), field+".role", "is missing; main and sub are usual")
		case seen[r.Role]:
			d.p.add(d.line(field+".role"), field+".role", "role %q is given twice; use count for several kernels", r.Role)
		}
		seen[r.Role] = true
		r.inherit(&f.Spec.fileKernel)
		r.check(d, field)
		out[i] = r
	}
	switch {
	case !seen[mainRole]:
		d.p.add(d.line("spec.replicas"), "spec.replicas", "no role is called main; every session has a main kernel")
	case total > maxReplicas:
		d.p.add(d.line("spec.replicas"), "spec.replicas", "%d kernels are too many; a session has at most %d", total, maxReplicas)
	}
	if len(d.p.list) > before {
		return nil
	}
	return out
}

// inherit takes what the role does not set itself from the session. Environment
// and slots are merged by name; lists are replaced.
func (k *fileReplica) inherit(from *fileKernel) {
	own := k.fileKernel
	k.fileKernel = *from
	v, o := reflect.ValueOf(&k.fileKernel).Elem(), reflect.ValueOf(own)
	for i := range o.NumField() {
		if o.Field(i).IsNil() { // every field is a pointer, a list or a map
			continue
		}
		v.Field(i).Set(o.Field(i))
	}
	k.Environ = merged(from.Environ, own.Environ)
	k.Slots = merged(from.Slots, own.Slots)
}

func merged[V any](base, over map[string]V) map[string]V {
	if len(base)+len(over) == 0 {
		return nil
	}
	out := map[string]V{}
	maps.Copy(out, base)
	maps.Copy(out, over)
	return out
}

// network is the network that the session asks for, or the usual one.
func (f *fileSpec) network(d *decoder, id string, size int) apis.NetworkAttachment {
	own := apis.NetworkAttachment{Mode: apis.NetworkBridge, Name: netplan.SingleNodeName(id), Managed: true}
	n := f.Network
	if n == nil {
		if size > 1 {
			return own
		}
		return apis.NetworkAttachment{}
	}
	mode := apis.NetworkMode(n.Mode)
	line := d.line("spec.network.name")
	switch {
	case mode == apis.NetworkOverlay && n.Name == "":
		d.p.add(d.line("spec.network"), "spec.network.name", "is missing: the name of an overlay network that exists")
	case mode == apis.NetworkOverlay:
		if err := apis.ValidateName("the name", n.Name); err != nil {
			d.p.add(line, "spec.network.name", "%s", err)
		}
		return apis.NetworkAttachment{Mode: mode, Name: n.Name}
	case n.Name != "":
		d.p.add(line, "spec.network.name", "only mode overlay takes a name; a session with mode bridge makes a network of its own")
	case mode == apis.NetworkBridge:
		return own
	case mode == apis.NetworkHost:
		return apis.NetworkAttachment{Mode: mode}
	default:
		d.p.add(d.line("spec.network.mode"), "spec.network.mode", "known are bridge, overlay and host, found %q", n.Mode)
	}
	return apis.NetworkAttachment{}
}

// check looks at one role's fields.
func (k *fileReplica) check(d *decoder, role string) {
	// at is where the field was given: by the role, or by the session for all.
	at := func(name string) (int, string) {
		if n, ok := d.lines[role+"."+name]; ok {
			return n, role + "." + name
		}
		return d.line("spec." + name), "spec." + name
	}
	bad := func(name, format string, args ...any) {
		line, field := at(name)
		for _, e := range d.p.list { // inherited by several roles, but wrong once
			if e.Line == line && e.Field == field {
				return
			}
		}
		d.p.add(line, field, format, args...)
	}
	if k.Image == nil || strings.TrimSpace(*k.Image) == "" {
		bad("image", "is missing: a reference such as agentd.local/busybox:1 is needed")
	}
	if k.Pull != nil {
		switch apis.PullPolicy(*k.Pull) {
		case apis.PullNone, apis.PullTag, apis.PullDigest:
		default:
			bad("pull", "known are none, tag and digest, found %q", *k.Pull)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.Slots)) {
		if _, err := slotText(name, string(k.Slots[name])); err != nil {
			bad("slots."+name, "%s", err)
		}
	}
	if k.Shm != nil {
		if _, err := byteCount(string(*k.Shm)); err != nil {
			bad("shm", "%s", err)
		}
	}
	if _, err := netplan.Services(netplan.ServiceInput{Role: mainRole, Preopen: k.PreopenPorts}); err != nil {
		bad("preopenPorts", "%s", err)
	}
	for i, f := range k.Dotfiles {
		if f.Perm == "" {
			continue
		}
		if _, err := apis.ParseMode(f.Perm); err != nil {
			bad(fmt.Sprintf("dotfiles[%d].perm", i), "%s", err)
		}
	}
}

// unreasonable matches amounts whose digits would fill the memory: an exponent
// of three digits is beyond everything that can be counted.
var unreasonable = regexp.MustCompile(`[eE][+-]?[0-9_]{3,}|^.{65}`)

// slotText turns an amount as a person writes it into the manager's: an exact decimal.
func slotText(name, text string) (string, error) {
	if unreasonable.MatchString(text) {
		return "", fmt.Errorf("%.20q… is no amount that a node can have", text)
	}
	amounts, err := slots.ParseUserAmounts(map[string]string{name: text}, nil)
	if err != nil {
		if errors.Is(err, slots.ErrNegative) {
			return "", fmt.Errorf("%q is negative; an amount is 0 or more", text)
		}
		return "", err
	}
	a := amounts[name]
	if a.IsInfinite() {
		return "", fmt.Errorf("%q is no amount that a node can have", text)
	}
	return a.Plain(), nil
}

// byteCount reads a number of bytes that fits into an int64.
func byteCount(text string) (int64, error) {
	if unreasonable.MatchString(text) {
		return 0, fmt.Errorf("%.20q… is too large for a number of bytes", text)
	}
	a, err := slots.ParseFiniteBytes(text)
	if err != nil {
		return 0, err
	}
	n, ok := a.Int64()
	if !ok || n < 0 {
		return 0, fmt.Errorf("%q is negative or too large for a number of bytes", text)
	}
	return n, nil
}
