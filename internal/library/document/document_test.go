package document_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/threadmill/threadmill/internal/library/document"
	"github.com/threadmill/threadmill/internal/library/document/documenttest"
	"github.com/threadmill/threadmill/internal/library/document/format"
)

func read(t *testing.T, f document.File) (document.Text, error) {
	t.Helper()
	return document.Read(t.Context(), f, document.Limits{})
}

// outline writes blocks as lines: headings with #, pages in brackets.
func outline(blocks []document.Block) string {
	var out []string
	for _, b := range blocks {
		line := strings.ReplaceAll(b.Text, "\n", "⏎")
		if b.Level > 0 {
			line = strings.Repeat("#", b.Level) + " " + line
		}
		if b.Page > 0 {
			line = fmt.Sprintf("[%d] %s", b.Page, line)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, media, content string
		format                     format.Format
		title, want                string
	}{
		{"text", "a.txt", "", "One\r\nline.\r\n\r\nTwo.\n\n\n", format.PlainText, "", "One⏎line.\nTwo."},
		{"text without a name", "", "", "Just text.", format.PlainText, "", "Just text."},
		{"UTF-16", "a.txt", "", "\xFF\xFEh\x00i\x00", format.PlainText, "", "hi"},
		{"UTF-8 that begins with ASCII", "a.txt", "", strings.Repeat("a", 2000) + " grüße", format.PlainText, "", strings.Repeat("a", 2000) + " grüße"},
		{"Latin-1 that nothing states", "a.txt", "", "Viele Gr\xFC\xDFe aus M\xFCnchen. Wir m\xF6chten die gr\xF6\xDFten \xC4pfel.", format.PlainText, "", "Viele Grüße aus München. Wir möchten die größten Äpfel."},
		{"Latin-1", "a.txt", "text/plain; charset=iso-8859-1", "gr\xFC\xDFe", format.PlainText, "", "grüße"},
		{"control characters", "a.txt", "", "a\x1b[31mb\x07", format.PlainText, "", "a[31mb"},
		{
			"Markdown", "a.md", "", "# The guide\n\nIntro\nof two lines.\n\nSetext\n------\n\n- one\n- two\n\n    more\n\n```go\nfunc main() {}\n\n# no heading\n```\n\n> quoted\n\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", format.Markdown, "The guide",
			"# The guide\nIntro⏎of two lines.\n## Setext\n- one⏎- two⏎⏎    more\n```go⏎func main() {}⏎⏎# no heading⏎```\n> quoted⏎⏎---\n| a | b |⏎|---|---|⏎| 1 | 2 |",
		},
		{
			"HTML", "", "text/html", "<title>Page</title><nav>menu</nav><main><h1>Hello</h1><p>One <b>bold</b> <a href='/x'>link</a>.</p><script>x()</script><table><tr><th>a</th></tr><tr><td>1</td></tr></table></main><footer>foot</footer>", format.HTML, "Page",
			"# Hello\nOne **bold** [link](/x).\n| a |⏎|---|⏎| 1 |",
		},
		{"HTML in a form", "a.html", "", "<form><p>One.</p><input value=x></form>", format.HTML, "", "One."},
		{"CSV", "a.csv", "", "name;city\nann;\"Ulm\nSüd\"\n;\nben;Rom;x\n", format.CSV, "", "name: ann⏎city: Ulm⏎Süd\nname: ben⏎city: Rom⏎x"},
		{"CSV that states its separator", "a.csv", "", "sep=;\r\nname;city\r\nann;Ulm, Süd\r\n", format.CSV, "", "name: ann⏎city: Ulm, Süd"},
		{"CSV with quotes within", "a.csv", "", "name,note\nann,\"he said \"\"5\"\" pipe\"\nben,5\" pipe\n", format.CSV, "", "name: ann⏎note: he said \"5\" pipe\nname: ben⏎note: 5\" pipe"},
		{"an empty main element", "a.html", "", "<main id=app></main><article><p>It takes thirty days.</p></article>", format.HTML, "", "It takes thirty days."},
		{"a main element with a link only", "a.html", "", "<main><a href=#c>Skip</a></main><div id=c><p>It takes thirty days.</p></div>", format.HTML, "", "[Skip](#c)\nIt takes thirty days."},
		{"a hidden main element", "a.html", "", "<main hidden><p>Old.</p></main><main><p>It takes thirty days.</p></main>", format.HTML, "", "It takes thirty days."},
		{"an article in a footer", "a.html", "", "<p>short</p><footer><p>It takes thirty days.</p></footer><nav>Home</nav>", format.HTML, "", "short\nIt takes thirty days.\nHome"},
		{"details", "a.html", "", "<details><summary>Refund</summary>It takes thirty days.</details>", format.HTML, "", "Refund\nIt takes thirty days."},
		{"a page in windows-1251", "a.html", "", "<meta charset=windows-1251><p>\xC2\xEE\xE7\xE2\xF0\xE0\xF2</p>", format.HTML, "", "Возврат"},
		{"a table with spans", "a.html", "", "<table><tr><th>Plan<th>Fee</tr><tr><td rowspan=2>Gold<td>10</tr><tr><td>20</tr></table>", format.HTML, "", "| Plan | Fee |⏎|------|-----|⏎| Gold | 10  |⏎|      | 20  |"},
		{"source code", "a.go", "", "package a\n\n// F is f.\nfunc F() {\n\n\treturn\n}\n\nvar x = 1\n", format.Code, "", "package a\n// F is f.⏎func F() {⏎⏎\treturn⏎}\nvar x = 1"},
		{"PDF", "a.pdf", "", documenttest.PDF("Title of it", "BT /F1 12 Tf 72 720 Td (First page.) Tj ET", "BT /F1 12 Tf 72 720 Td (Second.) Tj ET"), format.PDF, "Title of it", "[1] First page.\n[2] Second."},
		{
			"a PDF with hyphens at the ends of lines", "a.pdf", "", documenttest.PDF("", "BT /F1 12 Tf 14 TL 72 720 Td (Hy-) ' (phen-) ' (ated E-) ' (Mail, COVID-) ' (19, IN-) ' (FORMATION, Ein-) ' (und Ausgang.) ' ET"), format.PDF, "",
			"[1] Hyphenated E-Mail, COVID-19, INFORMATION, Ein- und Ausgang.",
		},
		{"soft hyphens", "a.html", "", "<p>Ver&shy;lust</p>", format.HTML, "", "Verlust"},
		{
			"DOCX", "", "", documenttest.DOCX(`<w:p><w:pPr><w:pStyle w:val="berschrift2"/></w:pPr><w:r><w:t>Kapitel</w:t></w:r></w:p><w:p><w:r><w:t>Ein </w:t></w:r><w:r><w:t>Satz.</w:t><w:br/><w:t>Mehr</w:t></w:r></w:p>` +
				`<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>`), format.DOCX, "Akte", "## Kapitel\nEin Satz.⏎Mehr\na | b",
		},
		{
			"text boxes and changes of Word", "", "", documenttest.DOCX(`<w:p><w:r><w:t>Before.</w:t></w:r><w:r><AlternateContent><Choice><w:txbxContent><w:p><w:r><w:t>Thirty days.</w:t></w:r></w:p></w:txbxContent></Choice>` +
				`<Fallback><w:txbxContent><w:p><w:r><w:t>Thirty days.</w:t></w:r></w:p></w:txbxContent></Fallback></AlternateContent></w:r><w:r><w:t> After.</w:t></w:r></w:p>` +
				`<w:p><w:moveFrom><w:r><w:t>Moved.</w:t></w:r></w:moveFrom></w:p><w:p><w:moveTo><w:r><w:t>Moved.</w:t></w:r></w:moveTo></w:p>` +
				`<w:p><w:del><w:r><w:delText>100</w:delText></w:r></w:del><w:ins><w:r><w:t>200 e</w:t><w:noBreakHyphen/><w:t>mails</w:t></w:r></w:ins></w:p>`), format.DOCX, "Akte", "Thirty days.\nBefore. After.\nMoved.\n200 e-mails",
		},
		{
			"tables in tables of Word", "", "", documenttest.DOCX(`<w:tbl><w:tr><w:tc><w:p><w:r><w:t>Fee</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>outer</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>one</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>two</w:t></w:r></w:p></w:tc></w:tr></w:tbl>` +
				`<w:p><w:r><w:t>tail</w:t></w:r></w:p></w:tc></w:tr></w:tbl>`), format.DOCX, "Akte", "Fee | outer one | two tail",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := read(t, document.File{Name: c.file, MediaType: c.media, Content: []byte(c.content)})
			require.NoError(t, err)
			require.Equal(t, []string{string(c.format), c.title}, []string{string(got.Format), got.Title})
			require.Equal(t, c.want, outline(got.Blocks))
		})
	}
}

