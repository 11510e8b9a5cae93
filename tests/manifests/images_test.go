package manifests

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	proc "github.com/threadmill/threadmill/tests/internal/process"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// descriptor says where a blob is, and for an image, for which platform it is.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
	Platform    struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// manifest is an index, or that of an image.
type manifest struct {
	MediaType   string            `json:"mediaType"`
	Manifests   []descriptor      `json:"manifests"`
	Config      descriptor        `json:"config"`
	Layers      []descriptor      `json:"layers"`
	Annotations map[string]string `json:"annotations"`
}

// imageConfig is how an image is run.
type imageConfig struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Created      string `json:"created"`
	Config       struct {
		User, WorkingDir string
		Entrypoint, Cmd  []string
		Env              []string
		ExposedPorts     map[string]struct{}
		Labels           map[string]string
	} `json:"config"`
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// file is one of an image.
type file struct {
	tar.Header
	content []byte
}

// archive is an OCI layout in a tar: files by their names.
type archive map[string]file

func readTar(t *testing.T, from io.Reader, into archive) archive {
	t.Helper()
	for files := tar.NewReader(from); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return into
		}
		require.NoError(t, err)
		content, err := io.ReadAll(files)
		require.NoError(t, err)
		into[strings.TrimSuffix(header.Name, "/")] = file{*header, content}
	}
}

func readArchive(t *testing.T, name string) archive {
	t.Helper()
	from, err := os.Open(name)
	require.NoError(t, err)
	defer from.Close()
	return readTar(t, from, archive{})
}

// blob returns what a descriptor is of, whose digest and size it checks.
func (a archive) blob(t *testing.T, d descriptor) []byte {
	t.Helper()
	hash, _ := strings.CutPrefix(d.Digest, "sha256:")
	content := a["blobs/sha256/"+hash].content
	sum := sha256.Sum256(content)
	require.Equal(t, hash, hex.EncodeToString(sum[:]))
	require.Equal(t, d.Size, int64(len(content)))
	return content
}

func decode[T any](t *testing.T, from []byte) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(from, &v), "%s", from)
	return v
}

// index returns the index of the image for all platforms, and its descriptor.
func (a archive) index(t *testing.T) (manifest, descriptor) {
	t.Helper()
	require.JSONEq(t, `{"imageLayoutVersion": "1.0.0"}`, string(a["oci-layout"].content))
	top := decode[manifest](t, a["index.json"].content)
	require.Len(t, top.Manifests, 1)
	return decode[manifest](t, a.blob(t, top.Manifests[0])), top.Manifests[0]
}

// unpack returns the configuration and the files of the image for a platform.
func (a archive) unpack(t *testing.T, arch string) (imageConfig, archive) {
	t.Helper()
	index, _ := a.index(t)
	for _, d := range index.Manifests {
		if d.Platform.Architecture != arch {
			continue
		}
		require.Equal(t, "linux", d.Platform.OS)
		require.Equal(t, "application/vnd.oci.image.manifest.v1+json", d.MediaType)
		image := decode[manifest](t, a.blob(t, d))
		config := decode[imageConfig](t, a.blob(t, image.Config))
		require.Len(t, config.RootFS.DiffIDs, len(image.Layers))
		files := archive{}
		for i, layer := range image.Layers {
			packed, err := gzip.NewReader(bytes.NewReader(a.blob(t, layer)))
			require.NoError(t, err)
			content, err := io.ReadAll(packed)
			require.NoError(t, err)
			sum := sha256.Sum256(content)
			require.Equal(t, config.RootFS.DiffIDs[i], "sha256:"+hex.EncodeToString(sum[:]))
			readTar(t, bytes.NewReader(content), files)
		}
		return config, files
	}
	t.Fatalf("no image for %s", arch)
	return imageConfig{}, nil
}

