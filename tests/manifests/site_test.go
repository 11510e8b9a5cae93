package manifests

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/browser"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// The folder of the site, and the program that builds it.
const (
	siteDir   = "deploy/site"
	vitepress = "node_modules/vitepress/bin/vitepress.js"
)

// listed returns the documents of docs/ that docs/README.md lists, by section.
func listed(t *testing.T) (sections []string, documents map[string][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/README.md")
	require.NoError(t, err)
	documents = map[string][]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		name, rows, _ := strings.Cut(section, "\n")
		sections = append(sections, name)
		for _, row := range regexp.MustCompile(`(?m)^\| \[.+?\]\((.+?)\) \| \S.* \|$`).FindAllStringSubmatch(rows, -1) {
			require.FileExists(t, filepath.Join("../../docs", row[1]))
			documents[name] = append(documents[name], row[1])
		}
	}
	return sections, documents
}

// TestSections: each document is in one section of docs/README.md, from which the site has its navigation.
func TestSections(t *testing.T) {
	t.Parallel()
	sections, documents := listed(t)
	require.Equal(t, []string{"Start", "Guides", "Reference", "Operations", "Decisions"}, sections)
	times := map[string]int{}
	for _, section := range sections {
		require.NotEmpty(t, documents[section], section)
		for _, document := range documents[section] {
			times[document]++
		}
	}
	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, file := range files {
		if name := filepath.Base(file); name != "README.md" {
			require.Equal(t, 1, times[name], "docs/README.md lists %s once", name)
		}
	}
}

// TestSite builds the site and looks at it, in a browser too, at an address with a path.
func TestSite(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "site")
	build := testenv.NodeIn(t, siteDir, vitepress, "build", "--outDir", out)
	build.Env = append(os.Environ(), "THREADMILL_VERSION=v0.1.0")
	proc.Output(t, build)
	site := os.DirFS(out)
	_, documents := listed(t)

	t.Run("pages", func(t *testing.T) {
		for _, in := range documents {
			for _, document := range in {
				if !strings.HasPrefix(document, "../") {
					require.Contains(t, readSite(t, site, strings.TrimSuffix(document, ".md")+".html"), "</h1>", document)
					require.Regexp(t, `^# `, readSite(t, site, document))
				}
			}
		}
		require.Contains(t, readSite(t, site, "index.html"), "runs conversations between people and AI agents")
	})
	t.Run("links", func(t *testing.T) { followLinks(t, site) })
	t.Run("for models", func(t *testing.T) {
		index := readSite(t, site, "llms.txt")
		require.Regexp(t, `^# Threadmill\n\n> Durable .*\n\n## Start\n\n- \[`, index)
		full := readSite(t, site, "llms-full.txt")
		links := regexp.MustCompile(`(?m)^- \[.+?\]\((.+?)\): [A-Z`+"`].*[.?]$").FindAllStringSubmatch(index, -1)
		require.Len(t, links, strings.Count(index, "\n- "), "each line has a description: %s", index)
		for _, in := range documents {
			for _, document := range in {
				if outside, is := strings.CutPrefix(document, "../"); is {
					document = "https://github.com/threadmill/threadmill/blob/v0.1.0/" + outside
				} else {
					require.Contains(t, full, readSite(t, site, document))
				}
				require.Contains(t, index, "]("+document+"): ")
			}
		}
		require.Contains(t, index, "- [Deploying](deploying.md): A thread can run for months, so a new version of the workers always finds threads that an older one has begun.\n")
	})
	server := httptest.NewServer(http.StripPrefix("/any/base", http.FileServerFS(site)))
	t.Cleanup(server.Close)
	t.Run("for everybody", func(t *testing.T) {
		tab := browser.New(t).Open(server.URL + "/any/base/deploying.html")
		tab.Sees("h1", "Deploying")
		tab.Accessible()
	})
	t.Run("in a browser", func(t *testing.T) {
		b := browser.New(t)
		for _, width := range []int64{1440, 390} {
			tab := b.Open(server.URL + "/any/base/index.html")
			tab.Do(chromedp.EmulateViewport(width, 900))
			for _, page := range []string{"index", "documents", "configuration", "conformance", "deploying"} {
				tab.Do(chromedp.Navigate(fmt.Sprintf("%s/any/base/%s.html", server.URL, page)))
				tab.Sees("h1", "")
				require.LessOrEqual(t, browser.Evaluate[int](tab, "document.documentElement.scrollWidth"), int(width), "%s scrolls aside", page)
				if *browser.Pictures != "" {
					tab.Picture(filepath.Join(*browser.Pictures, fmt.Sprintf("site-%s-%d.png", page, width)))
				}
			}
			tab.Click("main a", "Operations")
			tab.Until(`location.pathname === "/any/base/operations.html" && document.querySelector("h1")?.textContent.startsWith("Operations")`)
			tab.Click("button.VPNavBarSearchButton, .DocSearch-Button", "")
			tab.Fill(`input[type="search"]`, "continue as new")
			tab.Sees(".result", "When to stop a build")
			if *browser.Pictures != "" {
				tab.Picture(filepath.Join(*browser.Pictures, fmt.Sprintf("site-search-%d.png", width)))
			}
		}
	})
}

