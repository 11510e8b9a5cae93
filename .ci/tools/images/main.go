// Command images writes the image of a program as an OCI archive, for several platforms, without a daemon. The same programs, base and
// SOURCE_DATE_EPOCH always make the same archive.
//
//	images -name worker -version v0.1.0 -revision COMMIT -out FILE.tar [-base alpine:3.22] linux/amd64=FOLDER linux/arm64=FOLDER
//
// A folder has the programs of its platform, LICENSE, and NOTICES-PROGRAM.txt and PROGRAM.cdx.json of each program.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is fixed, so that volumes and policies can name it.
const user = 65532

const (
	home      = "srv/threadmill"
	documents = "usr/share/doc/threadmill"
	source    = "https://github.com/threadmill/threadmill"
)

// images are those of a release. They are like the targets of the Dockerfile.
var images = map[string]struct {
	programs []string
	home     bool // with folders that the user writes into
	config   v1.Config
	about    string
}{
	"worker": {
		programs: []string{"worker", "starter"},
		home:     true,
		config:   v1.Config{Cmd: []string{"worker"}, WorkingDir: "/" + home, ExposedPorts: map[string]struct{}{"8080/tcp": {}}},
		about:    "Workers and the API of Threadmill: conversations between people and AI agents as durable Temporal workflows",
	},
	"starter": {
		programs: []string{"starter"},
		config:   v1.Config{Entrypoint: []string{"/usr/local/bin/starter"}},
		about:    "The command line client of Threadmill",
	},
}

// builder has what the images of all platforms share.
type builder struct {
	name, version, revision string
	when                    time.Time
	base                    name.Reference // nil: from nothing
	labels                  map[string]string
	temp                    string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	var b builder
	flag.StringVar(&b.name, "name", "", "worker or starter")
	flag.StringVar(&b.version, "version", "", "the version, such as v0.1.0")
	flag.StringVar(&b.revision, "revision", "", "the commit")
	base := flag.String("base", "scratch", "the image to begin with, which is fetched, or scratch")
	out := flag.String("out", "", "the archive to write")
	flag.Parse()
	if _, ok := images[b.name]; !ok || b.version == "" || b.revision == "" || *out == "" || flag.NArg() == 0 {
		return errors.New("-name, -version, -revision, -out and a platform are needed")
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	b.when = time.Unix(epoch, 0).UTC()
	b.describe()
	if *base != "scratch" {
		if err := b.fetch(*base); err != nil {
			return fmt.Errorf("the base %s: %w", *base, err)
		}
	}
	if b.temp, err = os.MkdirTemp("", "images-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.temp)) }()

	index := mutate.Annotations(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), b.labels).(v1.ImageIndex)
	for _, arg := range flag.Args() {
		platform, folder, _ := strings.Cut(arg, "=")
		p, err := v1.ParsePlatform(platform)
		if err != nil {
			return err
		}
		image, err := b.image(*p, folder)
		if err != nil {
			return fmt.Errorf("%s for %s: %w", b.name, platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: p}})
	}
	return b.write(index, *out)
}

// describe sets the labels, which are annotations of the index too.
func (b *builder) describe() {
	b.labels = map[string]string{
		"org.opencontainers.image.title":         "threadmill/" + b.name,
		"org.opencontainers.image.description":   images[b.name].about,
		"org.opencontainers.image.version":       strings.TrimPrefix(b.version, "v"),
		"org.opencontainers.image.revision":      b.revision,
		"org.opencontainers.image.created":       b.when.Format(time.RFC3339),
		"org.opencontainers.image.source":        source,
		"org.opencontainers.image.documentation": source + "/blob/" + b.version + "/docs/deploying.md",
		"org.opencontainers.image.licenses":      "MIT", // NOTICES has those of what is compiled in
	}
}

// fetch finds the base, which is the same one for all platforms.
func (b *builder) fetch(base string) error {
	ref, err := name.ParseReference(base)
	if err != nil {
		return err
	}
	found, err := remote.Head(ref, remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return err
	}
	b.base = ref.Context().Digest(found.Digest.String())
	// A base with a tag and a digest makes the same image as the tag does while it means this digest.
	named, _, _ := strings.Cut(base, "@")
	if ref, err = name.ParseReference(named); err != nil {
		return err
	}
	b.labels["org.opencontainers.image.base.name"] = ref.Name()
	b.labels["org.opencontainers.image.base.digest"] = found.Digest.String()
	return nil
}

// image makes the image of one platform.
func (b *builder) image(p v1.Platform, folder string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if b.base != nil {
		var err error
		image, err = remote.Image(b.base, remote.WithPlatform(p), remote.WithAuthFromKeychain(authn.DefaultKeychain))
		if err != nil {
			return nil, err
		}
	}
	for _, part := range []struct {
		name string
		fill func(*layer) error
	}{
		{"certificates, user and folders", func(l *layer) error { return b.system(l, image) }},
		{"programs and licences", func(l *layer) error { return b.programs(l, p, folder) }},
	} {
		made, err := b.layer(part.fill)
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{Layer: made, History: v1.History{
			Created: v1.Time{Time: b.when}, CreatedBy: ".ci/release images: " + part.name,
		}})
		if err != nil {
			return nil, err
		}
	}
	made, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	c := made.DeepCopy()
	c.Created, c.OS, c.Architecture, c.Variant = v1.Time{Time: b.when}, p.OS, p.Architecture, p.Variant
	c.Config = images[b.name].config
	c.Config.Env = made.Config.Env
	if len(c.Config.Env) == 0 {
		c.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	c.Config.User = fmt.Sprintf("%d:%d", user, user)
	c.Config.Labels = maps.Clone(b.labels)
	return mutate.ConfigFile(image, c)
}