// TestReadRealFiles reads the documents in testdata, which real programs made, and compares them word by word with what a person
// reads in them. In a text without spaces between words, spaces are not compared.
func TestReadRealFiles(t *testing.T) {
	t.Parallel()
	for language, spaced := range map[string]bool{"en": true, "de": true, "ru": true, "ja": false, "zh": false, "th": false} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(filepath.Join("testdata", language+".txt"))
			require.NoError(t, err)
			title, _, _ := strings.Cut(string(want), "\n")
			files, err := filepath.Glob(filepath.Join("testdata", language+"*"))
			require.NoError(t, err)
			formats := map[format.Format]bool{}
			for _, file := range files {
				if ext := filepath.Ext(file); ext == ".txt" || ext == ".roff" {
					continue
				}
				raw, err := os.ReadFile(file)
				require.NoError(t, err)
				got, err := read(t, document.File{Name: file, Content: raw})
				require.NoError(t, err, file)
				formats[format.Format(got.Format)] = true
				var text, headings strings.Builder
				for _, b := range got.Blocks {
					text.WriteString(b.Text + "\n")
					headings.WriteString(strings.Repeat("#", b.Level))
				}
				if got.Format != string(format.PDF) {
					require.Equal(t, title, got.Title, file)
					require.Equal(t, "#####", headings.String(), "%s: a heading of the first level, two of the second", file)
				}
				require.Equal(t, words(string(want), spaced), words(text.String(), spaced), file)
			}
			require.Len(t, formats, 3)
		})
	}
}

