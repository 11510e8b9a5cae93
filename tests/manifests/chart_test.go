package manifests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// rendered has the objects of a release, by kind and name.
type rendered struct {
	t       *testing.T
	objects map[string]runtime.Object
	text    string
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load("../../deploy/helm/threadmill")
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	return c
}

// render returns the manifests of a release with these values, by file.
func render(c *chart.Chart, values string) (map[string]string, error) {
	set := chartutil.Values{}
	if err := yaml.UnmarshalStrict([]byte(values), &set); err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(c, set, chartutil.ReleaseOptions{Name: "threadmill", Namespace: "agents"}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(c, all)
}

// manifests renders a release and decodes its objects: an unknown or a repeated field is an error.
func manifests(t *testing.T, values string) rendered {
	t.Helper()
	files, err := render(load(t), values)
	require.NoError(t, err)
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	r := rendered{t: t, objects: map[string]runtime.Object{}}
	for name, file := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			require.Contains(t, file, "port-forward service/threadmill 8080:")
			continue
		}
		for document := range strings.SplitSeq("\n"+file, "\n---") {
			if strings.TrimSpace(document) == "" {
				continue
			}
			object, kind, err := decoder.Decode([]byte(document), nil, nil)
			require.NoError(t, err, "%s:\n%s", name, document)
			require.Implements(t, (*v1.Object)(nil), object)
			meta := object.(v1.Object)
			require.LessOrEqual(t, len(meta.GetName()), 253)
			require.Equal(t, "threadmill", meta.GetLabels()["app.kubernetes.io/instance"], meta.GetName())
			key := kind.Kind + "/" + meta.GetName()
			require.NotContains(t, r.objects, key)
			r.objects[key] = object
			r.text += document
		}
	}
	return r
}

// all returns the objects of a type, by name.
func all[T v1.Object](r rendered) map[string]T {
	of := map[string]T{}
	for _, object := range r.objects {
		if o, ok := object.(T); ok {
			of[o.GetName()] = o
		}
	}
	return of
}

// names returns the names of objects of a type.
func names[T v1.Object](r rendered) []string {
	var of []string
	for name := range all[T](r) {
		of = append(of, name)
	}
	return of
}

