package lint

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// cluster is what `kubectl apply -k deploy/kubernetes` would make.
type cluster struct {
	configs     map[string]corev1.ConfigMap
	secrets     map[string]corev1.Secret // as in the example
	accounts    map[string]corev1.ServiceAccount
	services    []corev1.Service
	budgets     []policyv1.PodDisruptionBudget
	policies    []networkingv1.NetworkPolicy
	deployments []appsv1.Deployment
	jobs        []batchv1.Job
	namespaces  []corev1.Namespace
}

// pods are the templates of all that runs.
func (c *cluster) pods() map[string]corev1.PodTemplateSpec {
	all := map[string]corev1.PodTemplateSpec{}
	for _, d := range c.deployments {
		all[d.Name] = d.Spec.Template
	}
	for _, j := range c.jobs {
		all[j.Name] = j.Spec.Template
	}
	return all
}

// render builds the kustomization, and reads each object strictly: a field that Kubernetes has not is a fault.
func render(t *testing.T) *cluster {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "deploy/kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{configs: map[string]corev1.ConfigMap{}, secrets: map[string]corev1.Secret{}, accounts: map[string]corev1.ServiceAccount{}}
	for _, document := range append(bytes.Split(text, []byte("\n---\n")), read(t, "deploy/kubernetes/secret.example.yaml")) {
		c.add(t, document)
	}
	return c
}

func (c *cluster) add(t *testing.T, document []byte) {
	t.Helper()
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		t.Fatal(err)
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 Namespace":
		c.namespaces = append(c.namespaces, strict[corev1.Namespace](t, document))
	case "v1 ServiceAccount":
		o := strict[corev1.ServiceAccount](t, document)
		c.accounts[o.Name] = o
	case "v1 ConfigMap":
		o := strict[corev1.ConfigMap](t, document)
		c.configs[o.Name] = o
	case "v1 Secret":
		o := strict[corev1.Secret](t, document)
		c.secrets[o.Name] = o
	case "v1 Service":
		c.services = append(c.services, strict[corev1.Service](t, document))
	case "policy/v1 PodDisruptionBudget":
		c.budgets = append(c.budgets, strict[policyv1.PodDisruptionBudget](t, document))
	case "networking.k8s.io/v1 NetworkPolicy":
		c.policies = append(c.policies, strict[networkingv1.NetworkPolicy](t, document))
	case "apps/v1 Deployment":
		c.deployments = append(c.deployments, strict[appsv1.Deployment](t, document))
	case "batch/v1 Job":
		c.jobs = append(c.jobs, strict[batchv1.Job](t, document))
	default:
		t.Errorf("no rule for %s %s", kind.APIVersion, kind.Kind)
	}
}

func strict[T any](t *testing.T, document []byte) T {
	t.Helper()
	var o T
	if err := yaml.UnmarshalStrict(document, &o, yaml.DisallowUnknownFields); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	return o
}

// environ is what a container's environment is, out of the config map and the example of a secret.
func (c *cluster) environ(t *testing.T, container corev1.Container) map[string]string {
	t.Helper()
	environ := map[string]string{}
	for _, from := range container.EnvFrom {
		source, there := c.configs[from.ConfigMapRef.Name]
		if !there {
			t.Errorf("%s: no config map %s", container.Name, from.ConfigMapRef.Name)
		}
		for name, value := range source.Data {
			environ[name] = value
		}
	}
	for _, v := range container.Env {
		environ[v.Name] = v.Value
		if v.ValueFrom == nil {
			continue
		}
		ref := v.ValueFrom.SecretKeyRef
		value, there := c.secrets[ref.Name].StringData[ref.Key]
		if !there {
			t.Errorf("%s: the secret %s has no %s", container.Name, ref.Name, ref.Key)
		}
		environ[v.Name] = value
	}
	return environ
}

// port gives the number of a container's port by its name.
func port(pod corev1.PodTemplateSpec, name string) string {
	for _, container := range pod.Spec.Containers {
		for _, p := range container.Ports {
			if p.Name == name {
				return ":" + itoa(p.ContainerPort)
			}
		}
	}
	return "no port " + name
}

