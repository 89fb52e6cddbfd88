package lint

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func itoa(n int32) string { return strconv.Itoa(int(n)) }

func write(t *testing.T, text string, mode uint32) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets.key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, os.FileMode(mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func matches(t *testing.T, selector *metav1.LabelSelector, set map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(labels.Set(set))
}

// goesOut says whether a pod may reach an address that is no pod's, at a port of TCP, as the policies have it.
func (c *cluster) goesOut(t *testing.T, pod corev1.PodTemplateSpec, to string, port int32) bool {
	t.Helper()
	for _, p := range c.policies {
		if !matches(t, &p.Spec.PodSelector, pod.Labels) {
			continue
		}
		for _, rule := range p.Spec.Egress {
			if hasPort(rule.Ports, port) && hasAddress(t, rule.To, netip.MustParseAddr(to)) {
				return true
			}
		}
	}
	return false
}

func hasPort(ports []networkingv1.NetworkPolicyPort, port int32) bool {
	for _, p := range ports {
		if *p.Protocol == corev1.ProtocolTCP && (p.Port.IntVal == port || p.EndPort != nil && p.Port.IntVal <= port && port <= *p.EndPort) {
			return true
		}
	}
	return false
}

func hasAddress(t *testing.T, peers []networkingv1.NetworkPolicyPeer, to netip.Addr) bool {
	t.Helper()
	for _, peer := range peers {
		if peer.IPBlock == nil {
			continue
		}
		block, inside := netip.MustParsePrefix(peer.IPBlock.CIDR), netip.MustParsePrefix(peer.IPBlock.CIDR).Contains(to)
		for _, except := range peer.IPBlock.Except {
			e := netip.MustParsePrefix(except)
			if e != e.Masked() || !block.Contains(e.Addr()) || e.Bits() <= block.Bits() { // Kubernetes refuses these
				t.Errorf("%s is no part of %s", e, block)
			}
			inside = inside && !e.Contains(to)
		}
		if inside {
			return true
		}
	}
	return false
}

func TestPoliciesLetServersReachTheInternetAndNothingInside(t *testing.T) {
	t.Parallel()
	c := render(t)
	for name, pod := range c.pods() {
		server := component(pod) != "migrate"
		for _, to := range []string{"1.1.1.1", "203.0.114.7", "2606:4700::1111"} {
			for port, open := range map[int32]bool{443: true, 80: true, 8443: true, 65535: true, 22: false, 25: false} {
				if got, want := c.goesOut(t, pod, to, port), open && server; got != want {
					t.Errorf("%s to %s port %d: %v, want %v", name, to, port, got, want)
				}
			}
		}
		for _, to := range []string{
			"10.0.0.1", "10.255.255.255", "100.127.255.255", "127.0.0.1", "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.88.99.1", "192.168.255.255", "198.19.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0",
			"::1", "::ffff:10.0.0.1", "fc00::1", "fd00:ec2::254", "fe80::1", "ff02::1", "64:ff9b::a00:1", "2001:0:a00:1::1", "2002:a00:1::1",
		} {
			if c.goesOut(t, pod, to, 443) {
				t.Errorf("%s gets to %s", name, to)
			}
		}
	}
}

// What is not named is closed, for all that runs in the namespace; each pod gets to names and the database, callers to the API
// alone, and scrapes to all servers.
func TestPoliciesCloseTheRest(t *testing.T) {
	t.Parallel()
	c := render(t)
	closed := false
	for _, p := range c.policies {
		if p.Name == "default-deny" {
			closed = len(p.Spec.PodSelector.MatchLabels) == 0 && len(p.Spec.PolicyTypes) == 2 && len(p.Spec.Ingress) == 0 && len(p.Spec.Egress) == 0
		}
		for _, rule := range p.Spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) == 0 {
				t.Errorf("%s lets everybody in, or to every port", p.Name)
			}
		}
		for _, rule := range p.Spec.Egress {
			if len(rule.To) == 0 || len(rule.Ports) == 0 {
				t.Errorf("%s lets out to everywhere, or to every port", p.Name)
			}
		}
	}
	if !closed {
		t.Error("nothing closes what is not named")
	}
	for name, pod := range c.pods() {
		in := map[string]bool{}
		database := false
		for _, p := range c.policies {
			if !matches(t, &p.Spec.PodSelector, pod.Labels) {
				continue
			}
			for _, rule := range p.Spec.Ingress {
				in[rule.Ports[0].Port.StrVal] = true
			}
			for _, rule := range p.Spec.Egress {
				database = database || hasPort(rule.Ports, 5432) && rule.To[0].PodSelector != nil
			}
		}
		if !database {
			t.Errorf("%s does not get to PostgreSQL", name)
		}
		if want := component(pod) == "api"; in["http"] != want {
			t.Errorf("callers get to %s: %v, want %v", name, in["http"], want)
		}
		if component(pod) != "migrate" && !in["metrics"] {
			t.Errorf("nobody may scrape %s", name)
		}
	}
}