// ServeHTTP serves the index as the tag 1 of an image in a registry.
func (a archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, what, _ := strings.Cut(r.URL.Path, "/base/")
	kind, ref, _ := strings.Cut(what, "/")
	if kind == "manifests" && ref == "1" {
		var top manifest
		_ = json.Unmarshal(a["index.json"].content, &top)
		ref = top.Manifests[0].Digest
	}
	content := a["blobs/sha256/"+strings.TrimPrefix(ref, "sha256:")].content
	switch {
	case r.URL.Path == "/v2/":
	case content == nil:
		http.NotFound(w, r)
		return
	case kind == "manifests":
		var m manifest
		_ = json.Unmarshal(content, &m)
		w.Header().Set("Content-Type", m.MediaType)
		w.Header().Set("Docker-Content-Digest", ref)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// TestImages makes the images of a release from small programs, and reads and runs them.
func TestImages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tool := filepath.Join(dir, "images")
	compile := exec.Command("go", "build", "-o", tool, "./images")
	compile.Dir, compile.Env = "../../.ci/tools", append(os.Environ(), "GOWORK=off")
	proc.Output(t, compile)

	// Programs that say what they are.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module small\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nimport \"os\"\n\nfunc main() { println(os.Args[0], os.Args[1], \"v0.1.0\") }\n"), 0o600))
	var platforms []string
	for _, arch := range []string{"amd64", "arm64"} {
		folder := filepath.Join(dir, arch)
		for _, program := range []string{"worker", "starter"} {
			cmd := exec.Command("go", "build", "-o", filepath.Join(folder, program), ".")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
			proc.Output(t, cmd)
			for _, name := range []string{"NOTICES-" + program + ".txt", program + ".cdx.json", "LICENSE"} {
				require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600))
			}
		}
		platforms = append(platforms, "linux/"+arch+"="+folder)
	}
	build := func(t *testing.T, name, base string) string {
		out := filepath.Join(t.TempDir(), name+".oci.tar")
		cmd := exec.Command(tool, append([]string{"-name", name, "-version", "v0.1.0", "-revision", commit, "-base", base, "-out", out}, platforms...)...)
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1790000000", "DOCKER_CONFIG="+dir)
		proc.Output(t, cmd)
		return out
	}
	worker, starter := build(t, "worker", "scratch"), build(t, "starter", "scratch")

	t.Run("the worker", func(t *testing.T) {
		image := readArchive(t, worker)
		index, top := image.index(t)
		require.Len(t, index.Manifests, 2)
		require.Equal(t, "application/vnd.oci.image.index.v1+json", top.MediaType)
		require.Equal(t, "0.1.0", top.Annotations["org.opencontainers.image.ref.name"])
		require.Equal(t, "docker.io/threadmill/worker:0.1.0", top.Annotations["io.containerd.image.name"])
		require.Equal(t, commit, index.Annotations["org.opencontainers.image.revision"])
		for _, arch := range []string{"amd64", "arm64"} {
			config, files := image.unpack(t, arch)
			require.Equal(t, "linux "+arch, config.OS+" "+config.Architecture)
			require.Equal(t, "2026-09-21T14:13:20Z", config.Created)
			require.Equal(t, "65532:65532", config.Config.User)
			require.Equal(t, "/srv/threadmill", config.Config.WorkingDir)
			require.Equal(t, []string{"worker"}, config.Config.Cmd)
			require.Empty(t, config.Config.Entrypoint, "Compose and the manifests of Kubernetes name the program")
			require.Contains(t, config.Config.ExposedPorts, "8080/tcp")
			for label, value := range map[string]string{"version": "0.1.0", "revision": commit, "source": "https://github.com/threadmill/threadmill", "licenses": "MIT"} {
				require.Equal(t, value, config.Config.Labels["org.opencontainers.image."+label], label)
			}
			built, err := os.ReadFile(filepath.Join(dir, arch, "worker"))
			require.NoError(t, err)
			require.Equal(t, built, files["usr/local/bin/worker"].content)
			require.Equal(t, int64(0o755), files["usr/local/bin/starter"].Mode)
			for _, name := range []string{"LICENSE", "NOTICES-worker.txt", "NOTICES-starter.txt", "worker.cdx.json", "starter.cdx.json"} {
				require.Equal(t, name, string(files["usr/share/doc/threadmill/"+name].content))
			}
			require.True(t, x509.NewCertPool().AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"].content))
			require.Contains(t, string(files["etc/passwd"].content), "\nthreadmill:x:65532:65532::/srv/threadmill:")
			for folder, mode := range map[string]int64{"srv/threadmill": 0o755, "srv/threadmill/workspace": 0o755, "srv/threadmill/recovery": 0o700} {
				require.Equal(t, mode, files[folder].Mode, folder)
				require.Equal(t, 65532, files[folder].Uid, folder)
			}
			require.Equal(t, int64(0o1777), files["tmp"].Mode)
			for name, file := range files {
				require.Equal(t, int64(1790000000), file.ModTime.Unix(), name)
			}
		}
	})
	t.Run("the starter", func(t *testing.T) {
		config, files := readArchive(t, starter).unpack(t, runtime.GOARCH)
		require.Equal(t, []string{"/usr/local/bin/starter"}, config.Config.Entrypoint)
		require.Equal(t, "65532:65532", config.Config.User)
		require.NotContains(t, files, "usr/local/bin/worker")
		if runtime.GOOS != "linux" {
			return
		}
		program := filepath.Join(t.TempDir(), "starter")
		require.NoError(t, os.WriteFile(program, files[strings.TrimPrefix(config.Config.Entrypoint[0], "/")].content, 0o700))
		said, err := exec.Command(program, "--version").CombinedOutput()
		require.NoError(t, err)
		require.Equal(t, program+" --version v0.1.0\n", string(said))
	})
	t.Run("the same again", func(t *testing.T) {
		first, err := os.ReadFile(worker)
		require.NoError(t, err)
		second, err := os.ReadFile(build(t, "worker", "scratch"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(first, second), "two builds give the same archive")
	})
	t.Run("on a base", func(t *testing.T) {
		base := readArchive(t, starter)
		registry := httptest.NewServer(base)
		t.Cleanup(registry.Close)
		ref := strings.TrimPrefix(registry.URL, "http://") + "/base:1"
		image := readArchive(t, build(t, "worker", ref))
		_, top := base.index(t)
		_, tagged := image.index(t)
		_, pinned := readArchive(t, build(t, "worker", ref+"@"+top.Digest)).index(t)
		require.Equal(t, tagged.Digest, pinned.Digest)
		for _, arch := range []string{"amd64", "arm64"} {
			config, files := image.unpack(t, arch)
			require.Len(t, config.RootFS.DiffIDs, 4, "its layers come after those of the base")
			require.Equal(t, ref, config.Config.Labels["org.opencontainers.image.base.name"])
			require.Equal(t, top.Digest, config.Config.Labels["org.opencontainers.image.base.digest"])
			require.Empty(t, config.Config.Entrypoint)
			require.Equal(t, 2, strings.Count(string(files["etc/passwd"].content), "threadmill:x:"), "after the users of the base")
		}
	})
	t.Run("programs of another platform", func(t *testing.T) {
		cmd := exec.Command(tool, "-name", "starter", "-version", "v0.1.0", "-revision", commit, "-out", filepath.Join(t.TempDir(), "x.tar"), "linux/arm64="+filepath.Join(dir, "amd64"))
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0")
		said, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(said), "is for EM_X86_64")
	})
}