func TestChart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		values      string
		deployments []string
		check       func(t *testing.T, r rendered)
	}{
		"default": {
			deployments: []string{"threadmill-api", "threadmill-worker"},
			check: func(t *testing.T, r rendered) {
				worker := all[*appsv1.Deployment](r)["threadmill-worker"]
				require.Equal(t, "threadmill/worker:"+load(t).AppVersion(), container(worker).Image, "the image of the appVersion")
				require.NotContains(t, strings.Join(container(worker).Args, " "), "--build")
				require.Empty(t, all[*networkingv1.Ingress](r))
				require.Empty(t, all[*corev1.ConfigMap](r))
				require.Empty(t, all[*networkingv1.NetworkPolicy](r)["threadmill-worker"].Spec.Ingress, "nobody calls a worker")
			},
		},
		"two builds": {
			values: `
image: {tag: "1.5"}
deploymentName: desk
config: "  # The desk.\nversion: 1\n"
builds:
  - {id: "1.4", tag: "1.4", replicas: 0, config: "version: 1\ntitleModel: demo/demo\n"}
  - {id: "1.5", tag: "1.5"}
`,
			deployments: []string{"threadmill-api", "threadmill-worker-1-4", "threadmill-worker-1-5"},
			check: func(t *testing.T, r rendered) {
				old, current := all[*appsv1.Deployment](r)["threadmill-worker-1-4"], all[*appsv1.Deployment](r)["threadmill-worker-1-5"]
				require.Equal(t, []int32{0, 2}, []int32{*old.Spec.Replicas, *current.Spec.Replicas})
				require.Equal(t, []string{"threadmill/worker:1.4", "threadmill/worker:1.5"}, []string{container(old).Image, container(current).Image})
				require.Subset(t, container(old).Args, []string{"--build=1.4", "--deployment=desk"})
				require.Contains(t, container(all[*appsv1.Deployment](r)["threadmill-api"]).Args, "--deployment=desk")
				selector := labels.SelectorFromSet(old.Spec.Selector.MatchLabels)
				require.False(t, selector.Matches(labels.Set(current.Spec.Template.Labels)), "each Deployment has its own pods")
				files := all[*corev1.ConfigMap](r)
				require.Equal(t, "version: 1\ntitleModel: demo/demo\n", files["threadmill-worker-1-4-config"].Data["threadmill.yaml"])
				require.Equal(t, "  # The desk.\nversion: 1\n", files["threadmill-config"].Data["threadmill.yaml"])
				require.NotEqual(t, old.Spec.Template.Annotations["checksum/config"], current.Spec.Template.Annotations["checksum/config"])
			},
		},
		"an upgrade of the chart leaves builds as they are": {
			values:      `builds: [{id: "0.9", tag: "0.9"}]`,
			deployments: []string{"threadmill-api", "threadmill-worker-0-9"},
			check: func(t *testing.T, r rendered) {
				require.Equal(t, "threadmill/worker:0.9", container(all[*appsv1.Deployment](r)["threadmill-worker-0-9"]).Image)
			},
		},
		"ingress": {
			values: `
ingress: {enabled: true, className: nginx, hosts: [threads.example.com], tlsSecret: threads-tls, annotations: {example.com/buffering: "off"}}
api: {allowedHosts: [desk.example.com], allowedOrigins: ["https://app.example"]}
networkPolicy: {from: [{namespaceSelector: {matchLabels: {name: ingress}}}]}
`,
			deployments: []string{"threadmill-api", "threadmill-worker"},
			check: func(t *testing.T, r rendered) {
				require.Equal(t, "threads.example.com", all[*networkingv1.Ingress](r)["threadmill"].Spec.Rules[0].Host)
				args := container(all[*appsv1.Deployment](r)["threadmill-api"]).Args
				require.Contains(t, args, "--allowed-hosts=threadmill,threadmill.agents,threadmill.agents.svc,threadmill.agents.svc.cluster.local,"+
					"threads.example.com,desk.example.com")
				require.Contains(t, args, "--allowed-origins=https://app.example")
			},
		},
		"no NATS": {
			values:      `nats: {enabled: false}`,
			deployments: []string{"threadmill"},
			check: func(t *testing.T, r rendered) {
				one := all[*appsv1.Deployment](r)["threadmill"]
				require.Contains(t, container(one).Args, "--roles=worker,api")
				require.EqualValues(t, 1, *one.Spec.Replicas)
				require.Equal(t, appsv1.RecreateDeploymentStrategyType, one.Spec.Strategy.Type)
			},
		},
		"everything": {
			values: `
image: {repository: example/threadmill, tag: "2", pullSecrets: [pull]}
secrets: [one, two]
env: {OTEL_SERVICE_NAME: desk, TEMPORAL_ADDRESS: "other:7233"}
config: "version: 1\n"
temporal: {tlsSecret: temporal-client}
taskQueue: desk
namespace: desk
drain: 120
worker:
  toolQueues: [gpu, mail]
  workspace: {existingClaim: files}
  nodeSelector: {pool: agents}
  tolerations: [{key: agents, operator: Exists}]
  affinity: {podAntiAffinity: {}}
  podAnnotations: {example.com/a: b}
api: {readinessPath: /healthz}
service: {type: LoadBalancer, annotations: {example.com/a: b}}
serviceAccount: {name: agents, annotations: {example.com/role: models}}
networkPolicy: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}
metrics: {enabled: true}
`,
			deployments: []string{"threadmill-api", "threadmill-worker"},
			check: func(t *testing.T, r rendered) {
				worker := all[*appsv1.Deployment](r)["threadmill-worker"]
				require.Equal(t, "true", worker.Spec.Template.Annotations["prometheus.io/scrape"])
				require.Contains(t, container(worker).Env, corev1.EnvVar{Name: "TEMPORAL_ADDRESS", Value: "other:7233"}, "values replace what the chart sets")
				require.Contains(t, container(worker).Args, "--tool-queues=gpu,mail")
				require.NotContains(t, strings.Join(container(all[*appsv1.Deployment](r)["threadmill-api"]).Args, " "), "--tool-queues")
			},
		},
		"nothing optional": {
			values: `
podDisruptionBudget: {enabled: false}
networkPolicy: {enabled: false}
topologySpread: {enabled: false}
serviceAccount: {create: false, name: default}
`,
			deployments: []string{"threadmill-api", "threadmill-worker"},
			check: func(t *testing.T, r rendered) {
				require.Len(t, r.objects, 3, "two Deployments and a Service")
			},
		},
	}
	known := flags(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := manifests(t, tt.values)
			require.ElementsMatch(t, tt.deployments, names[*appsv1.Deployment](r))
			for _, d := range all[*appsv1.Deployment](r) {
				checkPod(t, d, known)
				checkReferences(t, r, d)
			}
			checkSelectors(t, r)
			tt.check(t, r)
		})
	}
}