// words returns the words of a text without what only marks lists, tables and emphasis.
func words(text string, spaced bool) []string {
	out := slices.DeleteFunc(strings.Fields(strings.ReplaceAll(text, "*", "")), func(word string) bool {
		return strings.Trim(word, "|-•") == ""
	})
	if !spaced {
		return []string{strings.Join(out, "")}
	}
	return out
}

// TestReadRejects: what cannot be read has a reason.
func TestReadRejects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		file document.File
		want string
	}{
		{"nothing", document.File{Name: "a.txt"}, "the document has no text"},
		{"only space", document.File{Name: "a.md", Content: []byte(" \n\n")}, "the document has no text"},
		{"an image", document.File{Name: "a.png", Content: []byte("\x89PNG\r\n\x1a\n\x00")}, "the format of the document (image/png) cannot be read"},
		{"a program as text", document.File{Name: "a.txt", Content: []byte("\x7fELF\x00\x00")}, "the document is no text: it has binary content"},
		{"a few words in no known charset", document.File{Name: "a.csv", Content: []byte("Imi\xEA;Miasto\n\xA3ukasz;\xA3\xF3d\x9F\n")}, "state it in the media type"},
		{"another charset than it says", document.File{Name: "a.txt", MediaType: "text/plain; charset=utf-8", Content: bytes.Repeat([]byte("\xE9t\xE9 "), 100)}, "the document is not in the charset utf-8, in which it says to be"},
		{"tables of a million cells", document.File{Name: "a.html", Content: []byte("<table>" + strings.Repeat("<tr><td colspan=1000>x", 1001) + "</table>")}, "more than 500000 cells"},
		{"too large", document.File{Name: "a.txt", Content: make([]byte, 33<<20)}, "the limit is 33554432"},
		{"too much text", document.File{Name: "a.txt", Content: bytes.Repeat([]byte("word "), 2<<20)}, "more than 8388608 bytes of text"},
		{"too much Markdown", document.File{Name: "a.md", Content: bytes.Repeat([]byte("- a\n"), 8<<20)}, "bytes of markup; the limit is 2097152"},
		{"too much HTML", document.File{Name: "a.html", Content: bytes.Repeat([]byte("<br>"), 1<<20)}, "4194304 bytes of markup; the limit is 2097152"},
		{"a million cells", document.File{Name: "a.csv", Content: bytes.Repeat([]byte("1,2,3,4,5,6,7,8,9,10\n"), 100_000)}, "more than 500000 cells"},
		{"a PDF of 10,000 pages", document.File{Name: "a.pdf", Content: []byte(documenttest.PDF("", make([]string, 10_000)...))}, "the document has 10000 pages; the limit is 2000"},
		{"a PDF that unpacks to a gigabyte", document.File{Name: "a.pdf", Content: []byte(documenttest.PDF("", strings.Repeat("BT (x) Tj ET\n", 2<<20)))}, "the document has no text"},
		{"a PDF without text", document.File{Name: "a.pdf", Content: []byte(documenttest.PDF("", ""))}, "the document has no text"},
		{"no PDF", document.File{Name: "a.pdf", Content: []byte("hello")}, "the document is no valid PDF: "},
		{"no DOCX", document.File{Name: "a.docx", Content: []byte("hello")}, "the document is no valid DOCX: "},
		{"another archive", document.File{Name: "a.docx", Content: documenttest.Zip(map[string]string{"x": "y"})}, "it has no text document inside"},
		{"a DOCX that unpacks to 100 MB", document.File{Name: "a.docx", Content: documenttest.Zip(map[string]string{"word/document.xml": "<d>" + strings.Repeat(" ", 100<<20) + "</d>"})}, "unpacks to more than"},
		{"a DOCX with deep elements", document.File{Name: "a.docx", Content: documenttest.Zip(map[string]string{"word/document.xml": strings.Repeat("<d>", 1<<20)})}, "nested more than 256 deep"},
		{"HTML with deep elements", document.File{Name: "a.html", Content: []byte(strings.Repeat("<div>", 1<<18))}, "the document is no valid HTML: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, c.file)
			require.ErrorContains(t, err, c.want)
			var reason *document.Error
			require.ErrorAs(t, err, &reason)
		})
	}
}