// system fills in what a base has not: roots of certificates, the user and its folders.
func (b *builder) system(l *layer, base v1.Image) error {
	accounts, err := accounts(base)
	if err != nil {
		return err
	}
	for _, folder := range []string{"etc", "etc/ssl", "etc/ssl/certs", "srv", "usr", "usr/local", "usr/local/bin", "usr/share", "usr/share/doc", documents} {
		l.folder(folder, 0o755, 0)
	}
	l.folder("tmp", 0o777|fs.ModeSticky, 0)
	if images[b.name].home {
		l.folder(home, 0o755, user)
		l.folder(home+"/workspace", 0o755, user)
		l.folder(home+"/recovery", 0o700, user)
	}
	l.file("etc/passwd", 0o644, accounts["etc/passwd"]+fmt.Sprintf("threadmill:x:%d:%d::/%s:/bin/sh\n", user, user, home))
	l.file("etc/group", 0o644, accounts["etc/group"]+fmt.Sprintf("threadmill:x:%d:\n", user))
	l.file("etc/ssl/certs/ca-certificates.crt", 0o644, roots())
	return nil
}

// accounts returns the users and groups of a base.
func accounts(base v1.Image) (map[string]string, error) {
	found := map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n"} //nolint:gosec // no password is in there
	content := mutate.Extract(base)
	defer content.Close()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if err == io.EOF {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if _, wanted := found[path.Clean(header.Name)]; wanted {
			text, err := io.ReadAll(files)
			if err != nil {
				return nil, err
			}
			found[path.Clean(header.Name)] = strings.TrimRight(string(text), "\n") + "\n"
		}
	}
}

// roots returns the certificates that Mozilla trusts, but those that it trusts with conditions, which a file cannot state.
func roots() string {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return out.String()
}

// programs fills in the programs of a platform, and what must or should be passed on with them.
func (b *builder) programs(l *layer, p v1.Platform, folder string) error {
	for _, program := range images[b.name].programs {
		if err := static(filepath.Join(folder, program), p); err != nil {
			return err
		}
		l.copy("usr/local/bin/"+program, 0o755, filepath.Join(folder, program))
		for _, file := range []string{"NOTICES-" + program + ".txt", program + ".cdx.json"} {
			l.copy(documents+"/"+file, 0o644, filepath.Join(folder, file))
		}
	}
	l.copy(documents+"/LICENSE", 0o644, filepath.Join(folder, "LICENSE"))
	return nil
}

// static fails for a program that does not run on the platform, or needs libraries, which an image may not have.
func static(program string, p v1.Platform) error {
	file, err := elf.Open(program)
	if err != nil {
		return err
	}
	defer file.Close()
	if machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[p.Architecture]; file.Machine != machine {
		return fmt.Errorf("%s is for %s", program, file.Machine)
	}
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked with libraries: build it with CGO_ENABLED=0", program)
		}
	}
	return nil
}

// layer is a tar of files in the order in which they are added. Its first failure stays.
type layer struct {
	to   *tar.Writer
	when time.Time
	err  error
}

// layer makes a layer of what fill adds.
func (b *builder) layer(fill func(*layer) error) (_ v1.Layer, err error) {
	file, err := os.CreateTemp(b.temp, "layer-")
	if err != nil {
		return nil, err
	}
	l := layer{to: tar.NewWriter(file), when: b.when}
	if err := errors.Join(fill(&l), l.err, l.to.Close(), file.Close()); err != nil {
		return nil, err
	}
	return tarball.LayerFromFile(file.Name(), tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}

func (l *layer) folder(name string, mode fs.FileMode, owner int) {
	bits := int64(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	l.add(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: bits, Uid: owner, Gid: owner}, strings.NewReader(""))
}

func (l *layer) file(name string, mode fs.FileMode, content string) {
	l.add(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode), Size: int64(len(content))}, strings.NewReader(content))
}

func (l *layer) copy(name string, mode fs.FileMode, from string) {
	file, err := os.Open(from)
	if err != nil {
		l.err = errors.Join(l.err, err)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		l.err = errors.Join(l.err, err)
		return
	}
	l.add(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode), Size: info.Size()}, file)
}

func (l *layer) add(header *tar.Header, content io.Reader) {
	if l.err != nil {
		return
	}
	header.ModTime, header.Format = l.when, tar.FormatPAX
	if l.err = l.to.WriteHeader(header); l.err == nil {
		_, l.err = io.Copy(l.to, content)
	}
}

// write writes an index of images as an archive, under names by which Docker, Podman and skopeo know it.
func (b *builder) write(index v1.ImageIndex, out string) error {
	dir := filepath.Join(b.temp, "layout")
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	tag := strings.TrimPrefix(b.version, "v")
	if err := to.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          "docker.io/threadmill/" + b.name + ":" + tag,
	})); err != nil {
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	l := layer{to: tar.NewWriter(file), when: b.when}
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		inside, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			l.folder(inside, 0o755, 0)
		} else {
			l.copy(inside, 0o644, name)
		}
		return l.err
	})
	digest, failed := index.Digest()
	if err := errors.Join(err, failed, l.to.Close(), file.Close()); err != nil {
		return err
	}
	fmt.Printf("%s %s\n", out, digest)
	return nil
}