// TestSiteDeadLinks: a link to what is not there, on the site or outside of it, fails the build.
func TestSiteDeadLinks(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"site": "[x](nowhere.md)", "repository": "[x](../examples/nowhere.go)"} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for dir, links := range map[string]string{".": "*", "deploy": "*", siteDir: "*"} {
				require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o750))
				entries, err := filepath.Glob(filepath.Join("../..", dir, links))
				require.NoError(t, err)
				for _, entry := range entries {
					if base := filepath.Base(entry); !slices.Contains([]string{"docs", "deploy", "site", ".vitepress", "dist"}, base) {
						target, err := filepath.Abs(entry)
						require.NoError(t, err)
						require.NoError(t, os.Symlink(target, filepath.Join(root, dir, base)))
					}
				}
			}
			require.NoError(t, os.CopyFS(filepath.Join(root, "docs"), os.DirFS("../../docs")))
			require.NoError(t, os.CopyFS(filepath.Join(root, siteDir, ".vitepress"), os.DirFS(filepath.Join("../..", siteDir, ".vitepress"))))
			require.NoError(t, os.WriteFile(filepath.Join(root, "docs", "broken.md"), []byte("# Broken\n\n"+text+"\n"), 0o600))
			build := testenv.NodeIn(t, siteDir, vitepress, "build", "--outDir", filepath.Join(root, "out"))
			build.Dir = filepath.Join(root, siteDir)
			said, err := build.CombinedOutput()
			require.Error(t, err, "%s", said)
			require.Contains(t, string(said), "docs/broken.md: nothing is at the link", "%s", said)
		})
	}
}

func readSite(t *testing.T, site fs.FS, name string) string {
	t.Helper()
	text, err := fs.ReadFile(site, name)
	require.NoError(t, err)
	return string(text)
}

// followLinks fails for a link of a page that is absolute, or leads to no file or to no element of the site.
func followLinks(t *testing.T, site fs.FS) {
	pages, err := fs.Glob(site, "*.html")
	require.NoError(t, err)
	ids, links := map[string]map[string]bool{}, map[string][]string{}
	for _, page := range pages {
		file, err := site.Open(page)
		require.NoError(t, err)
		document, err := html.Parse(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		ids[page] = map[string]bool{}
		for node := range document.Descendants() {
			for _, a := range node.Attr {
				switch a.Key {
				case "id":
					ids[page][a.Val] = true
				case "href", "src":
					links[page] = append(links[page], a.Val)
				}
			}
		}
	}
	followed := 0
	for page, of := range links {
		for _, link := range of {
			to, err := url.Parse(link)
			require.NoError(t, err)
			if to.IsAbs() {
				continue
			}
			require.False(t, strings.HasPrefix(link, "/"), "%s: %s depends on the address of the site", page, link)
			target := path.Join(path.Dir(page), to.Path)
			if to.Path == "" {
				target = page
			} else if strings.HasSuffix(to.Path, "/") || target == "." {
				target = path.Join(target, "index.html")
			}
			_, err = fs.Stat(site, target)
			require.NoError(t, err, "%s: %s", page, link)
			if to.Fragment != "" {
				require.True(t, ids[target][to.Fragment], "%s: nothing in %s is called %s", page, target, to.Fragment)
			}
			followed++
		}
	}
	require.Greater(t, followed, 2000)
}