// TestReadCharsets reads tables as programs save them in several countries, with nothing that says how.
func TestReadCharsets(t *testing.T) {
	t.Parallel()
	for charset, text := range map[string]string{
		"windows-1252": "Name;Ort;Betrag\nJürgen Groß;München;1.234,50 €\n",
		"windows-1250": "Imię;Tekst\nZażółć;Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw\n",
		"windows-1251": "Имя;Город;Сумма\nИван Петров;Москва;1200\nАнна Смирнова;Казань;900\n",
		"koi8-r":       "Имя;Город;Сумма\nИван Петров;Москва;1200\nАнна Смирнова;Казань;900\n",
		"windows-1253": "Όνομα;Πόλη\nΓιώργος;Αθήνα\n",
		"gb18030":      "姓名,部门,职位\n张伟,市场部,经理\n李娜,财务部,主管\n",
		"shift_jis":    "氏名,部署,役職\n山田太郎,営業部,部長\n鈴木花子,経理部,主任\n",
		"euc-jp":       "氏名,部署,役職\n山田太郎,営業部,部長\n鈴木花子,経理部,主任\n",
		"euc-kr":       "이름,도시\n김철수,서울\n",
		"utf-16le":     "\uFEFFName\tCity\nJürgen\tKöln\n",
	} {
		encoding, err := htmlindex.Get(charset)
		require.NoError(t, err)
		raw, err := encoding.NewEncoder().String(text)
		require.NoError(t, err)
		got, err := document.Parse(document.File{Name: "a.csv", MediaType: "text/csv", Content: []byte(raw)})
		require.NoError(t, err, charset)
		want, err := document.Parse(document.File{Name: "a.csv", Content: []byte(text)})
		require.NoError(t, err)
		require.Equal(t, outline(want.Blocks), outline(got.Blocks), charset)
	}
}

// small are documents of all formats, by the name of their files.
var small = map[string]string{
	"a.pdf":  documenttest.PDF("Title", "BT /F1 12 Tf 72 720 Td (First page.) Tj ET"),
	"a.docx": documenttest.DOCX(`<w:p><w:r><w:t>Ein Satz.</w:t></w:r></w:p>`),
	"a.md":   "# A\n\n- b\n  - c\n\n```\nd\n```\n> e\n",
	"a.html": "<h1>a</h1><table><tr><td>b<ul><li>c</table>",
	"a.csv":  "a,b\n\"c\",d\n",
	"a.txt":  "\xFF\xFEa\x00\n\x00",
	"a.go":   "package a\n\n// b\n",
}

