// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"strconv"
	"strings"

	"agentd/pkg/apis"
	"agentd/pkg/netplan"
)

// Image labels that speak of ports (26.8).
const (
	labelEndpointPorts = "ai.backend.endpoint-ports"
)

// services lists the kernel's services, without host ports.
func services(k *apis.Kernel, img *apis.Image) ([]netplan.Service, error) {
	return netplan.Services(netplan.ServiceInput{
		Role: k.Spec.ClusterRole, Preopen: k.Spec.PreopenPorts,
		Label: img.Status.Labels[apis.LabelServicePorts], Endpoints: img.Status.Labels[labelEndpointPorts],
		HostPorts: k.Spec.AllocatedHostPorts,
	})
}

// BindingFor computes what a kernel has to hold, from its request and from the
// ports that its image asks for.
func BindingFor(in planInput, set Settings) (apis.BindingSpec, error) {
	k := in.kernel
	spec := apis.BindingSpec{Slots: k.Spec.Slots, AllowFragmentation: k.Spec.AllowFragmentation}
	list, err := services(k, in.image)
	if err != nil {
		return spec, apis.Terminal(apis.ReasonInvalid, err)
	}
	mapping, err := portMapping(in)
	if err != nil {
		return spec, err
	}
	exposure := netplan.Exposure{
		BindHost: set.BindHost, Protected: netplan.Protected(set.ScalingGroupType), SSHPort: mapping[k.Spec.Hostname].Port,
	}
	for _, n := range netplan.PortNeeds(list, exposure) {
		spec.Ports = append(spec.Ports, apis.PortRequest{Service: n.Service, Container: n.Container, HostIP: n.HostIP, Host: n.Host})
	}
	return spec, nil
}

// servicePorts is the kernel's table of services as clients are told.
func servicePorts(in planInput) []apis.ServicePort {
	list, err := services(in.kernel, in.image)
	if err != nil {
		return nil
	}
	host := map[int]int{}
	for _, l := range in.binding.Status.Ports {
		host[l.Container] = l.Host
	}
	if list, err = netplan.WithHostPorts(list, host); err != nil {
		return nil
	}
	if in.session.Spec.Network.Mode == apis.NetworkHost {
		list = netplan.InHostNetwork(list)
	}
	out := make([]apis.ServicePort, 0, len(list))
	for _, s := range list {
		out = append(out, apis.ServicePort{
			Name: s.Name, Protocol: string(s.Protocol), ContainerPorts: s.ContainerPorts, HostPorts: s.HostPorts, Inference: s.Inference,
		})
	}
	return out
}

// servicePortsLabel is the container's own table: the image's, and the pre-open ports (26.8).
func servicePortsLabel(k *apis.Kernel, img *apis.Image) string {
	var parts []string
	if l := img.Status.Labels[apis.LabelServicePorts]; l != "" {
		parts = append(parts, l)
	}
	for _, p := range k.Spec.PreopenPorts {
		n := strconv.Itoa(p)
		parts = append(parts, n+":preopen:"+n)
	}
	return strings.Join(parts, ",")
}

// intrinsicPorts tells the runner where to listen when the node's own network is used.
func intrinsicPorts(in planInput) (path, content string, err error) {
	host := map[int]int{}
	for _, l := range in.binding.Status.Ports {
		host[l.Container] = l.Host
	}
	f, err := netplan.IntrinsicPortsFile(host)
	return f.Path, string(f.Content), err
}