// TestChartRefuses: values that cannot work are refused, with their names.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	c := load(t)
	tests := map[string]struct {
		values string
		says   []string
	}{
		"an unknown value":         {`replicas: 2`, []string{"replicas"}},
		"an unknown nested value":  {`worker: {replica: 2}`, []string{"worker", "replica"}},
		"a secret in env":          {`env: {DATABASE_URL: "postgres://"}`, []string{"env", "DATABASE_URL"}},
		"a key in env":             {`env: {OPENAI_API_KEY: sk}`, []string{"env", "OPENAI_API_KEY"}},
		"a build without a tag":    {`builds: [{id: "1.5"}]`, []string{"builds", "tag"}},
		"a build id with a space":  {`builds: [{id: "1 5", tag: "1.5"}]`, []string{"builds", "id"}},
		"builds without NATS":      {"nats: {enabled: false}\nbuilds: [{id: a, tag: a}]", []string{"builds"}},
		"two builds of one name":   {`builds: [{id: "1.5", tag: a}, {id: "1-5", tag: b}]`, []string{"1.5", "threadmill-worker-1-5", "another id"}},
		"no time to drain":         {`drain: 0`, []string{"drain"}},
		"an ingress without hosts": {`ingress: {enabled: true}`, []string{"ingress", "hosts"}},
		"no secret":                {`secrets: []`, []string{"secrets"}},
		"an account without name":  {`serviceAccount: {create: false}`, []string{"serviceAccount", "name"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := render(c, tt.values)
			require.Error(t, err)
			for _, word := range tt.says {
				require.ErrorContains(t, err, word)
			}
		})
	}
}

// TestChartValues: every value of values.yaml has a description in the schema, and the other way round.
func TestChartValues(t *testing.T) {
	t.Parallel()
	c := load(t)
	schema := map[string]any{}
	require.NoError(t, yaml.Unmarshal(c.Schema, &schema))
	described(t, "", schema, c.Values)
}

func described(t *testing.T, path string, schema map[string]any, value any) {
	t.Helper()
	require.NotEmpty(t, schema["description"], path)
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return
	}
	require.Equal(t, false, schema["additionalProperties"], path)
	fields, ok := value.(map[string]any)
	require.True(t, ok, path)
	for name, property := range properties {
		if path+name == "global" {
			continue
		}
		require.Contains(t, fields, name, "values.yaml lacks %s%s", path, name)
		described(t, path+name+".", property.(map[string]any), fields[name])
	}
}

// container returns the only container of a Deployment.
func container(d *appsv1.Deployment) corev1.Container { return d.Spec.Template.Spec.Containers[0] }