// FuzzRead reads what strangers send. A PDF is read by a process, since PDFium may loop.
func FuzzRead(f *testing.F) {
	for name, content := range small {
		f.Add(name, "", []byte(content))
	}
	f.Add("", "text/html; charset=shift_jis", []byte("<p>\x83\x65"))
	f.Fuzz(func(t *testing.T, name, mediaType string, content []byte) {
		file := document.File{Name: name, MediaType: mediaType, Content: content}
		read := document.Parse
		if kind, _ := format.Detect(name, mediaType, content); kind == format.PDF {
			read = func(f document.File) (document.Text, error) { return document.Read(t.Context(), f, document.Limits{}) }
		}
		got, err := read(file)
		if err != nil {
			var reason *document.Error
			require.ErrorAs(t, err, &reason)
			require.NotContains(t, reason.Reason, "\n")
		}
		for _, b := range got.Blocks {
			require.True(t, utf8.ValidString(b.Text))
			require.NotEmpty(t, strings.TrimSpace(b.Text))
		}
	})
}

// TestReadBroken reads documents of which bytes were changed: each has a text or a reason.
func TestReadBroken(t *testing.T) {
	t.Parallel()
	for name, content := range small {
		seeds := uint64(300)
		if name == "a.pdf" {
			seeds = 10 // PDFium starts for each
		}
		for seed := range seeds {
			r := rand.New(rand.NewPCG(seed, 7))
			raw := []byte(content)
			for range 1 + r.IntN(8) {
				switch i := r.IntN(len(raw)); r.IntN(3) {
				case 0:
					raw[i] = byte(r.IntN(256))
				case 1:
					raw = raw[:max(1, i)]
				default:
					raw = append(raw[:i:i], raw[i/2:]...)
				}
			}
			if _, err := document.Parse(document.File{Name: name, Content: raw}); err != nil {
				var reason *document.Error
				require.ErrorAs(t, err, &reason, "%s, seed %d", name, seed)
			}
		}
	}
}

// TestReadLarge reads what is large or deep in every way: with a parser that takes quadratic time, the test does not end.
func TestReadLarge(t *testing.T) {
	t.Parallel()
	var indented strings.Builder
	for i := range 1000 {
		indented.WriteString(strings.Repeat(" ", 2*i) + "- a\n")
	}
	const deep = "nested more than 100 deep"
	for name, c := range map[string]struct{ content, want string }{
		"quotes.md":     {strings.Repeat("> ", 1<<19), deep},
		"deep lists.md": {strings.Repeat("- ", 1<<16) + "a", deep},
		"indented.md":   {indented.String(), deep},
		"lists.md":      {strings.Repeat("- a\n", 1<<18), ""},
		"brackets.md":   {strings.Repeat("[", 1<<20), ""},
		"fences.md":     {strings.Repeat("```\n", 1<<18), ""},
		"headings.md":   {strings.Repeat("# a\n", 1<<18), ""},
		"p.html":        {strings.Repeat("<p>a</p>", 1<<16), ""},
		"b.html":        {strings.Repeat("<b>a", 500) + strings.Repeat("<p>a", 1<<10), ""},
		"table.html":    {"<table>" + strings.Repeat("<tr><td>a<td>b", 1<<14), ""},
		"list.html":     {strings.Repeat("<ul><li>a", 200), deep},
		"quotes.csv":    {strings.Repeat("\"", 1<<20), "the document has no text"},
		"lines.go":      {strings.Repeat("a\n\n", 1<<18), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := document.Parse(document.File{Name: name, Content: []byte(c.content)})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestReadDocs reads the project's own documents, as people's are.
func TestReadDocs(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	got, err := read(t, document.File{Name: "README.md", Content: raw})
	require.NoError(t, err)
	require.Equal(t, "Threadmill", got.Title)
	var all strings.Builder
	for _, b := range got.Blocks {
		all.WriteString(b.Text)
	}
	for word := range strings.FieldsSeq(string(raw)) {
		if strings.Trim(word, "#-=") != "" {
			require.Contains(t, all.String(), word)
		}
	}
}