func selects(selector map[string]string, pod corev1.PodTemplateSpec) bool {
	for key, value := range selector {
		if pod.Labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

func component(pod corev1.PodTemplateSpec) string { return pod.Labels["app.kubernetes.io/component"] }

func TestManifestsStartAllOfIt(t *testing.T) {
	t.Parallel()
	c := render(t)
	var lines [][]string
	images := map[string]bool{}
	for name, pod := range c.pods() {
		for _, container := range pod.Spec.Containers {
			environ := c.environ(t, container)
			if file := environ["POSTRIDER_SECRETS_KEY_FILE"]; file != "" {
				environ["POSTRIDER_SECRETS_KEY_FILE"] = c.keyFile(t, pod, container, file)
			}
			mustStart(t, container.Args, environ)
			lines = append(lines, container.Args)
			images[container.Image] = true
			if roles(container.Args) == nil {
				continue
			}
			if got, want := environ["POSTRIDER_HTTP_ADDR"], port(pod, "http"); got != want {
				t.Errorf("%s: it listens on %s, and its port is %s", name, got, want)
			}
			if got, want := environ["POSTRIDER_METRICS_ADDR"], port(pod, "metrics"); got != want {
				t.Errorf("%s: metrics are on %s, and their port is %s", name, got, want)
			}
			if got, want := ":"+pod.Annotations["prometheus.io/port"], port(pod, "metrics"); got != want {
				t.Errorf("%s: %s is scraped, and metrics are on %s", name, got, want)
			}
		}
	}
	mustHaveEveryRole(t, lines)
	if len(images) != 1 || len(c.jobs) != 1 || len(c.deployments) < 2 {
		t.Errorf("images %v of %d jobs and %d deployments, want one for all", images, len(c.jobs), len(c.deployments))
	}
}

// keyFile writes the example's key as the volume would have it, and gives its path.
func (c *cluster) keyFile(t *testing.T, pod corev1.PodTemplateSpec, container corev1.Container, path string) string {
	t.Helper()
	for _, mount := range container.VolumeMounts {
		for _, volume := range pod.Spec.Volumes {
			if volume.Name != mount.Name || volume.Secret == nil {
				continue
			}
			for _, item := range volume.Secret.Items {
				if filepath.Join(mount.MountPath, item.Path) != path {
					continue
				}
				if group := pod.Spec.SecurityContext.FSGroup; group == nil {
					t.Errorf("%s: the group of %s is root's", container.Name, path)
				}
				return write(t, c.secrets[volume.Secret.SecretName].StringData[item.Key], uint32(*volume.Secret.DefaultMode))
			}
		}
	}
	t.Errorf("%s: no volume has %s", container.Name, path)
	return ""
}

// Each rule is for all pods and says what is wrong with one, or "".
func TestPodsKeepTheRules(t *testing.T) {
	t.Parallel()
	c := render(t)
	yes := func(b *bool) bool { return b != nil && *b }
	no := func(b *bool) bool { return b != nil && !*b }
	for name, pod := range c.pods() {
		spec := pod.Spec
		account, known := c.accounts[spec.ServiceAccountName]
		s := spec.SecurityContext
		if s == nil {
			t.Fatalf("%s: no security context", name)
		}
		server := component(pod) != "migrate"
		rules := map[string]bool{
			"an account without a token":              known && no(account.AutomountServiceAccountToken) && no(spec.AutomountServiceAccountToken),
			"no variables of other services":          no(spec.EnableServiceLinks),
			"a user who is not root":                  yes(s.RunAsNonRoot) && s.RunAsUser != nil && *s.RunAsUser == 65532,
			"seccomp":                                 s.SeccompProfile != nil && s.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
			"nothing of the host's":                   !spec.HostNetwork && !spec.HostPID && !spec.HostIPC,
			"a minute and more to stop":               !server || spec.TerminationGracePeriodSeconds != nil && *spec.TerminationGracePeriodSeconds >= 60,
			"no end by itself but for a job":          server == (spec.RestartPolicy == "" || spec.RestartPolicy == corev1.RestartPolicyAlways),
			"the label by which it is let out and in": pod.Labels["app.kubernetes.io/name"] == "postrider" && component(pod) != "",
			"spreading over machines that is its own": !server || len(spec.TopologySpreadConstraints) == 1 && selects(spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels, pod),
			"one container, so that these are all":    len(spec.Containers) == 1 && len(spec.InitContainers) == 0,
		}
		for _, k := range spec.Containers {
			own := k.SecurityContext
			rules["no way to more rights"] = own != nil && no(own.AllowPrivilegeEscalation) && own.Privileged == nil
			rules["a root that is read-only"] = own != nil && yes(own.ReadOnlyRootFilesystem)
			rules["no capabilities"] = own != nil && own.Capabilities != nil && len(own.Capabilities.Drop) == 1 && own.Capabilities.Drop[0] == "ALL" && len(own.Capabilities.Add) == 0
			rules["requests and a limit of memory"] = !k.Resources.Requests.Cpu().IsZero() && !k.Resources.Requests.Memory().IsZero() && !k.Resources.Limits.Memory().IsZero()
			rules["probes"] = !server || asks(k.StartupProbe, "/livez") && asks(k.LivenessProbe, "/livez") && asks(k.ReadinessProbe, "/readyz")
			rules["time until no more requests come"] = component(pod) != "api" || k.Lifecycle != nil && k.Lifecycle.PreStop != nil && k.Lifecycle.PreStop.Sleep != nil
		}
		for rule, kept := range rules {
			if !kept {
				t.Errorf("%s lacks %s", name, rule)
			}
		}
	}
	if len(c.namespaces) != 1 || c.namespaces[0].Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace: %+v", c.namespaces)
	}
}

// asks wants a probe of the path that waits longer for it than it takes: /readyz looks at the database for 2 s.
func asks(p *corev1.Probe, path string) bool {
	return p != nil && p.HTTPGet != nil && p.HTTPGet.Path == path && p.HTTPGet.Port.StrVal == "http" && (path == "/livez" || p.TimeoutSeconds > 2)
}

func TestSelectorsFindTheirPods(t *testing.T) {
	t.Parallel()
	c := render(t)
	for _, d := range c.deployments {
		if !selects(d.Spec.Selector.MatchLabels, d.Spec.Template) {
			t.Errorf("the deployment %s does not know its own pods", d.Name)
		}
		if d.Spec.Replicas == nil || *d.Spec.Replicas < 2 {
			t.Errorf("%s: one that is away is all of them", d.Name)
		}
		budgets := 0
		for _, b := range c.budgets {
			if selects(b.Spec.Selector.MatchLabels, d.Spec.Template) {
				budgets++
				if b.Spec.MinAvailable == nil || b.Spec.MinAvailable.IntVal < 1 || b.Spec.MinAvailable.IntVal >= *d.Spec.Replicas {
					t.Errorf("%s: the budget %s lets none be away, or all", d.Name, b.Name)
				}
			}
		}
		if budgets != 1 {
			t.Errorf("%s has %d budgets", d.Name, budgets)
		}
	}
	if len(c.budgets) != len(c.deployments) {
		t.Errorf("%d budgets for %d deployments", len(c.budgets), len(c.deployments))
	}
	for _, s := range c.services {
		for name, pod := range c.pods() {
			if got, want := selects(s.Spec.Selector, pod), component(pod) == "api"; got != want {
				t.Errorf("the service %s leads to %s: %v, want %v", s.Name, name, got, want)
			}
			if component(pod) == "api" && strings.HasPrefix(port(pod, s.Spec.Ports[0].TargetPort.StrVal), "no ") {
				t.Errorf("the service %s: %s", s.Name, port(pod, s.Spec.Ports[0].TargetPort.StrVal))
			}
		}
	}
	if len(c.services) != 1 {
		t.Errorf("%d services", len(c.services))
	}
}