// checkPod checks what holds for the pods of every Deployment.
func checkPod(t *testing.T, d *appsv1.Deployment, known map[string]bool) {
	t.Helper()
	pod := d.Spec.Template.Spec
	require.False(t, *pod.AutomountServiceAccountToken, d.Name)
	require.NotEmpty(t, pod.ServiceAccountName)
	require.True(t, *pod.SecurityContext.RunAsNonRoot, d.Name)
	require.NotZero(t, *pod.SecurityContext.RunAsUser, d.Name)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	require.Len(t, pod.Containers, 1)
	c := container(d)
	require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
	require.NotEmpty(t, c.Resources.Requests)
	require.NotEmpty(t, c.Resources.Limits)
	require.NotRegexp(t, `:(latest)?$`, c.Image)

	values := parsed(t, known, c.Args)
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	if c.Lifecycle != nil {
		grace -= time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	}
	require.Greater(t, grace, drain(t, values)+5*time.Second, "%s: docs/operations.md, Stopping and replacing", d.Name)

	ports := map[string]int32{}
	for _, port := range c.Ports {
		ports[port.Name] = port.ContainerPort
	}
	require.Equal(t, values["http"], fmt.Sprintf(":%d", ports["http"]))
	for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/(readyz|healthz)": c.ReadinessProbe, "/health.": c.StartupProbe} {
		require.NotNil(t, probe, d.Name)
		require.Regexp(t, "^"+path+"$", probe.HTTPGet.Path)
		require.Equal(t, "http", probe.HTTPGet.Port.String())
	}
	for _, env := range c.Env {
		require.NotRegexp(t, `(KEY|KEYS|TOKEN|SECRET|PASSWORD)$|^(DATABASE|NATS)_URL$`, env.Name, "secrets are in Secrets")
	}
	require.NotEmpty(t, c.EnvFrom)
}

// checkReferences checks that what a Deployment names in the release exists.
func checkReferences(t *testing.T, r rendered, d *appsv1.Deployment) {
	t.Helper()
	require.True(t, labels.SelectorFromSet(d.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)), d.Name)
	volumes := map[string]bool{}
	for _, volume := range d.Spec.Template.Spec.Volumes {
		volumes[volume.Name] = true
		if volume.ConfigMap != nil {
			require.Contains(t, r.objects, "ConfigMap/"+volume.ConfigMap.Name)
		}
	}
	for _, mount := range container(d).VolumeMounts {
		require.True(t, volumes[mount.Name], "%s: no volume %s", d.Name, mount.Name)
		delete(volumes, mount.Name)
	}
	require.Empty(t, volumes, "%s: volumes that nothing mounts", d.Name)
	if account := d.Spec.Template.Spec.ServiceAccountName; account != "default" {
		require.Contains(t, r.objects, "ServiceAccount/"+account)
	}
	require.NotContains(t, r.text, "kind: Secret", "the chart creates no Secret")
}

// checkSelectors checks which pods the Service, the budgets and the policies select.
func checkSelectors(t *testing.T, r rendered) {
	t.Helper()
	selected := func(match map[string]string) []string {
		var of []string
		for _, d := range all[*appsv1.Deployment](r) {
			if labels.SelectorFromSet(match).Matches(labels.Set(d.Spec.Template.Labels)) {
				of = append(of, d.Name)
			}
		}
		return of
	}
	service := all[*corev1.Service](r)["threadmill"]
	require.NotNil(t, service)
	served := selected(service.Spec.Selector)
	require.Len(t, served, 1)
	require.Regexp(t, `--roles=(worker,)?api`, strings.Join(container(all[*appsv1.Deployment](r)[served[0]]).Args, " "))
	for name, budget := range all[*policyv1.PodDisruptionBudget](r) {
		require.Equal(t, []string{name}, selected(budget.Spec.Selector.MatchLabels))
	}
	covered := 0
	for name, policy := range all[*networkingv1.NetworkPolicy](r) {
		pods := selected(policy.Spec.PodSelector.MatchLabels)
		require.NotEmpty(t, pods, name)
		require.NotEmpty(t, policy.Spec.Egress, name)
		covered += len(pods)
	}
	if covered > 0 {
		require.Equal(t, len(all[*appsv1.Deployment](r)), covered, "each Deployment has one policy")
	}
}
